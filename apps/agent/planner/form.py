"""The one way from the plan's form to a plan: what a person fills in, and what the parser of questions fills in.

``plan_from_form`` checks what each step needs before anything runs (band roles, dates, GSD or CRS, region) and gives a plan
without steps that says what is missing, rather than a plan that would have to guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from apps.agent.planner.facts import lowered, span_text, unique
from apps.agent.planner.fields import TASK_TYPES, Form, RefusalError
from apps.agent.planner.image_plans import ImagePlans
from apps.agent.planner.thing_plans import ThingPlans
from apps.agent.planner.zone_plans import ZonePlans
from apps.agent.units import number_text
from apps.core.evidence.observation import TaskRef
from apps.core.evidence.plan import AnswerRecipe, Plan, Question


def plan_from_form(
    question: Question, form: Form | None = None, *, planner: str = "offline", warnings: Sequence[str] = ()
) -> Plan:
    """The plan of a form (``question.form`` where none is given). Never raises: a form that is no form gives a plan without
    steps whose reason names the field."""
    if form is None:
        try:
            form = Form.model_validate(question.form or {})
        except ValidationError as e:
            first = e.errors()[0]
            field = ".".join(str(p) for p in first["loc"]) or "what"
            return Plan(
                task=TaskRef(task_type="index_statistic", question=question.text, answer_form="text"),
                planner=planner,
                reason=f"The form's field {field} cannot be used: {first['msg']}.",
                code="BAD_ARGUMENT",
                needs={"form": [field]},
                form=dict(question.form or {}),
            )
    shown = form.model_dump(mode="json")
    builder = PlanBuilder(question, form)
    try:
        recipe = builder.build()
    except RefusalError as why:
        return builder.refused(why, planner, warnings, shown)
    if question.choices:
        options = {**recipe.options, "of": recipe.kind, "mode": "nearest" if recipe.kind in ("value", "difference") else "match"}
        if form.tolerance is not None:
            options["tolerance"] = form.tolerance
        recipe = recipe.model_copy(update={"kind": "choice", "options": options})
    return Plan(
        task=builder.task(),
        steps=tuple(builder.steps),
        answer=recipe,
        planner=planner,
        understood=builder.understood,
        warnings=unique((*warnings, *builder.warnings)),
        form=shown,
    )


class PlanBuilder(ImagePlans, ThingPlans, ZonePlans):
    """Fills a plan from a form; refuses with RefusalError where something is missing."""

    def task(self) -> TaskRef:
        f = self.form
        kind = TASK_TYPES[f.what]
        if f.what == "exists" and f.target not in self.words.objects:
            kind = "environmental_assessment"
        if f.what == "compare" and self.measured() == "count":
            kind = "attribute_comparison"
        forms = {"statistic": "number", "area": "area", "share": "share", "count": "integer"}
        answer = {
            "exists": "boolean", "date": "date", "trend": "number", "distance": "distance", "compare": "class",
            "length": "distance", "density": "number", "ratio": "number", "zone": "class",
        }.get(f.what)  # fmt: skip
        if f.each and f.what != "zone":
            answer, kind = "table", "zonal_comparison"
        answer = answer or forms["area" if f.what == "area" else self.measured()]
        if self.question.choices:
            answer = "choice"
        return TaskRef(task_type=kind, question=self.question.text, answer_form=answer)

    def build(self) -> AnswerRecipe:
        f = self.form
        self._open_things()
        if not self.question.scenes and not self._is_of_things_alone():
            raise RefusalError("There is no image to look at; add one.", "NO_ANSWER", {"scenes": True})
        if self._is_related():
            self._check_related()
            self.understood = self._understood()
            return self._related()
        self._check_names()
        self.understood = self._understood()
        if f.zones:
            return self._zoned()
        match f.what:
            case "statistic":
                return self._statistic()
            case "area" | "share" if f.change:
                return self._changed()
            case "area" | "share" | "count":
                return self._single()
            case "exists":
                return self._exists()
            case "date":
                return self._date()
            case "difference":
                return self._difference()
            case "trend":
                return self._trend()
            case "distance":
                return self._distance()
            case _:
                return self._compare()

    def refused(
        self, why: RefusalError, planner: str, warnings: Sequence[str] = (), form: Mapping[str, Any] | None = None
    ) -> Plan:
        """The plan without steps that says what is missing."""
        return Plan(
            task=self.task(),
            planner=planner,
            understood=self.understood,
            reason=why.reason,
            code=why.code,
            needs=why.needs,
            warnings=unique((*warnings, *self.warnings)),
            form=dict(form or {}),
        )

    def _understood(self) -> str:
        f, kind = self.form, self.measured()
        title = self._thing_title
        subject = title(f.target) if f.target else title(f.quantity)
        if self._is_related():
            unit = f", in {f.unit}" if f.unit else ""
            place = ", in the region that is given" if self.region is not None else ""
            limit = f" {f.limit_op} {number_text(f.limit, '1')}" if f.limit is not None else " more than nothing"
            head = f"the {lowered(self._related_phrase())}"
            if f.what == "exists":
                head = f"whether {head} is{limit}"
            if f.what == "zone":
                listed = self.things[f.target if f.each == "target" else f.reference].title
                head = f"which of {listed} has the {self._picked_phrase()}"
            return f"You ask for {head.removesuffix(' in the region')}{unit}{place}."
        condition = (
            f" where {self._condition()}" if f.quantity and f.threshold is not None and not f.target and not f.change else ""
        )
        statistic = lowered(self._title()) if f.quantity else ""
        measured = {
            "statistic": f"the {statistic}",
            "area": f"the area{condition or f' of {subject}'}",
            "share": f"the share of the area{condition or f' that is {subject}'}",
            "count": f"the number of {subject}",
        }[kind]
        limit = f" {f.limit_op} {number_text(f.limit, '1')}" if f.limit is not None else ""
        text = {
            "exists": f"whether {measured} is{limit or ' more than nothing'}",
            "date": f"the date on which {measured} is {'highest' if f.pick == 'max' else 'lowest'}",
            "difference": f"the change of {measured} between two dates{' in per cent of the first' if f.is_relative else ''}",
            "trend": f"the linear trend of {measured}",
            "distance": f"the {f.distance_statistic} distance between {subject} and {title(f.reference)}",
            "compare": f"which one has {measured} that is {'larger' if f.pick == 'max' else 'smaller'}"
            + (f", {subject} or {title(f.reference)}" if f.reference else ""),
        }.get(f.what, measured)
        if f.what == "compare" and f.reference:
            text = f"which {kind} is {'larger' if f.pick == 'max' else 'smaller'}, {subject} or {title(f.reference)}"
        if f.change and f.threshold is not None:
            text = (
                f"the {f.what} where {title(f.quantity)} {'fell' if f.change == 'drop' else 'rose'} by "
                f"{'at least' if f.is_closed else 'more than'} {f.threshold:g}"
            )
        method = f", found by {self._condition()}" if f.target and f.quantity and f.threshold is not None else ""
        unit = f", in {f.unit}" if f.unit else ""
        dates = f", for {' and '.join(span_text(s) for s in self._spans())}" if f.dates else ""
        region = ", in the region that is given" if self.region is not None else ""
        if f.zones:
            each = " and ".join(self.things[k].title for k in f.zones)
            if f.each:
                text += self._zone_text(f.zones[0]) + (f", by {f.by}" if f.by else "")
            elif f.what == "zone":
                text = f"which of {each} has the {'highest' if f.pick == 'max' else 'lowest'} value of {measured}"
            elif f.what == "compare":
                text = f"in which of {each} {measured} is {'larger' if f.pick == 'max' else 'smaller'}"
            elif f.what == "difference" and len(f.zones) > 1:
                text = f"the difference of {measured} between {each}"
            else:
                text += self._zone_text(f.zones[0])
        clear = ", without the pixels that the image's quality band flags as cloud or shadow" if f.mask else ""
        return f"You ask for {text}{method}{unit}{dates}{region}{clear}."
