"""What plans of analyses are made of: nodes, steps, phrases, and the checks that several of them share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.agent.dates import DateSpan
from apps.agent.planner.analyses import Asked
from apps.agent.planner.fields import Form, RefusalError
from apps.agent.planner.form import PlanBuilder
from apps.agent.planner.stated import span_said
from apps.agent.planner.steps import weights_said
from apps.agent.units import dimension
from apps.core.evidence.observation import TaskRef
from apps.core.evidence.plan import AnswerRecipe, Question
from apps.core.geo.scene import SceneInfo

Nodes = list[dict[str, Any]]
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


class AnalysisPieces(PlanBuilder):
    """What plans of analyses are made of: nodes, steps, phrases and the checks that several of them share."""

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
                "mask": asked.clear,
                "unit": unit if dimension(unit) == "area" else "",
            }
        )
        super().__init__(question, form)
        self.asked = asked
        self.task_type, self.answer_form = "index_statistic", "number"

    def task(self) -> TaskRef:
        form = "choice" if self.question.choices else self.answer_form
        return TaskRef(task_type=self.task_type, question=self.question.text, answer_form=form)

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
        """'Mean NDVI', 'Mean of the red band', 'Mean NDVI anomaly'."""
        words = {"mean": "Mean", "median": "Median", "min": "Minimum", "max": "Maximum", "std": "Standard deviation of"}
        title = head or self.words.title(self.asked.quantity)
        of = "of " if title.startswith("the ") and self.form.statistic != "std" else ""
        return f"{words[self.form.statistic]} {of}{title}"

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

    def _class_table(self, nodes: Nodes, source: str, preset: str, phrase: str) -> AnswerRecipe:
        self.answer_form, unit = "table", self._table_unit()
        nodes += [
            self._node("raster.product.classify", [source], "classes", preset=preset),
            self._node("raster.summarize.class_areas", ["classes"], unit=unit),
        ]
        n = self._execute(nodes, f"{phrase}, area and share of each.")
        return AnswerRecipe(kind="classes", steps=(n,), unit=unit, options={"phrase": phrase})
