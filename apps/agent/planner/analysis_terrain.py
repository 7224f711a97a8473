"""Plans of terrain: slope, aspect, relief, hillshade."""

from __future__ import annotations

from typing import Any

from apps.agent.planner.analysis_pieces import AnalysisPieces, Nodes
from apps.agent.planner.fields import RefusalError
from apps.core.evidence.plan import AnswerRecipe
from apps.core.geo.scene import SceneInfo

_WINDS = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")


class TerrainAnalyses(AnalysisPieces):
    """Plans of heights."""

    def _heights(self) -> tuple[SceneInfo, Nodes, str]:
        self.form = self.form.model_copy(update={"quantity": "elevation"})
        scene = self._one()
        self._check_region(scene)
        nodes, last = self._quantity_nodes(scene)
        return scene, nodes, last

    def _terrain(self, product: str, phrase: str, **params: Any) -> AnswerRecipe:
        scene, nodes, last = self._heights()
        held = scene.bands_with_role("elevation")
        if held and held[0].unit != "m":
            raise RefusalError(
                f"The heights of {scene.name} are in {held[0].unit}, as far as is known; terrain needs metres. Say that its unit "
                "is m (beside the image; --unit m on the command line), with a scale where they are not whole metres.",
                "NEEDS_BANDS",
                {"unit": "m", "scene": scene.scene_id},
            )
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", scene)
        nodes += [
            self._node("raster.product.terrain", [last], "terrain", product=product, **params),
            self._statistic_of("terrain"),
        ]
        return self._value(self._execute(nodes, f"{phrase}."), phrase)

    def _plan_slope(self) -> AnswerRecipe:
        return self._terrain("slope", self._title_of("slope of the ground"))

    def _plan_rough(self) -> AnswerRecipe:
        said = self.asked.get("product")
        product = "roughness" if said == "roughness" else "tpi" if said in ("tpi", "topographic position index") else "tri"
        name = {
            "roughness": "roughness of the ground in 3 × 3 pixels",
            "tri": "terrain ruggedness index",
            "tpi": "topographic position index",
        }[product]
        return self._terrain(product, self._title_of(name))

    def _plan_local_relief(self) -> AnswerRecipe:
        window = int(self.asked.get("window"))
        if self.asked.get("window2") not in ("", str(window)) or window % 2 == 0 or not 3 <= window <= 201:
            raise RefusalError(
                "Relief is taken in a square window of an odd number of pixels, 3 to 201.", "BAD_ARGUMENT", {"form": ["window"]}
            )
        return self._terrain("relief", self._title_of(f"relief in {window} × {window} pixels"), window=window)

    def _plan_relief(self) -> AnswerRecipe:
        scene, nodes, last = self._heights()
        phrase = "Relief, the highest less the lowest elevation"
        self._say("the relief: the highest less the lowest elevation", scene)
        nodes += [
            self._node("raster.summarize.statistic", [last], "high", statistic="max"),
            self._node("raster.summarize.statistic", [last], "low", statistic="min"),
            self._node("value.calculate", ["high", "low"], expression="high - low", unit="m", range=[0, 9000], quantity="relief"),
        ]
        return self._value(self._execute(nodes, f"{phrase}."), phrase)

    def _plan_hillshade(self) -> AnswerRecipe:
        scene, nodes, last = self._heights()
        self._say("a hillshade, the sun in the north-west at 45°", scene)
        n = self._execute([*nodes, self._node("raster.product.terrain", [last], product="hillshade")], "Hillshade.")
        return self._layers((n,), "Hillshade")

    def _plan_aspect(self) -> AnswerRecipe:
        if self.asked.statistic:
            raise RefusalError(
                "Aspect is a direction: 1° and 359° are neighbours, so its mean, median or extreme means nothing. "
                "Ask which share faces south.",
                "NO_ANSWER",
                {"form": ["statistic"]},
            )
        scene, nodes, last = self._heights()
        self._say("a map of the aspect, degrees clockwise from north", scene)
        n = self._execute([*nodes, self._node("raster.product.terrain", [last], product="aspect")], "Aspect of the ground.")
        return self._layers((n,), "Aspect of the ground")

    def _plan_aspect_part(self) -> AnswerRecipe:
        wind = self.asked.get("wind").replace("-", "")
        scene, nodes, last = self._heights()
        out, unit, word = self._part("mask")
        half = 45.0 if wind in ("north", "east", "south", "west") else 22.5
        middle = 45.0 * _WINDS.index(wind)
        low, high = (middle - half) % 360, (middle + half) % 360
        nodes += [
            self._node("raster.product.terrain", [last], "aspect", product="aspect"),
            self._node("raster.product.threshold", ["aspect"], "from", op=">=", value=low),
            self._node("raster.product.threshold", ["aspect"], "to", op="<", value=high),
            self._node("raster.product.logic", ["from", "to"], "mask", op="or" if low > high else "and"),
            out,
        ]
        phrase = f"{word} that faces {self.asked.get('wind')} ({low:g}° to {high:g}°), of the ground that is not flat"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", scene)
        return self._value(self._execute(nodes, f"{phrase}."), phrase, unit)

    def _plan_slope_part(self) -> AnswerRecipe:
        a = self.asked
        scene, nodes, last = self._heights()
        out, unit, word = self._part("mask")
        op, limit = a.get("op"), float(a.get("limit"))
        is_below = a.get("rel") == "flatter" or any(w in op for w in ("below", "under", "less than", "most"))
        sign = ("<" if is_below else ">") + ("=" if op in ("at least", "at most") else "")
        nodes += [
            self._node("raster.product.terrain", [last], "slope", product="slope"),
            self._node("raster.product.threshold", ["slope"], "mask", op=sign, value=limit),
            out,
        ]
        phrase = f"{word} of the ground whose slope is {sign} {limit:g}°"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", scene)
        return self._value(self._execute(nodes, f"{phrase}."), phrase, unit)

    def _plan_slope_classes(self) -> AnswerRecipe:
        self.task_type = "area_measurement"
        scene, nodes, last = self._heights()
        nodes.append(self._node("raster.product.terrain", [last], "slope", product="slope"))
        self._say("the area of each class of slope (2, 5, 15, 30 degrees)", scene)
        return self._class_table(nodes, "slope", "slope_degrees", "Classes of slope at 2, 5, 15 and 30 degrees")
