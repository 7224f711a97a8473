"""Plans of several dates: anomalies, burn severity, composites, figures by month or year, tests of a trend."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from apps.agent.planner.analysis_pieces import AnalysisPieces, Nodes
from apps.agent.planner.facts import lowered
from apps.agent.planner.fields import RefusalError
from apps.core.evidence.observation import JsonMap
from apps.core.evidence.plan import AnswerRecipe
from apps.core.geo.scene import SceneInfo

# Groups of dates of which a figure each is computed at once.
MOST_GROUPS = 36
# Classes of the preset burn_severity (Key and Benson 2006), by the number that they have in it.
_SEVERITY = {"low": (4,), "moderate-low": (5,), "moderate-high": (6,), "moderate": (5, 6), "high": (7,)}
GREENEST = "greenest"
_METHODS = {"average": "mean", "maximum": "max", "minimum": "min"}


class DateAnalyses(AnalysisPieces):
    """Plans of several dates."""

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
        nodes, ends = self._quantity_of_each([now[0], *past])
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
        nodes, ends = self._quantity_of_each(scenes)
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

    def _plan_amplitude(self) -> AnswerRecipe:
        """The greatest mean of a date less the least: two figures of the same series."""
        scenes = self._series(3)
        title = f"mean {self.words.title(self.asked.quantity)}"
        phrase = f"Amplitude of the {title} over {len(scenes)} dates"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}: the greatest less the least", scenes[0], scenes[-1])
        steps = [
            self._series_step(scenes, {"statistic": "mean", "over": over}, f"The {word} {title} of {len(scenes)} dates.")
            for over, word in (("min", "least"), ("max", "greatest"))
        ]
        options: JsonMap = {"phrase": phrase, "labels": ["least of the dates", "greatest of the dates"]}
        return AnswerRecipe(kind="difference", steps=tuple(steps), options=options)

    def _plan_extreme_date(self) -> AnswerRecipe:
        """The greatest or least of the dates' means or medians: that of the pixels is another question."""
        scenes = self._series(2)
        is_least = self.asked.get("pick") in ("lowest", "smallest", "least", "minimum")
        phrase = f"{'Lowest' if is_least else 'Highest'} {lowered(self._title_of())} of {len(scenes)} dates"
        self._say(f"the {lowered(phrase)}", scenes[0], scenes[-1])
        params = {"statistic": self.form.statistic, "over": "min" if is_least else "max"}
        return self._value(self._series_step(scenes, params, f"{phrase}."), phrase)

    def _plan_correlation(self) -> AnswerRecipe:
        before, after, nodes, a, b = self._both()
        phrase = f"Correlation of {self.words.title(self.asked.quantity)} of the two dates, pixel by pixel"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", before, after)
        return self._value(
            self._execute([*nodes, self._node("raster.summarize.agreement", [a, b], measure="correlation")], f"{phrase}."), phrase
        )
