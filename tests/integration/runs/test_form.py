"""The plan as a form: what words cannot say is asked for by fields, along the same path."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
import rasterio
from django.test import Client
from pyproj import Transformer

from apps.accounts.models import Project, User
from apps.agent.planner.can_do import KINDS
from apps.imagery.models import Scene
from apps.imagery.vector_layers import vector_add_now
from apps.runs import selectors
from apps.runs.models import Run
from apps.runs.services import run_execute_now
from tests.integration.conftest import SAMPLES


def test_what_is_not_understood_is_offered_as_a_form(ask: Any, analyst: User, project: Project, fish: Scene) -> None:
    run = ask("Will it rain tomorrow in Fishbourne?")
    client = Client()
    client.force_login(analyst)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert 'name="form-what"' in page
    assert "Ask it as a form" in page
    # what can be answered is a list that is folded, and stands whole on the report, which is printed
    said = page[page.index('id="answer"') : page.index('id="tab-ask"')]
    assert "<li>how many objects of a kind</li>" in said and "I can answer, nearest" not in said
    assert (
        said.count("<li>") >= len(KINDS)
        and "I can answer, nearest to this: how many objects of a kind; "
        in client.get(f"/runs/{run.pk}/report/").content.decode()
    )
    fields = {
        "project": str(project.pk),
        "scene": str(fish.pk),
        "question": run.question_text,
        "form-what": "area",
        "form-quantity": "ndvi",
        "form-threshold": "0.4",
        "form-side": "above",
        "form-unit": "ha",
        "form-statistic": "mean",
        "form-pick": "max",
    }
    preview = client.post("/runs/plan/", fields)
    assert "NDVI" in preview.content.decode()
    assert client.post("/runs/ask/", fields).status_code == 302
    made = Run.objects.exclude(pk=run.pk).get()
    run_execute_now(run_id=made.pk)
    answer = selectors.run_state(made.pk).answer
    assert answer is not None
    assert answer.value == pytest.approx(302.35, abs=0.1)


def test_a_threshold_that_is_no_number_is_refused(analyst: User, project: Project, fish: Scene) -> None:
    client = Client()
    client.force_login(analyst)
    answer = client.post(
        "/runs/ask/",
        {
            "project": str(project.pk),
            "scene": str(fish.pk),
            "question": "",
            "form-what": "area",
            "form-quantity": "ndvi",
            "form-threshold": "much",
        },
        headers={"Accept": "application/json"},
    )
    assert answer.status_code == 400
    assert "no number" in answer.content.decode()


def test_what_the_form_has_no_field_for_is_kept(ask: Any, analyst: User, project: Project, tmp_path: Path) -> None:
    with rasterio.open(next(SAMPLES.rglob("geopandas_s2a_l2a_fishbourne.tif"))) as file:
        t, to_degrees = file.transform, Transformer.from_crs(file.crs, "EPSG:4326", always_xy=True)
    squares = []
    for i, side in enumerate((4, 10, 20)):
        ring = [(10 + 30 * i + dx * side, 10 + dy * side) for dx, dy in ((0, 0), (0, 1), (1, 1), (1, 0), (0, 0))]
        squares.append([to_degrees.transform(*(t * p)) for p in ring])
    features = [
        {"type": "Feature", "properties": {"name": f"F{i}"}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
        for i, ring in enumerate(squares)
    ]
    path = tmp_path / "fields.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    vector = vector_add_now(project=project, path=path, name=path.name)
    run = ask("What is the total area of the fields larger than 0.5 ha?", vectors=[vector.vector_info])
    client = Client()
    client.force_login(analyst)
    page = html.unescape(client.get(f"/runs/{run.pk}/").content.decode())
    kept = re.search(r'name="form-rest" value="(\{.*?\})" checked', page)
    assert kept is not None and "further conditions" in page
    held = selectors.run_state(run.pk)
    assert held.plan is not None and held.answer is not None and held.answer.value == pytest.approx(5.0, rel=2e-3)
    fields = {
        "project": str(project.pk), "question": run.question_text, "vector": str(vector.pk), "form-what": "area",
        "form-target": held.plan.form["target"], "form-unit": "m2",
    }  # fmt: skip
    answers = []
    for more in ({"form-rest": kept[1]}, {}, {"form-rest": '{"where": 5, "what": "count", "no": 1'}):
        assert client.post("/runs/ask/", {**fields, **more}).status_code == 302
        made = Run.objects.latest("created_at")
        run_execute_now(run_id=made.pk)
        answer = selectors.run_state(made.pk).answer
        assert answer is not None
        answers.append(answer.value)
    # 100 and 400 pixels of 100 m²; without what was kept also the 16
    assert answers == [pytest.approx(v, rel=2e-3) for v in (50_000, 51_600, 51_600)]
