"""What leaves the house: each form of the report against the layers and the page, read by other means than it was written."""

import io
import json
import re
import sqlite3
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pytest
import rasterio
import shapely
from django.test import Client
from pypdf import PdfReader

from apps.accounts.models import Project, User
from apps.accounts.services import token_create
from apps.artifacts.blobs import blob_path
from apps.imagery.hints import SceneHints
from apps.imagery.models import Scene
from apps.review.services import verdict_give
from apps.runs import selectors, services, tasks
from apps.runs.models import Run
from tests.integration.conftest import SAMPLES
from tests.scenes import scene_of_file

FORMS = ("pdf", "csv", "geojson", "gpkg", "coco", "json", "provenance")


@pytest.fixture
def client(analyst: User) -> Client:
    found = Client()
    found.force_login(analyst)
    return found


@pytest.fixture
def trees(analyst: User, project: Project) -> Run:
    """Trees of a NEON picture with a CRS, found by the shipped method."""
    scene = scene_of_file(project=project, path=SAMPLES / "OSBS_029.tif")
    return asked(analyst, project, scene, "How many trees are there?")


def asked(analyst: User, project: Project, scene: Scene, text: str, **more: Any) -> Run:
    run = services.run_start(user=analyst, project=project, text=text, scenes=[scene], enqueue=False, **more)
    assert services.run_execute_now(run_id=run.pk)
    run.refresh_from_db()
    return run


def confirmed(analyst: User, run: Run) -> None:
    """A person calls every observation right, so that the verified history holds them."""
    for observation_id in selectors.run_state(run.pk).observations:
        verdict_give(user=analyst, observation_id=observation_id, value="accept", note="seen", enqueue=False)
    run.refresh_from_db()


def kept_boxes(run: Run) -> list[Any]:
    """The features of the run's objects layers as the store holds them: plain JSON, read here."""
    out = []
    for held in selectors.run_state(run.pk).observations.values():
        for ref in held.observation.result.layers:
            if ref.kind == "boxes" and ref.label != "candidates":
                out += json.loads(blob_path(ref.artifact).read_bytes())["features"]
    return out


@pytest.fixture(autouse=True)
def made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that makes the PDF as soon as it is asked for."""
    monkeypatch.setattr(tasks.report_make, "delay", tasks.report_make)


def taken(client: Client, run: Run, kind: str) -> Any:
    found = client.get(f"/runs/{run.pk}/report/?as={kind}")
    return client.get(f"/runs/{run.pk}/report/?as={kind}") if found.status_code == 302 else found


# --- GPKG
def test_gpkg_holds_every_vector_layer_on_the_ground_with_both_marks(
    client: Client, analyst: User, trees: Run, tmp_path: Path
) -> None:
    confirmed(analyst, trees)
    answer = taken(client, trees, "gpkg")
    assert answer.status_code == 200 and answer["Content-Type"] == "application/geopackage+sqlite3"
    path = tmp_path / "x.gpkg"
    path.write_bytes(answer.content)
    state = selectors.run_state(trees.pk)
    (held,) = [h for h in state.observations.values() if h.observation.tool == "perceive"]
    refs = [ref for h in state.observations.values() for ref in h.observation.result.layers if "json" in ref.media_type]
    with sqlite3.connect(path) as db:
        tables = dict(db.execute("SELECT table_name, srs_id FROM gpkg_contents").fetchall())
        assert len(tables) == len(refs)
        with rasterio.open(SAMPLES / "OSBS_029.tif") as scene:
            assert set(tables.values()) == {scene.crs.to_epsg()}
            transform = scene.transform
        name = next(n for n in tables if n.endswith("_boxes") and "candidates" not in n)
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({name})")]
        assert {"label", "score", "observation", "decision", "p_correct", "verdict", "verdict_by", "in_history"} <= set(columns)
        rows = db.execute(f"SELECT score, observation, decision, verdict, verdict_by FROM {name}").fetchall()
    features = kept_boxes(trees)
    assert held.decision is not None
    assert [r[0] for r in rows] == [f["properties"]["score"] for f in features]
    assert {r[1:] for r in rows} == {(held.id, held.decision.decision, "accept", "analyst")}
    found = shapely.from_wkb(pyogrio.raw.read(path, layer=name)[2])
    drawn = tmp_path / "x.geojson"
    drawn.write_bytes(taken(client, trees, "geojson").content)
    assert pyogrio.read_info(drawn)["crs"] == "EPSG:4326" and "description" not in json.loads(drawn.read_bytes())
    for one, feature in zip(found, features, strict=True):
        a, b, c, d, e, f = transform[:6]
        expected = [(a * x + b * y + c, d * x + e * y + f) for x, y in feature["geometry"]["coordinates"][0]]
        assert np.allclose(shapely.get_coordinates(one), expected, atol=1e-6)


def test_gpkg_of_a_picture_without_crs_says_that_it_is_in_pixels(
    client: Client, analyst: User, project: Project, tmp_path: Path
) -> None:
    from PIL import Image

    with Image.open(SAMPLES / "2019_YELL_2_541000_4977000_image_crop.png") as picture:
        picture.convert("RGB").save(tmp_path / "crop.png")
    scene = scene_of_file(project=project, path=tmp_path / "crop.png", hints=SceneHints(gsd_m=0.1))
    run = asked(analyst, project, scene, "How many trees are there?")
    path = tmp_path / "x.gpkg"
    path.write_bytes(taken(client, run, "gpkg").content)
    with sqlite3.connect(path) as db:
        told = db.execute("SELECT table_name, srs_id, description FROM gpkg_contents").fetchall()
        systems = dict(db.execute("SELECT srs_id, srs_name FROM gpkg_spatial_ref_sys").fetchall())
    assert told and all(srs == -1 and "in pixels and not in metres; no CRS" in about for _, srs, about in told)
    assert systems[-1] == "Undefined Cartesian SRS"
    name = next(n for n, _, _ in told if "candidates" not in n)
    found = shapely.from_wkb(pyogrio.raw.read(path, layer=name)[2])
    assert len(found) == len(kept_boxes(run)) > 0
    for one, feature in zip(found, kept_boxes(run), strict=True):
        assert shapely.get_coordinates(one).tolist() == feature["geometry"]["coordinates"][0]
    # GeoJSON would be taken for longitude and latitude
    confirmed(analyst, run)
    drawn = tmp_path / "x.geojson"
    drawn.write_bytes(taken(client, run, "geojson").content)
    assert json.loads(drawn.read_bytes())["description"].startswith("Pixel coordinates")
    assert pyogrio.read_info(drawn)["crs"].startswith('LOCAL_CS["pixels of the picture",UNIT["pixel",1]')


def test_gpkg_holds_the_region_and_the_vector_file_that_was_measured(
    client: Client, analyst: User, project: Project, fish: Scene, tmp_path: Path
) -> None:
    from apps.imagery.vector_layers import vector_add_now

    bounds = fish.scene_info.grid.lonlat_bounds()
    west, south, east, north = bounds[0] + 0.002, bounds[1] + 0.002, bounds[2] - 0.002, bounds[3] - 0.002
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    features: list[dict[str, Any]] = [
        {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [[*ring[:2], corner, ring[0]]]},
         "properties": {"name": name, "fid": 3, "Geom": "x", "crop": "älv"}}
        for corner, name in ((ring[2], "north"), ([west, (south + north) / 2], "south"))
    ]  # fmt: skip
    drawn = tmp_path / "sites, DROP TABLE x.geojson"
    drawn.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    vector = vector_add_now(project=project, path=drawn, name=drawn.name)
    run = asked(
        analyst, project, fish, f"Which of the polygons in {drawn.name} has the highest NDVI?",
        region={"type": "Polygon", "coordinates": [ring]}, vectors=[vector.vector_info],
    )  # fmt: skip
    path = tmp_path / "x.gpkg"
    answer = taken(client, run, "gpkg")
    assert answer.status_code == 200, answer.content[:2000]
    path.write_bytes(answer.content)
    meta, _, shapes, _ = pyogrio.raw.read(path, layer="region")
    assert meta["crs"] == "EPSG:4326"
    assert shapely.get_coordinates(shapely.from_wkb(shapes)[0]).tolist() == ring
    meta, _, shapes, columns = pyogrio.raw.read(path, layer="input_sites_drop_table_x")
    assert meta["crs"] == "EPSG:4326"
    values = dict(zip(meta["fields"].tolist(), columns, strict=True))
    assert values["name"].tolist() == ["north", "south"] and values["crop"].tolist() == ["älv", "älv"]
    assert [json.loads(text) for text in values["more"]] == [{"fid": 3, "Geom": "x"}] * 2
    assert shapely.get_coordinates(shapely.from_wkb(shapes)[0]).tolist() == features[0]["geometry"]["coordinates"][0]
    # the table of the answer, by polygon, is printed as well
    pieces = page_pieces(client, run)
    assert {"north", "south"} <= set(pieces)
    assert not_printed(pdf_text(taken(client, run, "pdf").content)[0], pieces) == []


# --- COCO
def test_coco_is_what_the_layer_says(client: Client, analyst: User, trees: Run) -> None:
    confirmed(analyst, trees)
    answer = taken(client, trees, "coco")
    assert answer.status_code == 200
    coco = json.loads(answer.content)
    with rasterio.open(SAMPLES / "OSBS_029.tif") as scene:
        size = (scene.width, scene.height)
    (image,) = coco["images"]
    assert (image["file_name"], image["width"], image["height"]) == ("OSBS_029.tif", *size)
    (category,) = coco["categories"]
    features = kept_boxes(trees)
    assert len(coco["annotations"]) == len(features) > 0
    for one, feature in zip(coco["annotations"], features, strict=True):
        points = np.array(feature["geometry"]["coordinates"][0])
        low, high = points.min(axis=0), points.max(axis=0)
        assert one["bbox"] == pytest.approx([*low, *(high - low)], abs=1e-3)
        x, y = points[:, 0], points[:, 1]
        assert one["area"] == pytest.approx(abs(float(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]))) / 2, abs=1e-2)
        assert one["score"] == feature["properties"]["score"]
        assert (one["iscrowd"], one["image_id"], one["category_id"]) == (0, image["id"], category["id"])
        assert one["segmentation"] == [] and one["verdict"] == "accept"
        assert one["bbox"][0] >= 0 and one["bbox"][0] + one["bbox"][2] <= size[0] + 0.01
        assert one["bbox"][1] >= 0 and one["bbox"][1] + one["bbox"][3] <= size[1] + 0.01
    assert [a["id"] for a in coco["annotations"]] == list(range(1, len(features) + 1))


def test_coco_of_what_a_person_rejected_or_never_asked_is_refused(client: Client, analyst: User, trees: Run, fish: Scene) -> None:
    for observation_id in selectors.run_state(trees.pk).observations:
        verdict_give(user=analyst, observation_id=observation_id, value="reject", reason="missed", enqueue=False)
    water = asked(analyst, fish.project, fish, "What is the mean NDVI?")
    nothing = asked(analyst, fish.project, fish, "Will it rain tomorrow?")
    for run, why in ((trees, "accepted in the verified history"), (water, "looked for objects"), (nothing, "looked for objects")):
        answer = taken(client, run, "coco")
        assert answer.status_code == 409 and why in answer.content.decode()
        page = client.get(f"/runs/{run.pk}/report/").content.decode()
        assert re.search(r'<button class="btn" type="button" disabled[^>]*>COCO</button>', page)
        assert why in page
    assert taken(client, nothing, "gpkg").status_code == taken(client, nothing, "geojson").status_code == 409
    assert taken(client, nothing, "pdf").status_code == 200


# --- PDF
class _Text(HTMLParser):
    """The text of a page's main part, apart from what acts, moves or is hidden."""

    SKIPPED = ("svg", "script", "button", "form", "caption")

    def __init__(self, skip_ids: tuple[str, ...]) -> None:
        super().__init__(convert_charrefs=True)
        self.skip_ids, self.skipping, self.inside = skip_ids, 0, False
        self.stack: list[bool] = []
        self.out: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("br", "use", "input", "meta", "link"):
            return
        held = dict(attrs)
        starts = tag in self.SKIPPED or held.get("aria-hidden") == "true" or held.get("id") in self.skip_ids
        self.stack.append(starts)
        self.skipping += starts
        self.inside = self.inside or tag == "main"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("br", "use", "input", "meta", "link"):
            return
        self.skipping -= self.stack.pop()
        self.inside = self.inside and tag != "main"

    def handle_data(self, data: str) -> None:
        if self.inside and not self.skipping and data.strip():
            self.out.append(data)


def bare(text: str) -> str:
    """Without white space: where a line breaks is the paper's matter."""
    return re.sub(r"\s+", "", text)


def pdf_text(data: bytes) -> tuple[str, PdfReader]:
    """(text of all pages without footers, the document); each page must have its footer with its number."""
    reader = PdfReader(io.BytesIO(data))
    out = []
    for number, page in enumerate(reader.pages, 1):
        text = page.extract_text()
        footer = re.search(rf"RSure Web · run [0-9a-f]{{8}} · as of event \d+\s*Page {number} of {len(reader.pages)}", text)
        assert footer, text[-300:]
        out.append(text.replace(footer[0], ""))
    return "\n".join(out), reader


def page_pieces(client: Client, run: Run) -> list[str]:
    parser = _Text(("files", "map", "report-layers", "report-status"))
    parser.feed(client.get(f"/runs/{run.pk}/report/").content.decode())
    return parser.out


def not_printed(text: str, pieces: list[str]) -> list[str]:
    """Pieces of the page that the PDF says less often than the page."""
    printed, counted = bare(text), Counter(map(bare, pieces))
    return [piece for piece, n in counted.items() if printed.count(piece) < n]


HOSTILE = 'Åre <b>öst</b> "&amp;" ЖД 樹木 かな 한국 <script>alert(1)</script> {{7*7}} ../../etc/passwd'


def test_pdf_says_what_the_page_says_with_text_of_any_script(
    client: Client, analyst: User, project: Project, tmp_path: Path
) -> None:
    (tmp_path / "source.tif").write_bytes((SAMPLES / "OSBS_029.tif").read_bytes())
    scene = scene_of_file(project=project, path=tmp_path / "source.tif")
    info = scene.scene_info.model_copy(update={"name": HOSTILE + ".tif"})
    Scene.objects.filter(pk=scene.pk).update(name=HOSTILE[:200], info=info.model_dump(mode="json"))
    scene.refresh_from_db()
    run = asked(analyst, project, scene, "How many trees are there? " + HOSTILE)
    first = next(iter(selectors.run_state(run.pk).observations))
    note = "två träd saknas " + HOSTILE
    verdict_give(user=analyst, observation_id=first, value="reject", reason="missed", note=note, enqueue=False)
    run.refresh_from_db()
    answer = taken(client, run, "pdf")
    assert answer.status_code == 200 and answer["Content-Type"] == "application/pdf" and answer.content[:5] == b"%PDF-"
    text, reader = pdf_text(answer.content)
    pieces = page_pieces(client, run)
    assert len(pieces) > 150
    assert not_printed(text, pieces) == []
    printed = bare(text)
    # and in the page's order, up to what a page break puts between
    at = 0
    for piece in map(bare, pieces[:60]):
        found = printed.find(piece, at)
        assert found >= 0, (piece, printed[at : at + 200])
        at = found + len(piece)
    assert bare(HOSTILE) in printed
    assert "Machine:" in text and "Person: Wrong · analyst" in " ".join(text.split())
    assert reader.metadata is not None and reader.metadata.title == " ".join(run.question_text.split())
    assert sum(len(page.images) for page in reader.pages) == 1
    kinds = {str(o.get("/S")) for page in reader.pages for a in page.get("/Annots", []) for o in [a.get_object().get("/A", {})]}
    assert kinds == set() and "/JavaScript" not in answer.content.decode("latin-1")
    # the same state gives the same bytes
    assert taken(client, run, "pdf").content == answer.content


def test_every_form_is_a_members_alone_and_named_by_the_run(
    client: Client, analyst: User, stranger: User, trees: Run
) -> None:
    confirmed(analyst, trees)
    Scene.objects.update(name='x"; filename="evil.exe\r\nSet-Cookie: a=b')
    other = Client()
    other.force_login(stranger)
    _, mine = token_create(user=analyst, name="mine", days=5)
    _, theirs = token_create(user=stranger, name="theirs", days=5)
    suffixes = {"coco": "coco.json", "provenance": "provenance.json"}
    for kind in FORMS:
        answer = taken(client, trees, kind)
        assert answer.status_code == 200, kind
        name = f"run-{str(trees.pk)[:8]}.{suffixes.get(kind, kind)}"
        assert answer["Content-Disposition"] == f'attachment; filename="{name}"'
        assert taken(other, trees, kind).status_code == 404
        assert Client().get(f"/runs/{trees.pk}/report/?as={kind}").status_code == 302
        api = f"/api/v1/runs/{trees.pk}/report/?as={kind}"
        by_token = Client().get(api, headers={"Authorization": f"Bearer {mine}"})
        assert by_token.status_code == 200 and by_token["Content-Type"] == answer["Content-Type"], by_token.content[:300]
        assert Client().get(api, headers={"Authorization": f"Bearer {theirs}"}).status_code == 404
        assert Client().get(api).status_code in (401, 403)
    for path in (f"/runs/{trees.pk}/report/?as=exe", f"/api/v1/runs/{trees.pk}/report/?as=exe"):
        assert client.get(path).status_code == 400
    assert client.get(f"/api/v1/runs/{trees.pk}/report/").status_code == 400


def test_names_in_coco_and_gpkg_lead_nowhere() -> None:
    from apps.imagery.geopackage import columns_of, safe_name
    from apps.runs.export_layers import safe_file_name

    assert safe_file_name("../../etc/passwd", "x") == "passwd"
    assert safe_file_name("C:\\temp\\a b.tif", "x") == "a b.tif"
    assert safe_file_name("..", "x") == safe_file_name("/", "x") == safe_file_name(". .", "x") == "x"
    assert safe_file_name('a";\r\n<b>.tif', "x") == "a_____b_.tif"
    assert safe_name('t"; DROP TABLE gpkg_contents; --') == "t_drop_table_gpkg_contents"
    assert safe_name("樹木") == "layer" and safe_name("樹木", ["layer"]) == "layer_2"
    assert safe_name("a" * 90, ["a" * 60]) == "a" * 58 + "_2"
    held = columns_of([{"properties": {"ok": 1, "fid": 2, 'x"; --': 3, "mixed": "a"}}, {"properties": {"ok": 1.5, "mixed": 2}}])
    assert held == {"ok": [1.0, 1.5], "more": [json.dumps({"fid": 2, 'x"; --': 3, "mixed": "a"}), json.dumps({"mixed": 2})]}


def test_masks_are_offered_as_geotiff_with_a_name_that_says_so(
    client: Client, analyst: User, project: Project, fish: Scene
) -> None:
    run = asked(analyst, project, fish, "How many hectares have NDVI above 0.4?")
    page = client.get(f"/runs/{run.pk}/report/").content.decode()
    found = re.search(r'<a href="(/artifacts/sha256:[0-9a-f]+)" download>GeoTIFF', page)
    assert found
    answer = client.get(found[1])
    assert re.search(r'filename="[0-9a-f]{16}\.tif"', answer["Content-Disposition"])
    with rasterio.MemoryFile(b"".join(answer.streaming_content)) as held, held.open() as mask:  # type: ignore[attr-defined]
        assert mask.crs.to_epsg() == fish.scene_info.grid.epsg
        assert set(np.unique(mask.read(1))) <= {0, 1, 255}


def test_provenance_tells_inputs_calls_and_marks(client: Client, analyst: User, trees: Run) -> None:
    import hashlib

    confirmed(analyst, trees)
    told = json.loads(taken(client, trees, "provenance").content)
    assert told["inputs"][0]["digest"] == "sha256:" + hashlib.sha256((SAMPLES / "OSBS_029.tif").read_bytes()).hexdigest()
    assert all(o["verdicts"][0]["author"] == "analyst" and o["decisions"] for o in told["observations"])
    assert told["events"] == trees.last_seq


def test_gpkg_holds_the_places_that_were_marked(
    client: Client, analyst: User, project: Project, fish: Scene, tmp_path: Path
) -> None:
    from apps.core.evidence.landmark import Landmark

    west, south, east, north = fish.scene_info.grid.lonlat_bounds()
    x, y = (west + east) / 2, (south + north) / 2
    corner = (x - 0.004, y - 0.003, x - 0.002, y - 0.001)
    marks = [Landmark(name="A", point=(x, y), precision=4.5), Landmark(name="B", box=corner)]
    run = asked(analyst, project, fish, "How far is A from B?", landmarks=marks)
    path = tmp_path / "x.gpkg"
    path.write_bytes(taken(client, run, "gpkg").content)
    meta, _, shapes, columns = pyogrio.raw.read(path, layer="marks")
    values = dict(zip(meta["fields"].tolist(), columns, strict=True))
    assert meta["crs"] == "EPSG:4326" and values["label"].tolist() == ["A", "B"] and values["precision"][0] == 4.5
    point, box = shapely.from_wkb(shapes)
    assert (point.x, point.y) == (x, y)
    assert box.bounds == corner


def test_a_run_that_waits_has_its_page_and_pdf_and_says_what_it_lacks(
    client: Client, analyst: User, project: Project, fish: Scene
) -> None:
    run = services.run_start(user=analyst, project=project, text="What is the mean NDVI?", scenes=[fish], enqueue=False)
    assert {kind: taken(client, run, kind).status_code for kind in FORMS} == {
        "pdf": 200, "json": 200, "provenance": 200, "csv": 409, "geojson": 409, "gpkg": 409, "coco": 409,
    }  # fmt: skip
    text, _ = pdf_text(taken(client, run, "pdf").content)
    assert not_printed(text, page_pieces(client, run)) == []
    assert "Waiting for a worker" in text and "The run has no observation." in text


def test_what_a_person_asked_for_or_took_back_is_told(client: Client, analyst: User, project: Project, fish: Scene) -> None:
    from apps.review.services import verdict_undo
    from apps.runs.evidence import evidence_ask, evidence_choices

    run = asked(analyst, project, fish, "How much water is there in km2?")
    state = selectors.run_state(run.pk)
    offered = [(h, c) for h in state.observations.values() for c in evidence_choices(run, state, h) if c.key]
    held, choice = offered[0]
    evidence_ask(user=analyst, observation_id=held.id, key=choice.key, note="look closer", enqueue=False)
    given = verdict_give(user=analyst, observation_id=held.id, value="unsure", note="tide?", enqueue=False)
    verdict_undo(user=analyst, verdict_id=given.pk, enqueue=False)
    run.refresh_from_db()
    text, _ = pdf_text(taken(client, run, "pdf").content)
    pieces = page_pieces(client, run)
    assert not_printed(text, pieces) == []
    assert "Evidence asked" in pieces and any("look closer" in piece for piece in pieces) and "undone" in pieces
    told = next(o for o in json.loads(taken(client, run, "provenance").content)["observations"] if o["id"] == held.id)
    assert [(a["by"], a["note"], a["withdrawn"]) for a in told["asked"]] == [("analyst", "look closer", False)]
    assert [(v["value"], v["undone"]) for v in told["verdicts"]] == [("unsure", True)]


def test_what_a_person_took_away_is_in_no_file_of_the_history(
    client: Client, analyst: User, trees: Run, tmp_path: Path
) -> None:
    from apps.review.corrections import correctable
    from apps.review.services import correction_give
    from apps.runs.assembly import layers

    before = kept_boxes(trees)
    state = selectors.run_state(trees.pk)
    held = next(h for h in state.observations.values() if h.observation.tool == "perceive")
    parts = correctable(state, held, layers(trees.project_id)).parts
    correction_give(
        user=analyst, observation_id=held.id, reason="double", remove=[p.key for p in parts[:2]], note="twice", enqueue=False
    )
    assert services.run_execute_now(run_id=trees.pk)
    coco = json.loads(taken(client, trees, "coco").content)
    gone = {(round(p.box[0], 2), round(p.box[1], 2)) for p in parts[:2]}
    kept = {(round(a["bbox"][0], 2), round(a["bbox"][1], 2)) for a in coco["annotations"]}
    assert len(coco["annotations"]) == len(before) - 2 and not gone & kept
    assert {(a["decision"], a["verdict"]) for a in coco["annotations"]} == {(None, "accept")}
    path = tmp_path / "x.gpkg"
    path.write_bytes(taken(client, trees, "gpkg").content)
    with sqlite3.connect(path) as db:
        tables = [n for (n,) in db.execute("SELECT table_name FROM gpkg_contents") if "tree" in n]
        told = "SELECT decision, verdict, in_history, COUNT(*) FROM"
        rows = [db.execute(f"{told} {n} GROUP BY 1, 2, 3").fetchall() for n in tables]
    assert rows == [[("accept", "reject", 0, len(before))], [(None, "accept", 1, len(before) - 2)]]
    text, _ = pdf_text(taken(client, trees, "pdf").content)
    pieces = page_pieces(client, trees)
    assert not_printed(text, pieces) == []
    assert "Value of analyst" in pieces and "not the machine’s" in pieces
    # one verdict is told once
    assert sum("twice" in piece for piece in pieces) == 1
