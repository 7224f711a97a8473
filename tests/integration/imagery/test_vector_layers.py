"""Vector files as layers of a project: uploaded like scenes, read alone, refused with a reason, shown, asked with, deleted."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.core.errors import NotFoundError, UserError
from apps.imagery import vector_layers
from apps.imagery.models import Scene, Upload, VectorLayer
from apps.imagery.selectors import vectors_for_ask
from apps.imagery.vector_layers import vector_add_now
from apps.runs.models import Run
from apps.runs.selectors import run_state
from apps.runs.services import run_execute_now, run_start

TUS: dict[str, Any] = {"HTTP_TUS_RESUMABLE": "1.0.0"}
CHUNK = "application/offset+octet-stream"
# two squares on the Sentinel-2 sample, one over land and one over water
FIELDS = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "properties": {"name": name, "crop": crop},
            "geometry": {
                "type": "Polygon",
                "coordinates": [[[w, s], [w + 0.003, s], [w + 0.003, s + 0.002], [w, s + 0.002], [w, s]]],
            },
        }
        for name, crop, w, s in (("Home", "wheat", -1.2115, 50.7305), ("Marsh", "none", -1.225, 50.740))
    ],
}


@pytest.fixture
def fields(project: Project, tmp_path: Path) -> VectorLayer:
    path = tmp_path / "fields.geojson"
    path.write_text(json.dumps(FIELDS))
    return vector_add_now(project=project, path=path, name=path.name)


def upload(client: Client, project: Project, name: str, data: bytes) -> Any:
    """The answer to the last part of an upload in one part."""
    told = {"filename": name, "project": str(project.pk)}
    meta = ",".join(f"{k} {base64.b64encode(v.encode()).decode()}" for k, v in told.items())
    made = client.post("/api/v1/uploads/", HTTP_UPLOAD_LENGTH=str(len(data)), HTTP_UPLOAD_METADATA=meta, **TUS)
    assert made.status_code == 201, made.content
    return client.patch(made["Location"], data, content_type=CHUNK, HTTP_UPLOAD_OFFSET="0", **TUS)


def test_the_upload_of_scenes_takes_vector_files(
    client: Client, project: Project, django_capture_on_commit_callbacks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued: list[str] = []
    monkeypatch.setattr("apps.imagery.tasks.ingest_vector.delay", queued.append)
    with django_capture_on_commit_callbacks(execute=True):
        done = upload(client, project, "fields.geojson", json.dumps(FIELDS).encode())
    assert done.status_code == 204
    vector = VectorLayer.objects.get(pk=done["X-Vector"])
    assert (vector.status, queued, Scene.objects.count()) == (VectorLayer.READING, [str(vector.pk)], 0)
    assert not Upload.objects.get().folder.exists()
    page = client.get(f"/imagery/vectors/{vector.pk}/")
    assert b"Being read" in page.content
    vector_layers.vector_ingest(vector_id=str(vector.pk))
    vector.refresh_from_db()
    info = vector.vector_info
    assert (info.n, info.crs, info.kinds, info.fields) == (2, "EPSG:4326", {"Polygon": 2}, ("name", "crop"))
    assert (info.name_field, info.names) == ("name", ("Home", "Marsh"))
    assert vector_layers.vector_ingest(vector_id=str(vector.pk)).status == VectorLayer.READY  # delivered twice


@pytest.mark.parametrize(
    ("name", "data", "code", "says"),
    [
        ("map.geojson",
         b"<OGRVRTDataSource><SrcDataSource>/etc/hosts</SrcDataSource></OGRVRTDataSource>", "UNSAFE_FILE", "extension"),
        ("a.kml", b"<!DOCTYPE k [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><kml>&e;</kml>", "UNSAFE_FILE", "entities"),
        ("a.zip", b"PK\x03\x04" + bytes(40), "UNREADABLE", "unpacked"),
        ("a.gpkg", b"SQLite format 3\0" + bytes(200), "UNREADABLE", "cannot be read"),
        ("a.geojson", b'{"type": "FeatureCollection", "features": []}', "UNREADABLE", "no geometry"),
        ("a.csv", b"name,height\nx,3\n", "UNREADABLE", "no coordinates"),
        ("a.csv", b"x,y\n600000,5600000\n", "NEEDS_CRS", "EPSG:32630"),
        ("roads.shp", b"\x00\x00\x27\x0a" + bytes(96), "UNSAFE_FILE", "zip the .shp"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_what_why_and_what_to_do(
    client: Client, analyst: User, project: Project, name: str, data: bytes, code: str, says: str
) -> None:
    done = upload(client, project, name, data)
    vector = vector_layers.vector_ingest(vector_id=done["X-Vector"])
    vector.refresh_from_db()
    assert vector.status == VectorLayer.FAILED and vector.info is None
    error = vector.error
    assert error is not None and error["code"] == code
    assert error["what"] and error["why"] and error["fix"] and says in " ".join((error["what"], error["why"], error["fix"]))
    page = client.get(f"/imagery/vectors/{vector.pk}/").content.decode()
    assert code in page and "Read it again" in page
    listed = client.get(f"/imagery/?project={project.pk}").content.decode()
    assert ("Needs its CRS" if code == "NEEDS_CRS" else "Refused") in listed
    with pytest.raises(UserError, match="cannot be asked about yet"):
        vectors_for_ask(analyst, project, [str(vector.pk)])


def test_what_is_refused_by_its_name_is_refused_before_it_is_sent(client: Client, project: Project) -> None:
    meta = ",".join(
        f"{k} {base64.b64encode(v.encode()).decode()}" for k, v in (("filename", "city.osm.pbf"), ("project", str(project.pk)))
    )
    answer = client.post("/api/v1/uploads/", HTTP_UPLOAD_LENGTH="5000000", HTTP_UPLOAD_METADATA=meta, **TUS)
    assert answer.status_code == 415
    error = answer.json()["error"]
    assert error["why"].startswith("It is OpenStreetMap data. Vector files are taken as GeoJSON, GeoPackage (.gpkg)")
    assert "ogr2ogr -f GPKG out.gpkg city.osm.pbf multipolygons" in error["fix"]
    assert Upload.objects.count() == 0


def test_a_person_says_the_crs_of_a_table(client: Client, project: Project) -> None:
    done = upload(client, project, "sites.csv", b"x,y,site\n625000,5621500,a\n626000,5622000,b\n")
    vector = vector_layers.vector_ingest(vector_id=done["X-Vector"])
    assert vector.error is not None and vector.error["code"] == "NEEDS_CRS"
    answer = client.post(f"/imagery/vectors/{vector.pk}/again/", {"crs": "EPSG:32630"})
    assert answer.status_code == 302
    vector = vector_layers.vector_ingest(vector_id=str(vector.pk))
    assert vector.status == VectorLayer.READY and vector.crs_source == "person"
    west, south, east, north = vector.vector_info.bounds
    assert (west, south, east, north) == pytest.approx((-1.2288, 50.7307, -1.2144, 50.7350), abs=2e-3)


def test_the_list_the_page_the_map_and_the_deletion(
    client: Client, project: Project, fields: VectorLayer, stranger: User
) -> None:
    listed = client.get(f"/imagery/?project={project.pk}").content.decode()
    assert "fields.geojson" in listed and "2 polygons" in listed and "name, crop" in listed
    page = client.get(f"/imagery/vectors/{fields.pk}/").content.decode()
    assert "EPSG:4326" in page and "wheat" in page and "inside fields.geojson" in page
    drawn = client.get(f"/imagery/vectors/{fields.pk}/features.json").json()
    assert drawn["total"] == 2 and {f["properties"]["title"] for f in drawn["features"]} == {"Home", "Marsh"}
    rows = client.get(f"/api/v1/vectors/?project={project.pk}").json()
    assert [r["id"] for r in rows] == [str(fields.pk)]
    assert client.get(f"/api/v1/vectors/{fields.pk}/").json()["info"]["n"] == 2
    outsider = Client()
    outsider.force_login(stranger)
    for method, address in (
        ("get", f"/imagery/vectors/{fields.pk}/"), ("get", f"/imagery/vectors/{fields.pk}/features.json"),
        ("delete", f"/api/v1/vectors/{fields.pk}/"), ("post", f"/imagery/vectors/{fields.pk}/remove/"),
    ):  # fmt: skip
        assert getattr(outsider, method)(address).status_code == 404
    assert client.post(f"/imagery/vectors/{fields.pk}/remove/").status_code == 302
    assert not VectorLayer.objects.exists()
    assert "No vector layer yet" in client.get(f"/imagery/?project={project.pk}").content.decode()


def answer_of(run: Run) -> Any:
    state = run_state(run.pk)
    assert state.answer is not None
    return state.answer


def test_questions_use_the_files_of_their_project(
    client: Client, analyst: User, project: Project, fish: Scene, fields: VectorLayer, stranger: User
) -> None:
    asked = {"project": str(project.pk), "scene": str(fish.pk), "question": "What is the mean NDVI inside fields.geojson?"}
    posted = client.post(reverse("run_ask"), asked)
    run = Run.objects.get()
    assert posted.status_code == 302
    assert [v["name"] for v in run.question["vectors"]] == ["fields.geojson"]
    assert run_execute_now(run_id=run.pk)
    answer = answer_of(run)
    assert not answer.abstained, answer.text
    (observation,) = run_state(run.pk).history
    # the same mean by hand: pixels whose centre lies in one of the squares
    import numpy as np
    import rasterio
    import shapely
    from pyproj import Transformer

    from tests.integration.conftest import SAMPLES

    with rasterio.open(SAMPLES / "geopandas_s2a_l2a_fishbourne.tif") as src:
        red, nir = (src.read(b).astype(float) for b in (3, 4))
        filled = (src.read() == 0).all(axis=0)
        t = Transformer.from_crs("EPSG:4326", src.crs, always_xy=True)
        rows, cols = np.mgrid[0 : src.height, 0 : src.width]
        xs, ys = src.transform * (cols + 0.5, rows + 0.5)
        inside = np.zeros(red.shape, dtype=bool)
        for f in FIELDS["features"]:
            ring = shapely.segmentize(shapely.geometry.shape(f["geometry"]), 1e-4)  # type: ignore[index]
            inside |= shapely.contains_xy(
                shapely.transform(ring, lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1]))), xs, ys
            )
    keep = inside & ~filled & (nir + red > 0)
    assert answer.value == pytest.approx(float(((nir - red) / (nir + red))[keep].mean()), abs=2e-3)
    assert observation.observation.inputs[-1].role == "vector"
    drawn = client.get(f"/runs/{run.pk}/layers/{fields.vector_info.artifact}.geojson")
    assert drawn.status_code == 200 and drawn.json()["total"] == 2
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "fields.geojson" in page and fields.vector_info.artifact in page
    with pytest.raises(NotFoundError):
        vectors_for_ask(stranger, project, [str(fields.pk)])
    # a deleted file leaves the evidence of the run as it was
    client.post(f"/imagery/vectors/{fields.pk}/remove/")
    assert answer_of(run).value == answer.value
    assert client.get(f"/runs/{run.pk}/").status_code == 200


def test_files_alone_answer_questions_of_the_map(analyst: User, project: Project, fields: VectorLayer) -> None:
    text = "What is the area of Home in ha?"
    run = run_start(user=analyst, project=project, text=text, scenes=[], vectors=[fields.vector_info], enqueue=False)
    assert run_execute_now(run_id=run.pk)
    from pyproj import Geod

    ring = FIELDS["features"][0]["geometry"]["coordinates"][0]  # type: ignore[index]
    area = abs(Geod(ellps="WGS84").polygon_area_perimeter([p[0] for p in ring], [p[1] for p in ring])[0])
    answer = answer_of(run)
    assert not answer.abstained, answer.text
    assert answer.value == pytest.approx(area / 1e4, rel=1e-6) and answer.unit == "ha"
    # three and four decimals of a degree: the interval is at least what the digits can hold, and says so
    assert answer.interval is not None and answer.interval[0] < answer.value < answer.interval[1]
    assert "at least" in answer.text, answer.text
    with pytest.raises(UserError, match="no imagery"):
        run_start(user=analyst, project=project, text="What is the mean NDVI?", scenes=[], enqueue=False)


def test_how_exact_a_file_is_can_be_said_and_taken_back(
    client: Client, analyst: User, project: Project, fields: VectorLayer, stranger: User
) -> None:
    assert "not told" in client.get(f"/imagery/vectors/{fields.pk}/").content.decode()
    said = client.post(f"/imagery/vectors/{fields.pk}/accuracy/", {"accuracy_m": "2.5"})
    assert said.status_code == 302
    fields.refresh_from_db()
    assert fields.vector_info.accuracy_m == 2.5
    assert "±2.5" in client.get(f"/imagery/vectors/{fields.pk}/").content.decode()
    # digits of about ten metres are no better than that, whatever is said
    run = run_start(user=analyst, project=project, text="What is the area of Home in ha?", scenes=[],
                    vectors=[fields.vector_info], enqueue=False)  # fmt: skip
    assert run_execute_now(run_id=run.pk) and "at least" in answer_of(run).text
    patched = client.patch(f"/api/v1/vectors/{fields.pk}/", {"accuracy_m": 40}, content_type="application/json")
    assert patched.status_code == 200 and patched.json()["info"]["accuracy_m"] == 40
    fields.refresh_from_db()
    run = run_start(user=analyst, project=project, text="What is the area of Home in ha?", scenes=[],
                    vectors=[fields.vector_info], enqueue=False)  # fmt: skip
    assert run_execute_now(run_id=run.pk)
    told = answer_of(run)
    assert told.interval is not None and "at least" not in told.text
    (held,) = run_state(run.pk).history
    assert held.observation.evidence.intermediate["accuracy_m"] == 40
    for wrong in ("-1", "many", "nan", "1e9"):
        assert client.post(f"/imagery/vectors/{fields.pk}/accuracy/", {"accuracy_m": wrong}).status_code == 400
    for body in (["accuracy_m"], 5, "accuracy_m", {"accuracy_m": [5]}, {"accuracy_m": 5, "n": 1}):
        assert client.patch(f"/api/v1/vectors/{fields.pk}/", body, content_type="application/json").status_code == 400
    assert client.patch(f"/api/v1/vectors/{fields.pk}/", {"accuracy_m": None}, content_type="application/json").status_code == 200
    fields.refresh_from_db()
    assert fields.vector_info.accuracy_m is None
    outsider = Client()
    outsider.force_login(stranger)
    assert outsider.post(f"/imagery/vectors/{fields.pk}/accuracy/", {"accuracy_m": "2.5"}).status_code == 404
    body = json.dumps(FIELDS).encode()
    sent = SimpleUploadedFile("more.geojson", body, content_type="application/geo+json")
    made = client.post("/api/v1/vectors/", {"project": str(project.pk), "file": sent, "accuracy_m": "3"})
    assert made.status_code == 201 and made.json()["accuracy_m"] == 3
