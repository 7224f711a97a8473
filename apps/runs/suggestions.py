"""Scenes that belong together, and questions that can be answered from them with what is known of their bands. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apps.agent.planner.lexicon import role_list
from apps.core.geo.scene import SceneInfo


@dataclass(frozen=True, slots=True)
class SceneGroup:
    """Scenes of one grid and one set of bands, by date: what one question is usually about."""

    scenes: tuple[SceneInfo, ...]
    questions: tuple[str, ...]

    @property
    def first(self) -> SceneInfo:
        return self.scenes[0]

    @property
    def title(self) -> str:
        """Sensor where it is known, else the first file's name."""
        return self.first.sensor or self.first.name

    @property
    def detail(self) -> str:
        """The band of a single file of one band (band files of a sensor differ in nothing else), how many dates or scenes, and
        the pixel size."""
        gsd = self.first.effective_gsd_m
        many = len(self.scenes)
        dated = [s.acquired_at for s in self.scenes if s.acquired_at]
        count = "" if many == 1 else f"{many} dates" if len(set(dated)) == many else f"{many} scenes"
        bands = self.first.bands
        band = role_list((bands[0].role,)) if many == len(bands) == 1 and self.first.sensor and bands[0].role != "unknown" else ""
        return ", ".join(filter(None, [band, count, f"{gsd:.3g} m" if gsd else "GSD unknown"]))


def group_scenes(scenes: Iterable[SceneInfo]) -> list[SceneGroup]:
    """Groups by grid and band roles, each ordered by date (undated last).

    First those that a question can be answered from, single scenes before pairs and series; else in the order of their
    first scene.
    """
    groups: dict[tuple[object, ...], list[SceneInfo]] = {}
    for scene in scenes:
        roles = tuple(band.role for band in scene.bands)
        # without a place on Earth two pictures have nothing in common but their size
        key = (scene.grid, roles) if scene.grid.is_georeferenced else (scene.scene_id,)
        groups.setdefault(key, []).append(scene)
    result = []
    for members in groups.values():
        ordered = sorted(members, key=lambda s: (s.acquired_at is None, s.acquired_at.isoformat() if s.acquired_at else s.name))
        result.append(SceneGroup(tuple(ordered), tuple(questions_for(ordered))))
    return sorted(result, key=lambda group: (not group.questions, len(group.scenes)))


def questions_for(scenes: Sequence[SceneInfo]) -> list[str]:
    """Questions the offline planner understands and the scenes' bands can answer; none where the band roles are unknown."""
    if not scenes:
        return []
    roles = frozenset.intersection(*(scene.roles for scene in scenes))
    has_ground = all(scene.grid.is_georeferenced or scene.gsd_m for scene in scenes)
    has_ndvi = {"red", "nir"} <= roles or "ndvi" in roles
    has_water = "green" in roles and bool(roles & {"nir", "nir08", "swir1"})
    dates = [scene.acquired_at for scene in scenes if scene.acquired_at]
    questions: list[str] = []
    if len(scenes) > 2 and has_ndvi and len(dates) == len(scenes):
        questions += ["On which date is NDVI lowest?", "What is the mean NDVI of the series?", "What is the trend of NDVI?"]
    elif len(scenes) == 2 and has_ndvi and len(dates) == 2:
        first, second = (f"{moment:%Y-%m-%d}" for moment in sorted(dates))
        questions.append(f"What is the difference in NDVI between {first} and {second}?")
        if has_ground:
            questions.append("How many km2 show a drop in NDVI of more than 0.2?")
    elif has_ndvi:
        questions.append("What is the mean NDVI?")
        if has_ground:
            questions.append("How many hectares have NDVI above 0.4?")
        else:
            questions.append("What share has NDVI above 0.4?")
    if has_water and len(scenes) == 1:
        questions.append("How much water is there in km²?" if has_ground else "What share of the image is water?")
    return questions
