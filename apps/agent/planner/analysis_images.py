"""Plans of an image itself and of what there is: quality, clouds, text, bounds, dates that are missing."""

from __future__ import annotations

import json
import re
from typing import Any

import shapely

from apps.agent.planner.analyses import SOURCES_SAID
from apps.agent.planner.analysis_pieces import AnalysisPieces
from apps.agent.planner.fields import RefusalError
from apps.core.evidence.plan import AnswerRecipe

_CATALOGUES = {
    "project": "in the project",
    "folder": "in the site's STAC folder",
    "api": "by the site's STAC APIs",
    "all": "in the question, the project, and the site's STAC folder and APIs",
}
_ABOUT = {
    "noisy": "noise",
    "noise": "noise",
    "blurred": "sharpness",
    "blurry": "sharpness",
    "blur": "sharpness",
    "sharp": "sharpness",
    "sharpness": "sharpness",
    "in focus": "sharpness",
    "striped": "stripes",
    "stripy": "stripes",
    "stripes": "stripes",
    "striping": "stripes",
    "saturated": "saturation",
    "saturation": "saturation",
    "overexposed": "saturation",
    "quality": "all",
}


class ImageAnalyses(AnalysisPieces):
    """Plans of an image as a whole, and of a catalogue."""

    def _look(self, mode: str, objective: str) -> int:
        scene = self._one()
        self._check_region(scene)
        self._say(objective, scene)
        return self._add(
            "perceive",
            {"image_paths": [scene.scene_id], "objective": objective, "mode": mode},
            f"{objective[:1].upper()}{objective[1:]}.",
        )

    def _plan_quality(self) -> AnswerRecipe:
        self.task_type, self.answer_form = "image_quality", "text"
        about = _ABOUT[self.asked.get("about")]
        what = {
            "noise": "noise",
            "sharpness": "sharpness",
            "stripes": "stripes",
            "saturation": "saturated pixels",
            "all": "quality",
        }[about]
        n = self._look("evidence", f"the {what} of each band")
        return AnswerRecipe(kind="quality", steps=(n,), options={"phrase": what[:1].upper() + what[1:], "about": about})

    def _plan_valid(self) -> AnswerRecipe:
        self.task_type, self.answer_form = "image_quality", "share"
        return self._value(self._look("evidence", "the share of valid pixels"), "Share of valid pixels", "%")

    def _plan_cloudy(self) -> AnswerRecipe:
        self.task_type, self.answer_form = "image_quality", "share"
        n = self._look("evidence", "the share of clouds")
        return AnswerRecipe(
            kind="reading",
            steps=(n,),
            unit="%",
            options={
                "phrase": "Share of the valid pixels that is cloud",
                "path": ["clouds", "cloud_share"],
                "of": "1",
                "why": ["clouds", "why"],
            },
        )

    def _plan_text(self) -> AnswerRecipe:
        self.task_type, self.answer_form = "map_recognition", "text"
        n = self._look("document", "the text in the image")
        return AnswerRecipe(kind="written", steps=(n,), options={"phrase": "Text in the image"})

    def _plan_bounds(self) -> AnswerRecipe:
        self.task_type, self.answer_form = "geospatial_determination", "text"
        scene = self._one()
        if scene.grid.crs is None:
            raise RefusalError("The image has no coordinate system, so nobody knows where it lies.", "NEEDS_CRS", {"crs": True})
        self._say("where the image lies", scene)
        n = self._execute(
            [self._node("asset.scene", (), "s1", scene=scene.scene_id), self._node("asset.bounds", ["s1"])],
            "Bounds of the image in degrees.",
        )
        return AnswerRecipe(kind="bounds", steps=(n,), options={"phrase": "The image"})

    def _catalog(self, what: str, **params: Any) -> int:
        self.task_type = "time_property"
        spans = self._spans()
        if len(spans) > 1 or any(s.month_only for s in spans):
            raise RefusalError("Name one period with its years.", "NEEDS_DATES", {"form": ["dates"]})
        if spans:
            low, high = spans[0].start.isoformat(), spans[0].end.isoformat()
            params |= ({} if low.startswith("0001") else {"start": low}) | ({} if high.startswith("9999") else {"end": high})
        said = self.asked.get("source")
        source = next((name for words, name in SOURCES_SAID.items() if said and re.fullmatch(words, said)), "question")
        sensor, level = self.asked.get("sensor"), self.asked.get("level")
        if source != "question":
            box = self._place_of_catalogue()
            params |= {"bbox": box}
            what += f" ({_CATALOGUES[source]}; place: {', '.join(f'{v:.5f}' for v in box)})"
        if sensor:
            params["sensor"] = sensor
        if level:
            params["level"] = level.upper() if level.startswith(("l", "g", "s")) else f"L{level.upper()}"
        self._say(what)
        return self._execute([self._node("asset.catalog", (), source=source, **params)], f"{what[:1].upper()}{what[1:]}.")

    def _place_of_catalogue(self) -> list[float]:
        """West, south, east, north of the drawn region, else of the first image that has a place: other places are no part of
        the series."""
        if self.region is not None and self.question.region_crs == "EPSG:4326":
            return [float(v) for v in shapely.bounds(shapely.from_geojson(json.dumps(self.region)))]
        placed = next((s.grid for s in self.question.scenes if s.grid.crs is not None), None)
        if placed is None:
            raise RefusalError(
                "A catalogue is searched for a place: draw a region, or add an image with a coordinate system.",
                "NEEDS_REGION",
                {"region": True},
            )
        return list(placed.lonlat_bounds())

    def _plan_missing(self) -> AnswerRecipe:
        ask = self.asked.get("ask")
        days = self.asked.get("days")
        if not self.asked.get("source"):
            self._dated(list(self.question.scenes))
        n = self._catalog("which dates are missing from the series", **({"revisit_days": float(days)} if days else {}))
        is_any = ask.startswith(("are", "is"))
        self.answer_form = "boolean" if is_any else "integer" if ask == "how many" else "text"
        return AnswerRecipe(kind="missing", steps=(n,), options={"ask": "any" if is_any else ask})

    def _plan_held(self) -> AnswerRecipe:
        n = self._catalog("which images there are")
        ask = self.asked.get("ask")
        self.answer_form = "integer" if ask == "how many" else "text"
        return AnswerRecipe(kind="held", steps=(n,), options={"ask": ask})
