"""Requests that are made to do harm, over HTTP: each gets an answer that says what is wrong, and the process lives."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.accounts.models import Project, User
from apps.accounts.services import membership_set
from apps.artifacts.services import artifact_put
from apps.imagery.models import Scene
from apps.imagery.vector_layers import vector_add_now
from apps.prior.models import PriorEvent
from apps.prior.selectors import prior_export
from apps.review.models import VerdictRecord
from apps.runs.models import ObservationRow, Run
from tests.scenes import scene_of_file

SAMPLES = Path(__file__).resolve().parents[2] / "apps" / "imagery" / "samples"
CELL = {"task_type": "object_counting", "tool": "measure", "coarse": "count", "fine": "count/auto", "success": True}
DEEP = 100_000


def signed_in(user: User, **more: Any) -> Client:
    client = Client(raise_request_exception=False, **more)
    client.force_login(user)
    return client


def collections(n: int) -> tuple[str, str]:
    return (
        "GEOMETRYCOLLECTION(" * n + "POINT(1 1)" + ")" * n,
        '{"type":"GeometryCollection","geometries":[' * n + '{"type":"Point","coordinates":[1,1]}' + "]}" * n,
    )


@pytest.mark.parametrize("is_map", [True, False], ids=["map", "pixels"])
def test_a_region_nested_without_end_or_of_no_numbers(analyst: User, project: Project, is_map: bool) -> None:
    name = "geopandas_s2a_l2a_fishbourne.tif" if is_map else "2019_YELL_2_541000_4977000_image_crop.png"
    scene = scene_of_file(project=project, path=SAMPLES / name)
    assert scene.scene_info.grid.is_georeferenced is is_map
    client = signed_in(analyst)
    told = [
        *collections(DEEP),
        *collections(50),
        "POLYGON((0 0, nan 0, 1 1, 0 0))",
        "POLYGON((0 0, inf 0, 1 1, 0 0))",
        "POLYGON" + "(" * DEEP,
    ]
    for text in told:
        for address in ("/runs/ask/", "/runs/plan/"):
            answer = client.post(
                address, {"project": str(project.pk), "scene": str(scene.pk), "question": "How bright is it?", "region": text}
            )
            assert answer.status_code == 400, (address, text[:40], answer.status_code)
            assert "region" in answer.content.decode()
    assert Run.objects.count() == 0


def test_ranges_that_are_no_numbers(analyst: User, project: Project) -> None:
    artifact = artifact_put(data=b"0123456789", project_id=project.pk)
    client = signed_in(analyst)
    for header in ("bytes=" + "9" * 5000 + "-", "bytes=-" + "9" * 5000, "bytes=٣-٥", "bytes=0-1,3-4"):
        answer = client.get(f"/artifacts/{artifact.digest}", headers={"Range": header})
        assert answer.status_code in (200, 416), header


def test_an_import_of_the_prior_that_cannot_be_kept(stranger: User, project: Project) -> None:
    membership_set(project=project, username="stranger", role="administrator")
    client = signed_in(stranger)
    for line in (
        "[" * DEEP,
        '{"a":' * DEEP,
        json.dumps(CELL | {"task_type": "a\0b"}),
        json.dumps(CELL | {"reason": "\0"}),
        json.dumps(CELL)[:-1] + ', "weight": 1' + "0" * 400 + "}",
        json.dumps(CELL | {"weight": float("nan")}),
        json.dumps(CELL)[:-1] + ', "shown_probability": 1' + "0" * 400 + "}",
        json.dumps(CELL | {"x" * 10**6: 1}),
    ):
        answer = client.post("/priors/import/", {"file": SimpleUploadedFile("a.jsonl", line.encode())})
        assert answer.status_code == 400, (line[:60], answer.status_code)
        assert len(answer.content) < 100_000
    assert PriorEvent.objects.count() == 0


def test_what_the_export_writes_the_import_reads(stranger: User, project: Project) -> None:
    membership_set(project=project, username="stranger", role="administrator")
    client = signed_in(stranger)
    odd = "end of line\u2028 and of \u2029paragraph\x85 and \x0c"
    given = json.dumps(CELL | {"fine": odd}, ensure_ascii=False)
    assert client.post("/priors/import/", {"file": SimpleUploadedFile("a.jsonl", given.encode())}).status_code == 302
    assert PriorEvent.objects.get().fine == odd
    written = client.get("/priors/export/").content
    assert client.post("/priors/import/", {"file": SimpleUploadedFile("b.jsonl", written)}).status_code == 302
    assert [line["fine"] for line in prior_export(None)] == [odd] * PriorEvent.objects.count()


def test_measuring_finding_and_filters_take_anything(analyst: User, project: Project) -> None:
    client = signed_in(analyst)
    outline = ";".join(f"{i / 1e4},{i / 1e4}" for i in range(100_000))
    for points in (outline, "nan,nan;1,1", "1e999,0;1,1", ";" * DEEP, "1," * DEEP, "0,0;0"):
        assert client.get("/measure/", {"points": points}).status_code == 400, points[:30]
    for points in ("0,0;0,0;0,0", "0,0;1,0;0,0", "0,90;10,90;20,90", "-180,0;180,0;0,0", "0,-90;0,90"):
        assert client.get("/measure/", {"points": points}).status_code == 200, points
    for words in ("x" * DEEP, "%", "_", "\\", "'; DROP TABLE runs_run; --", "\U0001f600" * 200):
        answer = client.get("/find/", {"q": words})
        assert answer.status_code == 200, words[:20]
        assert json.loads(answer.content)["found"] == [] or words in "%_"
        assert client.get("/review/", {"task_type": words, "check": words, "project": words, "o": ""}).status_code == 200


def test_words_that_look_for_everything_find_what_holds_them(analyst: User, stranger: User, project: Project) -> None:
    assert json.loads(signed_in(stranger).get("/find/", {"q": "Winter"}).content)["found"] == []
    assert json.loads(signed_in(analyst).get("/find/", {"q": "%"}).content)["found"] == []


def test_reviewing_many_needs_the_token_the_role_and_ones_own_project(
    analyst: User, stranger: User, project: Project, ask: Any
) -> None:
    ask("What is the mean NDVI?")
    row = ObservationRow.objects.get()
    told = {"observation": [row.pk], "value": "accept"}
    assert signed_in(analyst, enforce_csrf_checks=True).post("/review/bulk/", told).status_code == 403
    assert signed_in(analyst, enforce_csrf_checks=True).post("/verdicts/undo/?ids=x").status_code == 403
    assert signed_in(stranger).post("/review/bulk/", told).status_code == 404
    assert signed_in(stranger).post(f"/review/{row.pk}/verdict/?blind=1", {"value": "accept"}).status_code == 404
    assert Client().post("/review/bulk/", told).status_code == 302
    for role in ("viewer", "analyst"):
        membership_set(project=project, username="stranger", role=role)
        assert signed_in(stranger).post("/review/bulk/", told).status_code == 403, role
    assert signed_in(analyst).get("/review/bulk/").status_code == 405
    for wrong in (["x"] * 101, [f"{k}" for k in range(101)], [], ["'; --"], ["x" * DEEP]):
        assert signed_in(analyst).post("/review/bulk/", {"observation": wrong, "value": "accept"}).status_code in (200, 400)
    answer = signed_in(analyst).post("/verdicts/undo/?ids=" + ",".join(["nonsense"] * 500), headers={"HX-Request": "true"})
    assert answer.status_code == 204
    assert not VerdictRecord.objects.exists()


def test_others_vector_files_are_not_there(analyst: User, stranger: User, project: Project, fish: Scene, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("lon,lat\n-1.2,50.73\n")
    held = vector_add_now(project=project, path=path, name="a.csv")
    client = signed_in(stranger)
    pages = [
        f"/imagery/vectors/{held.pk}/",
        f"/imagery/vectors/{held.pk}/features.json",
        f"/imagery/vectors/table/{project.pk}/",
        f"/api/v1/vectors/{held.pk}/",
        f"/artifacts/{held.vector_info.artifact}",
    ]
    assert [client.get(p).status_code for p in pages] == [404] * len(pages)
    assert [client.post(f"/imagery/vectors/{held.pk}/{w}/").status_code for w in ("again", "remove")] == [404, 404]
    assert client.delete(f"/api/v1/vectors/{held.pk}/").status_code == 404
    sent = client.post("/api/v1/vectors/", {"project": str(project.pk), "file": SimpleUploadedFile("b.csv", b"lon,lat\n1,1\n")})
    assert sent.status_code == 404
    told = {
        "project": str(project.pk),
        "scene": str(fish.pk),
        "vectors_listed": "1",
        "vector": "x" * DEEP,
        "question": "How many points are within 100 m of the water?",
    }
    assert signed_in(analyst).post("/runs/ask/", told).status_code in (400, 404)
    assert signed_in(analyst).get(pages[0]).status_code == 200
