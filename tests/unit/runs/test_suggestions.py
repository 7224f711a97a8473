"""What the pages suggest can be asked: the offline planner makes a plan of every suggestion, and says nothing is missing."""

from datetime import UTC, datetime

import pytest

from apps.agent.planner.offline import OfflinePlanner
from apps.core.evidence import Question
from apps.core.geo.bands import Band
from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from apps.runs.suggestions import group_scenes, questions_for

UTM = Grid(crs="EPSG:32630", transform=(10.0, 0.0, 600000.0, 0.0, -10.0, 5640000.0), width=100, height=80)
PICTURE = Grid(width=100, height=80)


def scene(number: int, roles: tuple[str, ...], grid: Grid = UTM, day: int | None = None) -> SceneInfo:
    return SceneInfo(
        scene_id=f"scene-{number}",
        artifact="sha256:" + f"{number:064x}",
        name=f"file{number}.tif",
        grid=grid,
        dtype="uint16",
        bands=tuple(Band(index=k + 1, role=role) for k, role in enumerate(roles)),
        acquired_at=datetime(2020, 1, day, tzinfo=UTC) if day else None,
    )


MULTI = ("blue", "green", "red", "nir")
CASES = [
    [scene(1, MULTI)],
    [scene(1, MULTI, day=1), scene(2, MULTI, day=9)],
    [scene(k, ("ndvi",), day=k) for k in range(1, 7)],
    [scene(1, MULTI, grid=PICTURE)],
]


@pytest.mark.parametrize("scenes", CASES)
def test_every_suggestion_has_a_plan(scenes: list[SceneInfo]) -> None:
    questions = questions_for(scenes)
    assert questions
    for text in questions:
        plan = OfflinePlanner().plan(Question(text=text, scenes=tuple(scenes)))
        assert plan.steps, f"{text}: {plan.reason}"
        assert plan.code == ""


def test_nothing_is_suggested_where_band_roles_are_unknown() -> None:
    assert questions_for([scene(1, ("unknown", "unknown"))]) == []
    assert questions_for([scene(1, ("red", "green", "blue"))]) == []
    assert questions_for([]) == []


def test_no_area_is_suggested_without_a_place_or_a_gsd() -> None:
    assert not any("hectares" in text or "km2" in text for text in questions_for([scene(1, MULTI, grid=PICTURE)]))


def test_groups_keep_one_grid_and_one_set_of_bands_in_order_of_date() -> None:
    scenes = [
        scene(1, MULTI, day=9),
        scene(2, ("ndvi",), day=1),
        scene(3, MULTI, day=1),
        scene(4, MULTI),
        scene(5, MULTI, PICTURE),
    ]
    groups = group_scenes(scenes)
    assert [[s.scene_id for s in group.scenes] for group in groups] == [
        ["scene-2"],
        ["scene-5"],
        ["scene-3", "scene-1", "scene-4"],
    ]
    assert groups[1].detail == "GSD unknown"
    assert groups[2].detail == "3 scenes, 10 m"


def test_band_files_of_one_sensor_are_told_apart() -> None:
    files = [
        scene(k, (role,)).model_copy(update={"sensor": "Sentinel-2 MSI"}) for k, role in enumerate(("red", "nir", "unknown"))
    ]
    assert [g.detail for g in group_scenes(files)] == ["red, 10 m", "near infrared, 10 m", "10 m"]
    series = [scene(k, ("ndvi",), day=k).model_copy(update={"sensor": "MODIS"}) for k in (1, 2, 3)]
    assert [g.detail for g in group_scenes(series)] == ["3 dates, 10 m"]
