"""From an analysis that a question names (``analyses.py``) to a plan: one graph or call where that is enough, and a reason where
something is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import pyproj
import shapely

from apps.agent.dates import DateSpan
from apps.agent.planner.analyses import SOURCES_SAID, Asked, read_analysis
from apps.agent.planner.fields import Form, RefusalError
from apps.agent.planner.form import PlanBuilder
from apps.agent.planner.stated import span_said
from apps.agent.planner.steps import weights_said
from apps.agent.units import dimension
from apps.core.evidence.observation import TaskRef
from apps.core.evidence.plan import AnswerRecipe, Plan, Question
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import step_reference

Nodes = list[dict[str, Any]]
# A coarser grid gathers pixels from here on; below it neighbours are interpolated.
COARSER = 1.5
# z beyond which a pixel of Gi* is a hot or cold spot: 95 % of a normal distribution lie within.
SPOT_Z = 1.96
# Groups of dates of which a figure each is computed at once.
MOST_GROUPS = 36
# Roles by which two images are laid on each other, finest detail first.
_LAID_BY = ("pan", "green", "red", "nir", "blue", "nir08", "swir1", "swir2", "gray", "vv", "hh", "vh", "hv", "ndvi", "elevation")
_SPECTRAL = ("coastal", "blue", "green", "red", "rededge1", "rededge2", "rededge3", "nir", "nir08", "swir1", "swir2")
_WINDS = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")
# Classes of the preset burn_severity (Key and Benson 2006), by the number that they have in it.
_SEVERITY = {"low": (4,), "moderate-low": (5,), "moderate-high": (6,), "moderate": (5, 6), "high": (7,)}
_CATALOGUES = {
    "project": "in the project",
    "folder": "in the site's STAC folder",
    "api": "by the site's STAC APIs",
    "all": "in the question, the project, and the site's STAC folder and APIs",
}
GREENEST = "greenest"
_METHODS = {"average": "mean", "maximum": "max", "minimum": "min"}
_COUNTS = {"two": 2, "three": 3, "four": 4, "second": 2, "2nd": 2, "third": 3, "3rd": 3}
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
_PAIRS = frozenset(
    {
        "shift",
        "registered_change",
        "dnbr",
        "severity",
        "severity_part",
        "transitions",
        "transition_share",
        "changed",
        "change_map",
        "correlation",
    }
)
# Kinds that read pixels through an index or band, from which flagged pixels can be left out.
_MASKABLE = frozenset(
    {
        "regrid",
        "registered_change",
        "moran",
        "moran_test",
        "spots_count",
        "spots_part",
        "spots_map",
        "anomaly",
        "dnbr",
        "severity",
        "severity_part",
        "composite",
        "composite_map",
        "by",
        "cover",
        "trend_test",
        "mann_kendall",
        "break",
        "correlation",
    }
)


def plan_analysis(question: Question, planner: str = "offline") -> Plan | None:
    """The plan of such a question; None where it is about something else."""
    asked = read_analysis(question)
    is_dem = len(question.scenes) == 1 or any("elevation" in s.roles for s in question.scenes)
    if asked is None or (asked.kind == "slope" and not is_dem):
        return None  # the slope of a series over time is the parser's
    builder = AnalysisBuilder(question, asked)
    try:
        recipe = builder.analysis()
    except RefusalError as why:
        return builder.refused(why, planner)
    if question.choices:
        of = {"of": recipe.kind, "mode": "nearest" if recipe.kind in ("value", "reading") else "match"}
        recipe = recipe.model_copy(update={"kind": "choice", "options": {**recipe.options, **of}})
    return Plan(
        task=builder.task(),
        steps=tuple(builder.steps),
        answer=recipe,
        planner=planner,
        understood=builder.understood,
        warnings=tuple(dict.fromkeys(builder.warnings)),
    )


class AnalysisBuilder(PlanBuilder):
    """Fills a plan from an analysis; RefusalError where something is missing."""

    def __init__(self, question: Question, asked: Asked) -> None:
        spans = asked.spans
        if asked.is_period and len(spans) == 2 and asked.kind not in _PAIRS and not any(s.month_only for s in spans):
            spans = (DateSpan(spans[0].start, spans[1].end, (0, 0)),)
        unit = asked.get("in")
        form = Form.model_validate(
            {
                "what": "statistic",
                "quantity": asked.quantity,
                "statistic": asked.statistic or "mean",
                "scenes": asked.scenes,
                "dates": tuple(span_said(s) for s in spans),
                "mask": "clear" if asked.is_clear else "",
                "unit": unit if dimension(unit) == "area" else "",
            }
        )
        super().__init__(question, form)
        self.asked = asked
        self.task_type, self.answer_form = "index_statistic", "number"

    def task(self) -> TaskRef:
        form = "choice" if self.question.choices else self.answer_form
        return TaskRef(task_type=self.task_type, question=self.question.text, answer_form=form)

    def analysis(self) -> AnswerRecipe:
        a = self.asked
        if not self.question.scenes:
            raise RefusalError("There is no image to look at; add one.", "NO_ANSWER", {"scenes": True})
        if a.region and self.region is None:
            raise RefusalError(
                "The question speaks of a region, but none is drawn. Draw it on the map or paste it, and ask again.",
                "NEEDS_REGION",
                {"region": True},
            )
        if a.is_clear and a.kind not in _MASKABLE:
            raise RefusalError(
                "Clouds are left out of figures of an index or band; of this they are not.", "NO_ANSWER", {"form": ["mask"]}
            )
        build: Callable[[], AnswerRecipe] = getattr(self, f"_plan_{a.kind}")
        return build()

    # --- pieces ----------------------------------------------------------------------------------------------------
    def _named(self, what: str) -> None:
        if not self.asked.quantity:
            raise RefusalError(
                f"{what} of which index or band? Name it (NDVI, the near infrared band, …).", "NO_ANSWER", {"form": ["quantity"]}
            )

    def _say(self, what: str, *scenes: SceneInfo) -> None:
        days = [s.acquired_at.date().isoformat() for s in scenes if s.acquired_at]
        dates = "" if not days else f", of {days[0]}" if len(days) == 1 else f", from {days[0]} to {days[-1]}"
        region = ", in the region that is given" if self.region is not None else ""
        clear = ", without the pixels that the image's quality band flags" if self.form.mask else ""
        self.understood = f"You ask for {what}{dates}{region}{clear}."

    def _execute(self, nodes: Nodes, why: str) -> int:
        """A step whose graph ends in its last node."""
        return self._add("execute", {"nodes": nodes, "output": nodes[-1]["id"]}, why)

    def _node(self, op: str, inputs: Sequence[str], name: str = "out", /, **params: Any) -> dict[str, Any]:
        return {"id": name, "op": op, "inputs": [*inputs], "params": params | weights_said(self.question, op, params)}

    def _title_of(self, head: str = "") -> str:
        """'Mean NDVI', 'mean NDVI anomaly'."""
        words = {"mean": "Mean", "median": "Median", "min": "Minimum", "max": "Maximum", "std": "Standard deviation of"}
        return f"{words[self.form.statistic]} {head or self.words.title(self.asked.quantity)}"

    def _statistic_of(self, source: str) -> dict[str, Any]:
        return self._node("raster.summarize.statistic", [source], statistic=self.form.statistic)

    def _part(self, mask: str) -> tuple[dict[str, Any], str, str]:
        """(node, unit, word) of the share or area of a mask, as the words ask."""
        unit = self.asked.get("in")
        said = self.asked.get("part")
        # how much of the land is a share, how much land an area
        is_area = said == "area" or bool(self.asked.get("much")) or dimension(unit) == "area"
        if is_area and said in ("share", "fraction", "proportion", "percentage"):
            raise RefusalError(f"A {said} is not in {unit}; ask for the area.", "BAD_ARGUMENT", {"form": ["unit"]})
        if is_area and unit and dimension(unit) != "area":
            raise RefusalError(f"An area is not in {unit}.", "BAD_ARGUMENT", {"form": ["unit"]})
        if not is_area and unit not in ("", "%", "1"):
            raise RefusalError(f"Neither an area nor a share is in {unit}.", "BAD_ARGUMENT", {"form": ["unit"]})
        self.task_type, self.answer_form = "area_measurement", "area" if is_area else "share"
        if is_area:
            unit = unit or "km2"
            return self._node("raster.summarize.area", [mask], unit=unit), unit, "Area"
        return self._node("raster.summarize.share", [mask]), "%", "Share"

    def _value(self, step: int, phrase: str, unit: str = "1", *, signed: bool = False) -> AnswerRecipe:
        return AnswerRecipe(
            kind="value", steps=(step,), unit=unit, options={"phrase": phrase} | ({"signed": True} if signed else {})
        )

    def _layers(self, steps: Sequence[int], phrase: str) -> AnswerRecipe:
        self.answer_form = "text"
        if self.question.choices:
            raise RefusalError("This makes a map, which is no option of a multiple choice.")
        return AnswerRecipe(kind="layers", steps=tuple(steps), options={"phrase": phrase})

    def _on_first(self, first: SceneInfo, second: SceneInfo, nodes: Nodes, name: str) -> str:
        """The node that holds the second scene's raster on the first one's grid."""
        if first.grid == second.grid:
            return name
        if first.grid.crs is None or second.grid.crs is None:
            raise RefusalError(
                "The images differ in size, and at least one has no coordinate system.", "NEEDS_CRS", {"crs": True}
            )
        nodes.append(self._node("raster.product.resample", [name, nodes[0]["id"]], "on_first"))
        return "on_first"

    def _both(self, quantity: str = "") -> tuple[SceneInfo, SceneInfo, Nodes, str, str]:
        """(before, after, nodes, the node of each) of a quantity at two dates, on the first one's grid."""
        before, after = self._two()
        self._check_region(before, after)
        first, a = self._quantity_nodes(before, "1", quantity)
        second, b = self._quantity_nodes(after, "2", quantity)
        nodes = [*first, *second]
        return before, after, nodes, a, self._on_first(before, after, nodes, b)

    def _table_unit(self) -> str:
        unit = self.asked.get("in")
        if unit and dimension(unit) != "area":
            raise RefusalError(f"Areas are not in {unit}.", "BAD_ARGUMENT", {"form": ["unit"]})
        return unit or "ha"

    # --- grids ----------------------------------------------------------------------------------------------------
    def _plan_regrid(self) -> AnswerRecipe:
        a = self.asked
        self._named("Resampled to another grid: the values")
        scene = self._one()
        self._check_region(scene)
        if scene.grid.crs is None:
            raise RefusalError(
                "The image has no coordinate system, so it has no place on another grid.", "NEEDS_CRS", {"crs": True}
            )
        crs = self._known_crs(a.crs or scene.grid.crs, a.crs)
        params: dict[str, Any] = {"crs": a.crs} if a.crs else {}
        gsd, wanted = scene.effective_gsd_m, a.resolution_m
        method = {"n": "nearest", "b": "bilinear", "a": "average"}.get(a.get("how")[:1], "")
        if wanted is not None:
            if crs.is_geographic:
                raise RefusalError(
                    f"A pixel of {wanted:g} m has no size in degrees. Name a CRS in metres too, like EPSG:32630.",
                    "NEEDS_CRS",
                    {"crs": True},
                )
            params["resolution"] = wanted / crs.axis_info[0].unit_conversion_factor
            method = method or ("average" if gsd is not None and wanted >= COARSER * gsd else "bilinear")
            if "pseudo-mercator" in crs.name.lower():
                self.warnings.append("Metres of Web Mercator are longer than those on the ground away from the equator.")
        params["method"] = method or "bilinear"
        nodes, last = self._quantity_nodes(scene)
        where = (f" in pixels of {wanted:g} m" if wanted is not None else "") + (f" in {a.crs}" if a.crs else "")
        title = self.words.title(a.quantity)
        if a.get("make"):
            self._say(f"a map of {title}{where}", scene)
            n = self._execute([*nodes, self._node("raster.product.reproject", [last], **params)], f"{title}{where}.")
            return self._layers((n,), f"{title}{where}")
        nodes.append(self._node("raster.product.reproject", [last], "grid", **params))
        nodes.append(self._statistic_of("grid"))
        phrase = f"{self._title_of()}{where}"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}, {params['method']}", scene)
        return self._value(self._execute(nodes, f"{phrase}, {params['method']}."), phrase)

    def _known_crs(self, text: str, said: str) -> pyproj.CRS:
        try:
            crs = pyproj.CRS.from_user_input(text)
        except pyproj.exceptions.CRSError:
            raise RefusalError(f"{said} is no CRS that is known here.", "NEEDS_CRS", {"crs": True}) from None
        if not (crs.is_projected or crs.is_geographic) or crs.is_geocentric:
            raise RefusalError(f"{said} is no CRS of a map.", "NEEDS_CRS", {"crs": True})
        return crs

    # --- two images laid on each other ---------------------------------------------------------------------------------------
    def _plan_shift(self) -> AnswerRecipe:
        self.task_type = "change_detection"
        scenes = self._capable()
        if len(scenes) == 2 and not self.form.dates and not all(s.acquired_at for s in scenes):
            first, second = scenes
            self._same_place(scenes)
        else:
            first, second = self._two()
        self._check_region(first, second)
        role = next((r for r in _LAID_BY if all(len(s.bands_with_role(r)) == 1 for s in (first, second))), "")
        if not role:
            raise RefusalError(
                "The two images have no band in common by which they could be laid on each other.",
                "NEEDS_BANDS",
                {"roles": ["gray"]},
            )
        unit = self.asked.get("in") or ("m" if first.grid.gsd_m and first.grid.crs else "px")
        if unit not in ("m", "px"):
            raise RefusalError("A shift between images is told in pixels or metres.", "BAD_ARGUMENT", {"form": ["unit"]})
        if unit == "m" and not (first.grid.gsd_m and first.grid.crs):
            self._needs_ground(first)
            raise RefusalError("The image has no coordinate system: ask for the shift in pixels.", "NEEDS_CRS", {"crs": True})
        phrase = f"Shift of the later image against the earlier, by {self.words.title(role)}"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", first, second)
        if first.grid.crs is None:
            n = self._add(
                "perceive",
                {"image_paths": [first.scene_id, second.scene_id], "objective": "shift", "mode": "change"},
                f"{phrase}.",
            )
            return AnswerRecipe(
                kind="reading",
                steps=(n,),
                unit="px",
                options={
                    "phrase": phrase,
                    "path": ["shift_length_px"],
                    "none": "the two images have too little in common to tell how far they lie apart",
                },
            )
        one, a = self._quantity_nodes(first, "1", role)
        two, b = self._quantity_nodes(second, "2", role)
        nodes = [*one, *two]
        b = self._on_first(first, second, nodes, b)
        nodes += [
            self._node("raster.product.coregister", [b, a], "laid"),
            self._node("raster.summarize.agreement", [a, "laid"], measure="correlation"),
        ]
        n = self._execute(nodes, f"{phrase}, by phase correlation of edges.")
        key = "shift_length_px" if unit == "px" else "shift_m"
        return AnswerRecipe(kind="reading", steps=(n,), unit=unit, options={"phrase": phrase, "node": "laid", "path": [key]})

    def _plan_registered_change(self) -> AnswerRecipe:
        self.task_type = "change_detection"
        before, after, nodes, a, b = self._both()
        if before.grid.crs is None:
            raise RefusalError("Co-registration needs a coordinate system.", "NEEDS_CRS", {"crs": True})
        nodes += [
            self._node("raster.product.coregister", [b, a], "laid"),
            self._node("raster.product.difference", [a, "laid"], "difference"),
            self._node("raster.summarize.statistic", ["difference"], statistic="mean"),
        ]
        phrase = f"Mean change of {self.words.title(self.asked.quantity)} after co-registration"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", before, after)
        return self._value(self._execute(nodes, f"{phrase}, over pixels valid at both dates."), phrase, signed=True)

    # --- space ----------------------------------------------------------------------------------------------------
    def _moran(self) -> tuple[int, str]:
        self.task_type = "environmental_assessment"
        scene = self._one()
        self._check_region(scene)
        nodes, last = self._quantity_nodes(scene)
        phrase = f"Moran's I of {self.words.title(self.asked.quantity)}"
        self._say(f"{phrase}: whether like lies beside like", scene)
        return self._execute([*nodes, self._node("raster.summarize.moran", [last])], f"{phrase}, over 8 neighbours."), phrase

    def _plan_moran(self) -> AnswerRecipe:
        n, phrase = self._moran()
        return self._value(n, phrase)

    def _plan_moran_test(self) -> AnswerRecipe:
        n, phrase = self._moran()
        self.answer_form = "boolean"
        return AnswerRecipe(kind="clustered", steps=(n,), options={"phrase": phrase})

    def _spots(self) -> tuple[SceneInfo, Nodes, str]:
        heat = self.asked.get("heat")
        self._named(f"{heat.capitalize()} spots")
        self.task_type = "environmental_assessment"
        scene = self._one()
        self._check_region(scene)
        nodes, last = self._quantity_nodes(scene)
        limit = {"op": ">", "value": SPOT_Z} if heat == "hot" else {"op": "<", "value": -SPOT_Z}
        nodes += [
            self._node("raster.product.getis_ord", [last], "gi"),
            self._node("raster.product.threshold", ["gi"], "spots", **limit),
        ]
        return scene, nodes, f"{heat} spots of {self.words.title(self.asked.quantity)}"

    def _plan_spots_map(self) -> AnswerRecipe:
        _, nodes, what = self._spots()
        title = what[:1].upper() + what[1:]
        self._say(f"a map of {what} (Gi* beyond {SPOT_Z})", self._one())
        return self._layers((self._execute(nodes, f"{title}: Gi* beyond {SPOT_Z}, in 5 × 5 pixels."),), title)

    def _plan_spots_part(self) -> AnswerRecipe:
        scene, nodes, what = self._spots()
        out, unit, word = self._part("spots")
        if word == "Area":
            self._needs_ground(scene)
        self._say(f"the {word.lower()} of {what} (Gi* beyond {SPOT_Z})", scene)
        n = self._execute([*nodes, out], f"{word} where Gi* of 5 × 5 pixels is beyond {SPOT_Z}.")
        return self._value(n, f"{word} of {what}", unit)

    def _plan_spots_count(self) -> AnswerRecipe:
        scene, nodes, what = self._spots()
        self.answer_form = "integer"
        self._say(f"the number of {what}: pieces whose Gi* is beyond {SPOT_Z}", scene)
        layer = self._execute(nodes, f"{what[:1].upper()}{what[1:]}: Gi* beyond {SPOT_Z}, in 5 × 5 pixels.")
        one = what.replace("spots", "spot")
        n = self._add(
            "measure",
            {
                "sources": [{"name": one, "mode": "regions", "layer": step_reference(layer)}],
                "spec": {"metric": "count", "subject": one, "unit": "1"},
            },
            f"Count the connected pieces of {what}.",
            (layer,),
        )
        return AnswerRecipe(kind="value", steps=(n,), options={"noun": what, "noun_one": one, "phrase": f"Number of {what}"})

    # --- class maps ----------------------------------------------------------------------------------------------------
    def _of_classes(self) -> None:
        self.form = self.form.model_copy(update={"quantity": "class"})

    def _plan_classes(self) -> AnswerRecipe:
        self._of_classes()
        self.task_type, self.answer_form = "area_measurement", "table"
        unit = self._table_unit()
        scene = self._one()
        self._check_region(scene)
        self._needs_ground(scene)
        nodes, last = self._quantity_nodes(scene)
        self._say("the area and share of each class of the class map", scene)
        n = self._execute(
            [*nodes, self._node("raster.summarize.class_areas", [last], unit=unit)], "Area and share of each class."
        )
        return AnswerRecipe(kind="classes", steps=(n,), unit=unit, options={"phrase": "Classes of the class map"})

    def _transitions(self, what: str) -> int:
        self._of_classes()
        self.task_type, self.answer_form = "change_detection", "table"
        before, after = self._two()
        self._check_region(before, after)
        first, a = self._quantity_nodes(before, "1")
        second, b = self._quantity_nodes(after, "2")
        if before.grid != after.grid:
            raise RefusalError(
                "The two class maps lie on different grids, and classes are not mixed by resampling.",
                "NO_ANSWER",
                {"scenes": [before.scene_id, after.scene_id]},
            )
        self._say(what, before, after)
        return self._execute(
            [*first, *second, self._node("raster.summarize.transitions", [a, b])],
            "Pixels of each pair of classes, before and after.",
        )

    def _plan_transitions(self) -> AnswerRecipe:
        n = self._transitions("which class became which")
        return AnswerRecipe(kind="transitions", steps=(n,), options={"phrase": "Share of the pixels whose class changed"})

    def _plan_transition_share(self) -> AnswerRecipe:
        n = self._transitions("the share of the pixels whose class changed")
        self.answer_form = "share"
        return self._value(n, "Share of the pixels whose class changed", "%")

    # --- terrain ----------------------------------------------------------------------------------------------------
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

    def _class_table(self, nodes: Nodes, source: str, preset: str, phrase: str) -> AnswerRecipe:
        self.answer_form, unit = "table", self._table_unit()
        nodes += [
            self._node("raster.product.classify", [source], "classes", preset=preset),
            self._node("raster.summarize.class_areas", ["classes"], unit=unit),
        ]
        n = self._execute(nodes, f"{phrase}, area and share of each.")
        return AnswerRecipe(kind="classes", steps=(n,), unit=unit, options={"phrase": phrase})

    def _plan_slope_classes(self) -> AnswerRecipe:
        self.task_type = "area_measurement"
        scene, nodes, last = self._heights()
        nodes.append(self._node("raster.product.terrain", [last], "slope", product="slope"))
        self._say("the area of each class of slope (2, 5, 15, 30 degrees)", scene)
        return self._class_table(nodes, "slope", "slope_degrees", "Classes of slope at 2, 5, 15 and 30 degrees")

    # --- dates ----------------------------------------------------------------------------------------------------
    def _plan_anomaly(self) -> AnswerRecipe:
        said = self.asked.get("mode")
        mode = "percent" if "percent" in said else "difference" if said == "anomaly" else "zscore"
        spans = self._spans()
        if len(spans) != 1:
            raise RefusalError(
                "The anomaly of which date? Name one; the others are what it is compared with.",
                "NEEDS_DATES",
                {"available": [s.acquired_at.date().isoformat() for s in self.question.scenes if s.acquired_at]},
            )
        dated = self._dated(self._capable())
        now = [s for s in dated if s.acquired_at and spans[0].covers(s.acquired_at.date())]
        if len(now) != 1:
            raise RefusalError(
                f"{len(now) or 'No'} images fall in that time; name the date of one.",
                "NEEDS_DATES",
                {"available": [s.acquired_at.date().isoformat() for s in dated if s.acquired_at]},
            )
        past = [s for s in dated if s.scene_id != now[0].scene_id]
        if len(past) < 3:
            raise RefusalError(
                f"An anomaly needs three other dates at least; there are {len(past)}.", "NEEDS_DATES", {"scenes": True}
            )
        self._same_place([now[0], *past])
        self._check_region(now[0], *past)
        if len({s.acquired_at.month for s in (now[0], *past) if s.acquired_at}) > 1:
            self.warnings.append("The other dates are of other months too, so a part of the anomaly is the season.")
        nodes: Nodes = []
        ends = []
        for i, s in enumerate([now[0], *past], start=1):
            more, last = self._quantity_nodes(s, str(i))
            nodes += more
            ends.append(last)
        name = {"difference": "anomaly", "zscore": "z score", "percent": "anomaly in per cent"}[mode]
        phrase = f"{self._title_of()} {name} against {len(past)} other dates"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", now[0])
        nodes += [self._node("raster.product.anomaly", ends, "anomaly", mode=mode), self._statistic_of("anomaly")]
        return self._value(self._execute(nodes, f"{phrase}."), phrase, signed=True)

    def _loss(self) -> tuple[SceneInfo, SceneInfo, Nodes]:
        self.task_type = "disaster_discrimination"
        self.form = self.form.model_copy(update={"quantity": "nbr"})
        before, after, nodes, a, b = self._both("nbr")
        nodes.append(self._node("raster.product.difference", [a, b], "dnbr", mode="loss"))
        return before, after, nodes

    def _plan_dnbr(self) -> AnswerRecipe:
        before, after, nodes = self._loss()
        phrase = self._title_of("dNBR")
        self._say(f"the {phrase[0].lower()}{phrase[1:]} (NBR before less after)", before, after)
        return self._value(
            self._execute([*nodes, self._statistic_of("dnbr")], f"{phrase}, NBR before less after."), phrase, signed=True
        )

    def _plan_severity(self) -> AnswerRecipe:
        before, after, nodes = self._loss()
        self._needs_ground(before)
        self._say("the area of each class of burn severity (dNBR, Key and Benson 2006)", before, after)
        return self._class_table(nodes, "dnbr", "burn_severity", "Classes of burn severity by dNBR")

    def _plan_severity_part(self) -> AnswerRecipe:
        before, after, nodes = self._loss()
        said = self.asked.get("severity").replace(" ", "-")
        out, unit, word = self._part("mask")
        if word == "Area":
            self._needs_ground(before)
        nodes += [
            self._node("raster.product.classify", ["dnbr"], "classes", preset="burn_severity"),
            self._node("raster.product.class_values", ["classes"], "mask", values=list(_SEVERITY[said])),
            out,
        ]
        phrase = f"{word} of {said} severity by dNBR"
        self._say(f"the {phrase[0].lower()}{phrase[1:]} (Key and Benson 2006)", before, after)
        return self._value(self._execute(nodes, f"{phrase}."), phrase, unit)

    def _composite_nodes(self, scenes: Sequence[SceneInfo], method: str) -> tuple[Nodes, dict[str, Any]]:
        nodes: Nodes = []
        ends = []
        for i, s in enumerate(scenes, start=1):
            more, last = self._quantity_nodes(s, str(i))
            nodes += more
            ends.append(last)
        if method != GREENEST:
            return nodes, self._node("raster.product.composite", ends, "composite", method=method)
        greens = []
        for i, s in enumerate(scenes, start=1):
            lacks = [r for r in ("nir", "red") if r not in s.roles]
            if lacks and "ndvi" not in s.roles:
                raise RefusalError(
                    f"The greenest date is found by NDVI; {s.name} has no {' and no '.join(lacks)} band.",
                    "NEEDS_BANDS",
                    {"roles": lacks},
                )
            more, last = self._quantity_nodes(s, f"g{i}", "ndvi")
            nodes += [{**more[1], "inputs": [f"s{i}"]}]
            greens.append(last)
        return nodes, self._node("raster.product.best_pixel", [*ends, *greens], "composite", pick="max")

    def _method(self, default: str) -> str:
        """How the dates of a pixel become one value. NDVI at the greenest date is its greatest, without a second reading."""
        how = self.asked.get("how") or default
        if how.startswith(GREENEST):
            return "max" if self.asked.quantity == "ndvi" else GREENEST
        return _METHODS.get(how, how)

    def _plan_composite(self) -> AnswerRecipe:
        scenes = self._series(2)
        self._check_region(*scenes)
        method = self._method("median")
        nodes, composite = self._composite_nodes(scenes, method)
        phrase = f"{self._title_of()} of the {method} composite of {len(scenes)} dates"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", scenes[0], scenes[-1])
        return self._value(self._execute([*nodes, composite, self._statistic_of("composite")], f"{phrase}."), phrase)

    def _plan_composite_map(self) -> AnswerRecipe:
        scenes = self._series(2)
        self._check_region(*scenes)
        method = self._method("median")
        nodes, composite = self._composite_nodes(scenes, method)
        phrase = f"{method.capitalize()} composite of {self.words.title(self.asked.quantity)} over {len(scenes)} dates"
        self._say(f"a map: the {phrase[0].lower()}{phrase[1:]}", scenes[0], scenes[-1])
        return self._layers((self._execute([*nodes, composite], f"{phrase}."),), phrase)

    def _plan_by(self) -> AnswerRecipe:
        scenes = self._series(2)
        self._check_region(*scenes)
        size = 7 if self.asked.get("by").startswith("month") else 4
        groups = [
            (k, list(g))
            for k, g in groupby(scenes, key=lambda s: s.acquired_at.date().isoformat()[:size] if s.acquired_at else "")
        ]
        if len(groups) > MOST_GROUPS:
            raise RefusalError(
                f"The dates fall in {len(groups)} groups; name a period with at most {MOST_GROUPS}.",
                "TOO_LARGE",
                {"form": ["dates"]},
            )
        method = self._method("mean")
        # "median composites" are pictures, of which the mean is told; "the median by month" is that over the pixels too
        self.form = self.form.model_copy(update={"statistic": "mean" if self.asked.get("layered") else method})
        self.answer_form = "table"
        title = self._title_of()
        steps = []
        for label, members in groups:
            nodes, composite = self._composite_nodes(members, method)
            steps.append(
                self._execute(
                    [*nodes, composite, self._statistic_of("composite")],
                    f"{title} of {label}: {method} of {len(members)} date{'s' * (len(members) > 1)}.",
                )
            )
        phrase = f"{title} by {'month' if size == 7 else 'year'} ({method} composites)"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", scenes[0], scenes[-1])
        return AnswerRecipe(kind="rows", steps=tuple(steps), options={"phrase": phrase, "labels": [k for k, _ in groups]})

    def _one_series(self, analysis: str, phrase: str) -> int:
        scenes = self._series(4)
        self._say(f"{phrase} over {len(scenes)} dates", scenes[0], scenes[-1])
        self.task_type = "trend_analysis"
        return self._series_step(
            scenes,
            {"analysis": analysis, "statistic": "mean"},
            f"{phrase} over {len(scenes)} dates.",
            "raster.summarize.series_analysis",
        )

    def _plan_mann_kendall(self) -> AnswerRecipe:
        phrase = f"Mann–Kendall's tau of the mean {self.words.title(self.asked.quantity)}"
        return self._value(self._one_series("mann_kendall", phrase), phrase, signed=True)

    def _plan_trend_test(self) -> AnswerRecipe:
        phrase = f"Mann–Kendall's tau of the mean {self.words.title(self.asked.quantity)}"
        n = self._one_series("mann_kendall", phrase)
        self.answer_form = "boolean"
        return AnswerRecipe(kind="significant", steps=(n,), options={"phrase": phrase})

    def _plan_break(self) -> AnswerRecipe:
        phrase = f"The date of the change point of the mean {self.words.title(self.asked.quantity)} (Pettitt)"
        n = self._one_series("change_point", phrase)
        self.answer_form = "date"
        return AnswerRecipe(kind="break", steps=(n,), options={"phrase": phrase})

    def _plan_correlation(self) -> AnswerRecipe:
        before, after, nodes, a, b = self._both()
        phrase = f"Correlation of {self.words.title(self.asked.quantity)} of the two dates, pixel by pixel"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", before, after)
        return self._value(
            self._execute([*nodes, self._node("raster.summarize.agreement", [a, b], measure="correlation")], f"{phrase}."), phrase
        )

    # --- several bands ----------------------------------------------------------------------------------------------------
    def _plan_pan(self) -> AnswerRecipe:
        a = self.asked
        named = self._in_dates(list(self.question.scenes)) if self.form.dates else list(self.question.scenes)
        named = [s for s in named if not a.scenes or s.scene_id in a.scenes]
        pans = [s for s in named if len(s.bands_with_role("pan")) == 1]
        if len(pans) != 1:
            raise RefusalError(
                "Pan-sharpening needs a panchromatic band in one image" + (f"; {len(pans)} have one." if pans else "."),
                "NEEDS_BANDS",
                {"roles": ["pan"]},
            )
        colours = ("red", "green", "blue")
        fits = [s for s in named if all(len(s.bands_with_role(r)) == 1 for r in colours)]
        if len(fits) != 1:
            raise RefusalError(
                "Pan-sharpening needs red, green and blue in one image" + (f"; {len(fits)} have them." if fits else "."),
                "NEEDS_BANDS",
                {"roles": [*colours]},
            )
        if a.quantity and a.quantity not in colours:
            raise RefusalError(
                "The panchromatic band sees red, green and blue; only these are sharpened by it.",
                "NO_ANSWER",
                {"form": ["quantity"]},
            )
        scene, pan = fits[0], pans[0]
        self._check_region(scene, pan)
        steps = []
        for first in [a.quantity] if a.quantity else colours:
            order = [first, *(c for c in colours if c != first)]
            nodes: Nodes = [
                self._node("asset.scene", (), "s1", scene=scene.scene_id),
                self._node("asset.scene", (), "s2", scene=pan.scene_id),
            ]
            nodes += [self._node("raster.product.band", ["s1"], r, role=r) for r in order]
            nodes.append(self._node("raster.product.band", ["s2"], "pan", role="pan"))
            sharp = self._node("raster.product.pansharpen", [*order, "pan"], "sharp")
            more = [sharp, self._statistic_of("sharp")] if a.statistic else [sharp]
            steps.append(self._execute([*nodes, *more], f"The {first} band, pan-sharpened (Brovey)."))
        if a.statistic:
            phrase = self._title_of(f"of the pan-sharpened {a.quantity} band")
            self._say(f"the {phrase[0].lower()}{phrase[1:]}", scene)
            return self._value(steps[0], phrase)
        what = f"the {a.quantity} band" if a.quantity else "red, green and blue"
        self._say(f"{what}, pan-sharpened", scene)
        return self._layers(steps, f"{what[:1].upper()}{what[1:]}, pan-sharpened (Brovey)")

    def _components(self, component: int) -> tuple[SceneInfo, Nodes, int]:
        scene = self._one()
        self._check_region(scene)
        roles = [r for r in _SPECTRAL if len(scene.bands_with_role(r)) == 1]
        if len(roles) < 2 or component > len(roles):
            raise RefusalError(
                f"Principal components need several bands whose roles are known; {scene.name} has {len(roles)}.",
                "NEEDS_BANDS",
                {"roles": ["red", "nir"]},
            )
        units = {scene.bands_with_role(r)[0].unit for r in roles}
        nodes: Nodes = [self._node("asset.scene", (), "s1", scene=scene.scene_id)]
        nodes += [self._node("raster.product.band", ["s1"], f"b{i}", role=r) for i, r in enumerate(roles, start=1)]
        params: dict[str, Any] = {"component": component} | ({"standardize": True} if len(units) > 1 else {})
        nodes.append(self._node("raster.product.pca", [n["id"] for n in nodes[1:]], **params))
        return scene, nodes, len(roles)

    def _plan_pca(self) -> AnswerRecipe:
        component = _COUNTS.get(self.asked.get("k"), 1)
        scene, nodes, n_bands = self._components(component)
        phrase = f"Principal component {component} of {n_bands} bands"
        self._say(f"a map of {phrase[0].lower()}{phrase[1:]}", scene)
        return self._layers((self._execute(nodes, f"{phrase}."),), phrase)

    def _plan_pca_share(self) -> AnswerRecipe:
        said = self.asked.get("n")
        n = _COUNTS.get(said) or int(said or 1)
        scene, nodes, n_bands = self._components(1)
        if n > n_bands:
            raise RefusalError(f"{n_bands} bands have {n_bands} components.", "BAD_ARGUMENT", {"form": ["n"]})
        which = "component" if n == 1 else f"{n} components"
        phrase = f"Share of the variance of {n_bands} bands in the first principal {which}"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", scene)
        self.answer_form = "share"
        step = self._execute(nodes, f"{phrase}.")
        return AnswerRecipe(
            kind="reading",
            steps=(step,),
            unit="%",
            options={"phrase": phrase, "node": "out", "path": ["explained"], "first": n, "of": "1"},
        )

    def _plan_cover(self) -> AnswerRecipe:
        self.form = self.form.model_copy(update={"quantity": "ndvi"})
        scene = self._one()
        self._check_region(scene)
        nodes, last = self._quantity_nodes(scene)
        nodes += [self._node("raster.product.vegetation_cover", [last], "fvc"), self._statistic_of("fvc")]
        phrase = self._title_of("fractional vegetation cover")
        self._say(f"the {phrase[0].lower()}{phrase[1:]} (NDVI 0.05 bare, 0.95 full)", scene)
        return self._value(self._execute(nodes, f"{phrase}, NDVI between 0.05 and 0.95."), phrase)

    # --- an image itself ----------------------------------------------------------------------------------------------------
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

    # --- change ----------------------------------------------------------------------------------------------------
    def _change(self) -> tuple[int, SceneInfo, str]:
        self.task_type = "change_detection"
        before, after = self._two()
        self._check_region(before, after)
        model = self.asked.get("model")
        how = f"by the model {model}" if model else "by change vectors"
        arguments: dict[str, Any] = {"image_paths": [before.scene_id, after.scene_id], "objective": "change", "mode": "change"}
        if model:
            arguments["options"] = {"model": model}
        self._say(f"what changed between two images, {how}", before, after)
        return self._add("perceive", arguments, f"Where the two images differ, {how}."), before, how

    def _plan_change_map(self) -> AnswerRecipe:
        n, _, how = self._change()
        return self._layers((n,), f"Change, {how}")

    def _plan_changed(self) -> AnswerRecipe:
        n, before, how = self._change()
        _, unit, word = self._part("change")
        self.task_type = "change_detection"
        source: dict[str, Any] = {"name": "change", "mode": "change", "layer": step_reference(n)}
        if word == "Area":
            self._needs_ground(before)
            if before.grid.crs is None and before.effective_gsd_m is not None:
                source["gsd_m"] = before.effective_gsd_m
        spec: dict[str, Any] = (
            {"metric": "area", "subject": "change", "unit": unit}
            if word == "Area"
            else {"metric": "ratio", "subject": "change", "denominator": "valid", "unit": "1"}
        )
        phrase = f"{word} that changed, {how}"
        m = self._add("measure", {"sources": [source], "spec": spec}, f"{phrase}.", (n,))
        return self._value(m, phrase, unit)

    # --- what there is ----------------------------------------------------------------------------------------------------
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
