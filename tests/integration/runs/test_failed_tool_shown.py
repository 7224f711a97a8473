"""A tool that failed, and a question about no imagery: what the pages say where there is no figure and no picture."""

from __future__ import annotations

import io
import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import shapely
from django.test import Client
from PIL import Image

from apps.accounts.models import Project, User
from apps.imagery.vector_layers import vector_add_now
from apps.runs import selectors, services
from tests.integration.conftest import SAMPLES
from tests.scenes import scene_of_file

pytestmark = pytest.mark.django_db


def test_why_a_tool_failed_is_said_once_a_page(client: Client, analyst: User, project: Project) -> None:
    # 30 m a pixel: no model of scenes was made for it, whether there are models or not
    scene = scene_of_file(
        project=project, path=SAMPLES / "landsat7_p15r32_2002-07-20.tif", roles={"blue": 1, "green": 2, "red": 3}
    )
    run = services.run_start(user=analyst, project=project, text="What kind of place is this?", scenes=[scene], enqueue=False)
    services.run_execute_now(run_id=run.pk)
    (held,) = selectors.run_state(run.pk).observations.values()
    status = held.observation.status
    assert status.state == "failed" and status.reason
    client.force_login(analyst)
    rail = unescape(client.get(f"/runs/{run.pk}/rail/", headers={"X-Force": "1"}).content.decode())
    step = rail[rail.index(f'id="obs-{held.id}"') :].partition("</li>")[0]
    words = " ".join(re.sub(r"<[^>]+>", " ", step).split())
    assert words.count(status.reason.rstrip(".")) == 1 and f"No result · {status.reason}" in words
    page = unescape(client.get(f"/observations/{held.id}/").content.decode())
    head = page[page.index("<h1>") : page.index("</h1>")]
    assert "the tool failed" in head and status.reason not in head
    assert "there is no result that a rule could check" in page and "nothing but the verifier speaks for it" not in page


def test_a_question_about_no_imagery_has_an_empty_small_picture(
    client: Client, analyst: User, project: Project, tmp_path: Path
) -> None:
    square = shapely.geometry.mapping(shapely.box(-1.6, 50.7, -1.59, 50.71))
    path = tmp_path / "fields.geojson"
    features = [{"type": "Feature", "geometry": square, "properties": {"name": "F"}}]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    info = vector_add_now(project=project, path=path, name=path.name).vector_info
    text = "How many fields are there in fields.geojson?"
    run = services.run_start(user=analyst, project=project, text=text, scenes=[], vectors=[info], enqueue=False)
    services.run_execute_now(run_id=run.pk)
    held = next(iter(selectors.run_state(run.pk).observations.values()))
    client.force_login(analyst)
    answer = client.get(f"/observations/{held.id}/thumbnail.png")
    assert answer.status_code == 200
    picture = np.asarray(Image.open(io.BytesIO(answer.content)).convert("RGBA"))
    assert picture.shape == (112, 112, 4) and not picture[..., 3].any()
