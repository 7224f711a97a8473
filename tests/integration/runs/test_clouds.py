"""Clouds left out because the words say so: the Landsat 8 stack with its quality band, from the question to the answer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray

from apps.accounts.models import Project
from apps.imagery.models import Scene
from apps.imagery.services import scenes_of_band_files
from apps.runs.selectors import run_state
from apps.runs.services import run_execute_now, run_start
from tests.scenes import scene_of_file

pytestmark = pytest.mark.shared_data


@pytest.fixture
def planes(shared_data: Path) -> dict[str, Any]:
    held = {}
    for name in ("B3", "B4", "B5", "BQA"):
        with rasterio.open(shared_data / f"multispectral/landsat8_cloudy/l8_{name}.tif") as src:
            held[name] = src.read(1).astype(float)
    return held


@pytest.fixture
def stack(shared_data: Path, project: Project) -> Scene:
    paths = [shared_data / f"multispectral/landsat8_cloudy/l8_{name}.tif" for name in ("B3", "B4", "B5", "BQA")]
    (scene,) = scenes_of_band_files(project=project, scenes=[scene_of_file(project=project, path=p) for p in paths])
    return scene


def reflectance(stored: NDArray[np.float64]) -> NDArray[np.float64]:
    """Level 1 of Landsat 8 as its handbook makes reflectance at the top of the atmosphere of it, but for the sun's angle."""
    return 2e-5 * stored - 0.1


def answered(project: Project, scene: Scene, text: str) -> Any:
    run = run_start(user=None, project=project, text=text, scenes=[scene], enqueue=False)
    assert run_execute_now(run_id=run.pk)
    state = run_state(run.pk)
    assert state.answer is not None
    return state


def test_the_mean_without_clouds_and_the_share_that_was_left_out(project: Project, stack: Scene, planes: dict[str, Any]) -> None:
    red, nir, qa = reflectance(planes["B4"]), reflectance(planes["B5"]), planes["BQA"].astype(int)
    cloudy = (qa >> 14 & 3) == 3  # cloud with high confidence, before collections
    known = planes["B4"] + planes["B5"] > 0
    state = answered(project, stack, "What is the mean NDVI ignoring clouds?")
    assert not state.answer.abstained, state.answer.text
    assert state.answer.value == pytest.approx(((nir - red) / (nir + red))[known & ~cloudy].mean(), rel=1e-9)
    (held,) = state.history
    masked = held.observation.evidence.intermediate["quality_masked"]
    assert (masked["n_px"], masked["of_px"]) == (int((known & cloudy).sum()), int(known.sum()))
    assert f"{masked['n_px']:,} of {masked['of_px']:,} pixels" in state.answer.text
    assert "left out as cloud of high confidence by Landsat’s quality band (before collections)" in state.answer.text
    cirrus, medium = (qa >> 12 & 3) == 3, (qa >> 14 & 3) == 2
    shares = held.observation.evidence.intermediate["quality_left_in"][stack.scene_info.scene_id]
    assert shares == pytest.approx({"cirrus": (cirrus & ~cloudy).mean(), "cloud of medium confidence": medium.mean()})
    said = next(w for w in state.answer.warnings if "beside what was left out" in w)
    assert f"cirrus on {(cirrus & ~cloudy).mean():.1%}".replace("%", " %") in said


def test_an_area_without_clouds(project: Project, stack: Scene, planes: dict[str, Any]) -> None:
    green, nir, qa = reflectance(planes["B3"]), reflectance(planes["B5"]), planes["BQA"].astype(int)
    with np.errstate(all="ignore"):
        water = ((green - nir) / (green + nir) > 0) & ((qa >> 14 & 3) != 3)
    state = answered(project, stack, "How many hectares are water, cloud-free pixels only?")
    assert state.answer.value == pytest.approx(water.sum() * 0.09, rel=2e-3)  # 30 m pixels, on the ellipsoid


def test_a_scene_without_a_quality_band_cannot(project: Project, fish: Scene) -> None:
    answer = answered(project, fish, "What is the mean NDVI without clouds?").answer
    assert answer.abstained and answer.code == "NEEDS_BANDS" and "no quality band" in answer.text


def test_without_a_word_of_clouds_what_they_hide_is_not_counted_and_the_answer_says_so(
    project: Project, stack: Scene, planes: dict[str, Any]
) -> None:
    """A target that perceive looks for: its area is that of the pixels that were seen."""
    green, nir, qa = reflectance(planes["B3"]), reflectance(planes["B5"]), planes["BQA"].astype(int)
    hidden = (qa >> 14 & 3) == 3
    with np.errstate(all="ignore"):
        water = (green - nir) / (green + nir) > 0
    assert (water & hidden).any()
    state = answered(project, stack, "How many hectares of water are there?")
    assert not state.answer.abstained, state.answer.text
    assert state.answer.value == pytest.approx((water & ~hidden).sum() * 0.09, rel=2e-3)
    first = next(o for o in state.history if o.observation.tool == "perceive").observation
    assert first.evidence.validity["quality_mask"][0]["share"] == pytest.approx(hidden.mean())
    assert f"{int(hidden.sum()):,} of {hidden.size:,} pixels (6" in state.answer.text
    assert "left out as cloud of high confidence by Landsat’s" in state.answer.text
    assert {c.check: c.outcome for c in next(o for o in state.observations.values() if o.observation.id == first.id).checks}[
        "completeness.hidden_not_counted"] == "passed"  # fmt: skip


@pytest.mark.parametrize(
    "words", ["without clouds and cirrus", "ignoring clouds, shadows and cirrus", "excluding cirrus and clouds"]
)
def test_cirrus_is_left_out_too_where_that_is_asked(project: Project, stack: Scene, planes: dict[str, Any], words: str) -> None:
    """USGS, Landsat 8 data users handbook 1.0, quality band: bits 12 and 13 hold how sure cirrus is, 3 is high. Before,
    the words were not read, and cirrus could not be left out."""
    red, nir, qa = reflectance(planes["B4"]), reflectance(planes["B5"]), planes["BQA"].astype(int)
    hidden = ((qa >> 14 & 3) == 3) | ((qa >> 12 & 3) == 3)
    known = planes["B4"] + planes["B5"] > 0
    state = answered(project, stack, f"What is the mean NDVI {words}?")
    assert not state.answer.abstained, state.answer.text
    assert state.answer.value == pytest.approx(((nir - red) / (nir + red))[known & ~hidden].mean(), rel=1e-9)
    (held,) = state.history
    masked = held.observation.evidence.intermediate["quality_masked"]
    assert (masked["n_px"], masked["of_px"]) == (int((known & hidden).sum()), int(known.sum()))
    assert "cirrus" in state.answer.text
    left: Any = held.observation.evidence.intermediate["quality_left_in"]
    told = left[str(stack.pk)]
    assert "cirrus" not in told


def test_what_is_left_in_is_a_share_of_the_region_that_was_asked(project: Project, stack: Scene, planes: dict[str, Any]) -> None:
    """Before, it was that of the whole image, whatever the region held."""
    grid = stack.scene_info.grid
    rows, cols = slice(40, 160), slice(300, 420)
    corners = [grid.xy(c, r) for c, r in ((300, 40), (420, 40), (420, 160), (300, 160), (300, 40))]
    region = {"type": "Polygon", "coordinates": [[list(map(float, grid.lonlat(x, y))) for x, y in corners]]}
    run = run_start(
        user=None, project=project, text="What is the mean NDVI ignoring clouds?", scenes=[stack], region=region, enqueue=False
    )
    assert run_execute_now(run_id=run.pk)
    state = run_state(run.pk)
    qa = planes["BQA"].astype(int)[rows, cols]
    cloud, cirrus, medium = (qa >> 14 & 3) == 3, (qa >> 12 & 3) == 3, (qa >> 14 & 3) == 2
    wanted = {name: (at & ~cloud).mean() for name, at in (("cirrus", cirrus), ("cloud of medium confidence", medium))}
    (held,) = state.history
    left: Any = held.observation.evidence.intermediate["quality_left_in"]
    told = left[str(stack.pk)]
    for name, share in wanted.items():
        assert told.get(name, 0.0) == pytest.approx(share if share >= 0.01 else 0.0, abs=2e-3)
