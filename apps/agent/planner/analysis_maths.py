"""Plans of what is worked out of bands by name: ratios, formulas, histograms, centres, trends of each pixel, equations, pictures,
and what a quality band flags."""

from __future__ import annotations

import re
from typing import Any

from apps.agent.planner.analyses import quantity_said
from apps.agent.planner.analysis_physics import PhysicsAnalyses
from apps.agent.planner.analysis_pieces import Nodes
from apps.agent.planner.band_maths import BandFormula, read_formula
from apps.agent.planner.facts import method_text
from apps.agent.planner.fields import RefusalError
from apps.core.evidence.plan import AnswerRecipe
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import step_reference
from apps.verification.quality import DEFAULT, flags_of, quality_band_of

# A formula of one's own has no range that is known; only what is beyond any measurement is out of it.
_OPEN = (-1e9, 1e9)
_PLAIN_UNITS = frozenset({"reflectance", "1"})
_SIGNIFICANT = 0.05
_FLAGS = {"cloud": ("cloud",), "clouds": ("cloud",), "cloudy": ("cloud",), "clouded": ("cloud",), "cloud shadow": ("shadow",),
          "cloud shadows": ("shadow",), "shadow": ("shadow",), "shadows": ("shadow",), "cirrus": ("cirrus",),
          "snow": ("snow",)}  # fmt: skip


class MathsAnalyses(PhysicsAnalyses):
    """Plans of formulas, distributions and pictures."""

    # --- formulas ------------------------------------------------------------------------------------------------------------
    def _plan_ratio(self) -> AnswerRecipe:
        one, two = (quantity_said(self.asked.get(k)) for k in ("one", "two"))
        if one in self.words.indices or two in self.words.indices:
            raise RefusalError("A ratio here is one of two bands; of indices type the formula (ndvi / ndwi).", "NO_ANSWER",
                               {"form": ["quantity"]})  # fmt: skip
        text = f"({one} - {two}) / ({one} + {two})" if self.asked.get("nd") else f"{one} / {two}"
        return self._of_formula(text)

    def _plan_formula(self) -> AnswerRecipe:
        return self._of_formula(self.asked.get("formula"))

    def _of_formula(self, text: str) -> AnswerRecipe:
        formula = read_formula(text)
        if formula is None:
            raise RefusalError(f"I do not understand the formula {text[:80]}: it is made of names of bands and indices, "
                               "numbers, + - * / ^, "
                               "and abs, sqrt, exp, log, log10, min, max.", "NO_ANSWER", {"form": ["quantity"]})  # fmt: skip
        if any(n not in self.words.indices and n not in self.words.bands for n in formula.names):
            unknown = [n for n in formula.names if n not in self.words.indices and n not in self.words.bands]
            raise RefusalError(f"{', '.join(unknown)} is no band and no index that I know.", "NO_ANSWER", {"form": ["quantity"]})
        scene = self._with(*formula.names, why=f"The formula {formula.text}")
        self._check_region(scene)
        units = {n: "1" if n in self.words.indices else self._unit_of(scene, n) for n in formula.names}
        unit = self._unit_of_formula(formula, units, scene)
        nodes: Nodes = []
        if formula.pair is not None and not self.form.mask and all(n in scene.roles for n in formula.names):
            kind, first, second = formula.pair
            source = self._scene_node(nodes, scene)
            nodes.append(self._node(f"raster.product.{kind}", [source], "formula", first=first, second=second))
        else:
            for n in formula.names:
                self._take(nodes, scene, n, n)
            nodes.append(self._node("raster.product.math", list(formula.names), "formula", expression=formula.text,
                                    range=list(_OPEN), unit=unit))  # fmt: skip
        if self.asked.get("make"):
            self._say(f"a map of {formula.text}", scene)
            return self._layers((self._execute(nodes, f"{formula.text}."),), formula.text)
        phrase = self._title_of(f"of {formula.text}")
        self._say(f"the {phrase[0].lower()}{phrase[1:]}, worked out pixel by pixel", scene)
        return self._value(self._execute([*nodes, self._statistic_of("formula")], f"{phrase}, pixel by pixel."), phrase)

    def _unit_of(self, scene: SceneInfo, name: str) -> str:
        stand_ins = {"nir": ("nir", "nir08"), "thermal1": ("thermal1", "thermal2")}.get(name, (name,))
        return next((b.unit for r in stand_ins for b in scene.bands_with_role(r)), "1")

    def _unit_of_formula(self, formula: BandFormula, units: dict[str, str], scene: SceneInfo) -> str:
        """The unit of the result; refused where a number in it, or its parts together, would mean nothing."""
        held = set(units.values())
        if "dB" in held and (formula.power != 1 or formula.has_constant):
            raise RefusalError("Decibels are logarithms: products, quotients and powers of them mean nothing.", "NO_ANSWER",
                               {"form": ["quantity"]})  # fmt: skip
        if held <= _PLAIN_UNITS:
            return "1" if formula.power != 1 or held == {"1"} else "reflectance"
        if formula.has_constant:
            unit = next(u for u in units.values() if u not in _PLAIN_UNITS)
            raise RefusalError(f"{formula.text} adds a plain number, which has a meaning for reflectance; the bands of "
                               f"{scene.name} are in "
                               f"{unit}. Say their scale and offset.", "NEEDS_BANDS",
                               {"unit": "reflectance", "scene": scene.scene_id})  # fmt: skip
        if len(held) > 1:
            raise RefusalError(f"The bands have different units ({', '.join(sorted(held))}): put together they mean nothing.",
                               "NEEDS_BANDS", {"unit": "reflectance", "scene": scene.scene_id})  # fmt: skip
        if formula.power == 0:
            return "1"
        unit = held.pop()
        if formula.power != 1:
            raise RefusalError(f"Of bands in {unit} the unit of {formula.text} is not told; ask for a ratio or a "
                               "difference.", "NO_ANSWER",
                               {"form": ["quantity"]})  # fmt: skip
        return unit

    def _drawn(self, nodes: Nodes, what: str) -> None:
        """A picture beside the answer, which rests on the figures alone: nobody can work a picture out again."""
        n = self._execute(nodes, f"The same as {what}, for a person to look at.")
        self.warnings.append(f"The same is drawn as {what} in step {n}, for a person to look at.")

    # --- distributions -------------------------------------------------------------------------------------------------------
    def _plan_histogram(self) -> AnswerRecipe:
        self._named("A histogram")
        scene = self._one()
        self._check_region(scene)
        bins = int(self.asked.get("bins") or 50)
        if not 2 <= bins <= 500:
            raise RefusalError("A histogram has 2 to 500 bins.", "BAD_ARGUMENT", {"form": ["bins"]})
        title = self.words.title(self.asked.quantity)
        nodes, last = self._quantity_nodes(scene)
        counted = [*nodes, self._node("raster.summarize.histogram", [last], "histogram", bins=bins)]
        phrase = f"Histogram of {title}"
        self._say(f"the histogram of {title} in {bins} bins, its mean and its median", scene)
        steps = [self._execute(counted, f"{phrase} in {bins} equal bins.")]
        for statistic in ("mean", "median"):
            out = self._node("raster.summarize.statistic", [last], statistic=statistic)
            steps.append(self._execute([*nodes, out], f"{statistic.capitalize()} of {title}."))
        self._drawn([*counted, self._node("image.chart", ["histogram"], "chart", title=phrase[:100])], "a chart")
        self.answer_form = "text"
        return AnswerRecipe(kind="histogram", steps=tuple(steps), options={"phrase": phrase})

    def _plan_chart(self) -> AnswerRecipe:
        scenes = self._series(2)
        self._check_region(*scenes)
        nodes, ends = self._quantity_of_each(scenes)
        phrase = f"{self._title_of()} of {len(scenes)} dates"
        nodes.append(self._node("raster.summarize.series", ends, "series", statistic=self.form.statistic))
        self._say(f"the {phrase[0].lower()}{phrase[1:]}, and a chart of them", scenes[0], scenes[-1])
        n = self._execute(nodes, f"{phrase}.")
        self._drawn([*nodes, self._node("image.chart", ["series"], "chart", title=self._title_of()[:100])], "a chart")
        self.answer_form = "table"
        return AnswerRecipe(kind="charted", steps=(n,), options={"phrase": phrase})

    def _plan_centre(self) -> AnswerRecipe:
        target = next(n for n, e in self.words.targets.items() if self.asked.get("target") in e.words)
        self.form = self.form.model_copy(update={"target": target, "what": "area"})
        self.task_type, self.answer_form = "geospatial_determination", "text"
        scene = self._one()
        self._check_region(scene)
        title = self.words.title(target)
        graphs = [[*g, self._node("raster.summarize.centroid", ["mask"])] for g in self._target_nodes(scene, target)]
        arguments: list[dict[str, Any]] = [{"nodes": g, "output": "out"} for g in graphs]
        phrase = f"The centre of all {title}"
        found = method_text(self._target_methods(scene, target)[0])
        self._say(f"the centre of all {title} together, found by {found}", scene)
        n = self._add("execute", arguments[0], f"{phrase}, the mean place of its pixels.", alternatives=arguments[1:])
        return AnswerRecipe(kind="centre", steps=(n,), options={"phrase": phrase})

    # --- trends of each pixel ------------------------------------------------------------------------------------------------
    def _trend_nodes(self, scenes: list[SceneInfo], way: str, *, is_tested: bool) -> Nodes:
        nodes, ends = self._quantity_of_each(scenes)
        nodes.append(self._node("raster.product.pixel_trend", ends, "slope"))
        masks = []
        if way:
            nodes.append(self._node("raster.product.threshold", ["slope"], "way", op=">" if way == "up" else "<", value=0.0))
            masks.append("way")
        if is_tested:
            nodes += [
                self._node("raster.product.pixel_trend", ends, "p", output="p_value"),
                self._node("raster.product.threshold", ["p"], "sure", op="<", value=_SIGNIFICANT),
            ]
            masks.append("sure")
            if not way:
                nodes = [n for n in nodes if n["id"] != "slope"]
        if len(masks) > 1:
            nodes.append(self._node("raster.product.logic", masks, "mask", op="and"))
        elif masks:
            nodes[-1]["id"] = "mask"
        return nodes

    def _trend_words(self, n: int) -> tuple[str, bool, str]:
        """(up, down or '', whether it is tested, the words) of the trend that is asked for."""
        said = self.asked.get("way") or self.asked.get("noun")
        way = "" if not said else "up" if re.match(r"ris|increas|grow|gain|positive|upward", said) else "down"
        is_tested = bool(self.asked.get("sig") or self.asked.get("sig2"))
        name = self.words.title(self.asked.quantity)
        words = {"up": "rises", "down": "falls", "": "has a trend"}[way]
        test = f", significantly (p < {_SIGNIFICANT:g} of each pixel's own line)" if is_tested else ""
        return way, is_tested, f"where {name} {words}, by a line through {n} dates{test}"

    def _check_trend(self, scenes: list[SceneInfo], *, is_tested: bool) -> None:
        self.task_type = "trend_analysis"
        self._check_region(*scenes)
        if is_tested:
            self.warnings.append(
                "Each pixel is tested for itself: of pixels without any trend one in twenty passes, and dates of a season "
                "that are "
                "alike make more pass."
            )

    def _plan_pixel_trend_map(self) -> AnswerRecipe:
        scenes = self._series(3)
        if not self.asked.get("way"):
            self._check_trend(scenes, is_tested=False)
            nodes = self._trend_nodes(scenes, "", is_tested=False)
            phrase = f"Trend of {self.words.title(self.asked.quantity)} a year, pixel by pixel, over {len(scenes)} dates"
            self._say(f"a map of the {phrase[0].lower()}{phrase[1:]}", scenes[0], scenes[-1])
            return self._layers((self._execute(nodes, f"{phrase}."),), phrase)
        way, is_tested, words = self._trend_words(len(scenes))
        self._check_trend(scenes, is_tested=is_tested)
        nodes = self._trend_nodes(scenes, way, is_tested=is_tested)
        self._say(f"a map of {words}", scenes[0], scenes[-1])
        return self._layers((self._execute(nodes, f"{words[:1].upper()}{words[1:]}."),), f"{words[:1].upper()}{words[1:]}")

    def _plan_pixel_trend_part(self) -> AnswerRecipe:
        scenes = self._series(3)
        way, is_tested, words = self._trend_words(len(scenes))
        if not way and not is_tested:
            raise RefusalError("Every pixel has some trend: a rising one, a falling one, or a significant one?", "NO_ANSWER",
                               {"form": ["trend"]})  # fmt: skip
        self._check_trend(scenes, is_tested=is_tested)
        task = self.task_type
        out, unit, word = self._part("mask")
        self.task_type = task
        if word == "Area":
            self._needs_ground(scenes[0])
        nodes = [*self._trend_nodes(scenes, way, is_tested=is_tested), out]
        phrase = f"{word} {words}"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", scenes[0], scenes[-1])
        return self._value(self._execute(nodes, f"{phrase}."), phrase, unit)

    # --- quality bands -------------------------------------------------------------------------------------------------------
    def _plan_sky(self) -> AnswerRecipe:
        self.form = self.form.model_copy(update={"mask": "clear"})  # only scenes whose quality band can be read
        self.task_type, self.answer_form = "image_quality", "share"
        scene = self._one()
        self._check_region(scene)
        band = quality_band_of(scene.bands)
        assert band is not None  # by _one
        said = self.asked.get("flag")
        is_clear = not said
        flags = DEFAULT[band.scheme] if is_clear else _FLAGS[said]
        if missing := [f for f in flags if f not in flags_of(band.scheme)]:
            raise RefusalError(f"The quality band of {scene.name} does not tell {' and '.join(missing)}.", "NEEDS_BANDS",
                               {"roles": ["qa"]})  # fmt: skip
        nodes: Nodes = [
            self._node("asset.scene", (), "s1", scene=scene.scene_id),
            self._node("raster.product.qa_mask", ["s1"], "flagged", flags=list(flags)),
        ]
        listed = " or ".join(f.replace("_", " ") for f in flags)
        last = "flagged"
        if is_clear:
            nodes += [
                self._node("raster.product.math", ["flagged"], "rest", expression="1 - flagged", range=[0, 1], quantity="clear"),
                self._node("raster.product.threshold", ["rest"], "clear", op=">", value=0.5),
            ]
            last = "clear"
        nodes.append(self._node("raster.summarize.share", [last]))
        verb = "does not flag" if is_clear else "flags"
        phrase = f"Share of the pixels that the quality band {verb} as {listed}"
        self.form = self.form.model_copy(update={"mask": ""})
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", scene)
        return self._value(self._execute(nodes, f"{phrase}."), phrase, "%")

    # --- equations and pictures ----------------------------------------------------------------------------------------------
    def _plan_solve(self) -> AnswerRecipe:
        a = self.asked
        equation = a.get("equation").strip()
        unknowns = sorted(set(re.findall(r"[a-z][a-z0-9_]*", equation)) - {"sqrt", "exp", "log", "sin", "cos", "tan", "abs"})
        unknown = a.get("unknown") or (unknowns[0] if len(unknowns) == 1 else "")
        if not unknown or unknowns != [unknown]:
            raise RefusalError(f"An equation is solved in one unknown; here {', '.join(unknowns) or 'none'} stands in it.",
                               "NO_ANSWER", {"form": ["equation"]})  # fmt: skip
        pick = {"largest": "max", "greatest": "max", "smallest": "min", "least": "min"}.get(a.get("pick"), "only")
        params: dict[str, Any] = {"equation": equation, "unknown": unknown, "pick": pick}
        if a.get("low"):
            params["between"] = [float(a.get("low")), float(a.get("high"))]
        which = f"{a.get('pick')} " if a.get("pick") else ""
        where = f" between {a.get('low')} and {a.get('high')}" if a.get("low") else ""
        self.understood = f"You ask for the {which}solution of {equation} for {unknown}{where}."
        n = self._execute([self._node("value.solve", (), **params)], f"Solve {equation} for {unknown}.")
        return self._value(n, f"{which[:1].upper()}{which[1:]}{unknown}{where}, by {equation},")

    def _plan_colours(self) -> AnswerRecipe:
        self._named("A coloured map")
        scene = self._one()
        self._check_region(scene)
        nodes, last = self._quantity_nodes(scene)
        colours = self.asked.get("colours")
        title = self.words.title(self.asked.quantity)
        title = f"{title[:1].upper()}{title[1:]}"
        self._say(f"a map of {self.words.title(self.asked.quantity)}, and a picture of it in colours", scene)
        n = self._execute(nodes, f"{title}.")
        params = {"colours": colours} if colours else {}
        self._drawn(
            [*nodes, self._node("image.colours", [last], "picture", **params)], f"a picture in colours ({colours or 'viridis'})"
        )
        return self._layers((n,), title)

    def _plan_annotate(self) -> AnswerRecipe:
        said = self.asked.get("target") or self.asked.get("object")
        self.answer_form = "text"
        if not said:
            scene = self._one()
            nodes: Nodes = [self._node("asset.scene", (), "s1", scene=scene.scene_id), self._node("image.annotate", ["s1"])]
            self._say("the image with legend and scale bar", scene)
            n = self._execute(nodes, "The image with legend and scale bar.")
            return AnswerRecipe(kind="pictured", steps=(n,), options={"phrase": "The image with legend and scale bar"})
        known = [(n, e.words) for n, e in self.words.targets.items()] + [(n, o.words) for n, o in self.words.objects.items()]
        target = next(n for n, words in known if said in words)
        self.form = self.form.model_copy(update={"target": target, "what": "area"})
        scene = self._one()
        self._check_region(scene)
        title = self.words.title(target)
        layer = self._find(scene, target)
        self._say(f"a map of {title}, and the image with {title} drawn on it", scene)
        nodes = [self._node("asset.scene", (), "s1", scene=scene.scene_id),
                 self._node("image.annotate", ["s1"], layers=[step_reference(layer)])]  # fmt: skip
        n = self._add("execute", {"nodes": nodes, "output": "out"}, f"The image with {title} drawn on it, to look at.", (layer,))
        self.warnings.append(f"The same is drawn on a copy of the image in step {n}, for a person to look at.")
        return self._layers((layer,), f"{title[:1].upper()}{title[1:]}")
