"""The one way from the plan's form to a plan: what a person fills in, and what the parser of questions fills in.

``plan_from_form`` checks what each step needs before anything runs (band roles, dates, GSD or CRS, region) and gives a plan
without steps that says what is missing, rather than a plan that would have to guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from apps.agent.planner.facts import lowered, ordinal, span_text, unique
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
        recipe = builder.build() if form.second is None else _two_figures(question, form, builder)
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


# What two figures may be of, to be subtracted or compared.
_COMPARABLE = frozenset({"count", "area", "length", "share", "statistic", "distance", "density"})


def _two_figures(question: Question, form: Form, builder: PlanBuilder) -> AnswerRecipe:
    """The first form's figure less the second's, or which of the two is larger: each measured as it is alone."""
    try:
        other = Form.model_validate({**(form.second or {}), "second": None})
    except ValidationError as error:
        raise RefusalError(f"The second form cannot be used: {error.errors()[0]['msg']}.", "BAD_ARGUMENT",
                           {"form": ["second"]}) from None  # fmt: skip
    if form.what != other.what or form.what not in _COMPARABLE or form.each or other.each:
        raise RefusalError("Two figures of one kind are compared: two numbers, areas, lengths or shares.", "NO_ANSWER",
                           {"form": ["second"]})  # fmt: skip
    unit = form.unit or other.unit
    one = PlanBuilder(question, form.model_copy(update={"second": None, "unit": unit}))
    two = PlanBuilder(question, other.model_copy(update={"unit": unit}))
    two.steps = one.steps
    first, second = one.build(), two.build()
    builder.steps = one.steps
    builder.warnings += [*one.warnings, *two.warnings]
    mine, theirs = (lowered(one.understood), lowered(two.understood))
    asked = [t.removeprefix("you ask for ").rstrip(".") for t in (mine, theirs)]
    if first.kind != "value" or second.kind != "value" or asked[0] == asked[1]:
        raise RefusalError("Both figures are the same; what is compared with what?", "NO_ANSWER", {"form": ["second"]})
    labels = [re.sub(r", in (?:ha|km2|m2|acre|km|m|%)(?=,|$)", "", a) for a in asked]
    if form.second_as == "compare":
        builder.understood = f"You ask which is {'larger' if form.pick == 'max' else 'smaller'}: {asked[0]}, or {asked[1]}."
        word, phrase = ("larger" if form.pick == "max" else "smaller"), ""
        if _differ_in_the_thing_alone(one, two):
            # "Mesa is larger in area", and not "the area of Mesa is larger"
            labels = [b._thing_title(b.form.target) for b in (one, two)]
            phrase = "perimeter" if form.length_of == "outline" else form.what
        options: dict[str, Any] = {"labels": [*labels], "pick": form.pick, "word": word, "phrase": phrase}
        return AnswerRecipe(kind="compare", steps=(*first.steps, *second.steps), unit=first.unit, options=options)
    builder.understood = f"You ask by how much {asked[0]} exceeds {asked[1]}."
    phrase = f"{labels[0][:1].upper()}{labels[0][1:]} less {labels[1]}"
    return AnswerRecipe(
        kind="difference", steps=(*second.steps, *first.steps), unit=first.unit,
        options={"phrase": phrase, "labels": [labels[1], labels[0]]},  # in the order of the steps
    )  # fmt: skip


def _differ_in_the_thing_alone(one: PlanBuilder, two: PlanBuilder) -> bool:
    """Whether two figures are the area or length of one thing and that of another, taken alike."""
    beside = {"target", "second", "second_as", "pick", "unit"}
    forms = [b.form.model_dump(exclude=beside) for b in (one, two)]
    are_things = all(b.form.target in b.things for b in (one, two))
    return one.form.what in ("area", "length") and are_things and forms[0] == forms[1]


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
        if f.second is not None and f.second_as == "compare":
            answer, kind = "class", "attribute_comparison"
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
            if f.is_named and f.target in self.things:
                which = "which of" if f.where else "which are"
                head = f"{which} {self.things[f.target].title}{' stand' if f.where else ''}{self._where_text()}"
                head = head.replace(" stand with ", " have ").replace(" stand that ", " ").replace(" stand ", " lie ")
            if f.what == "zone":
                listing = self.things.get(f.target if f.each == "target" else f.reference)
                listed = listing.title if listing is not None else f"the {self._found_noun(f.target)} in the image"
                if f.by and listing is not None:
                    listed = f"the values of {f.by} in {listing.label}"
                head = f"which of {listed} has the {self._picked_phrase()}"
                if f.top > 1:
                    head = f"which {f.top} of {listed} have the {self._picked_phrase()}"
            return f"You ask for {head.removesuffix(' in the region')}{unit}{place}."
        condition = (
            f" where {self._condition()}" if f.quantity and f.threshold is not None and not f.target and not f.change else ""
        )
        statistic = lowered(self._title()) if f.quantity else ""
        negated = "not " if f.is_not else ""
        measured = {
            "statistic": f"the {statistic}",
            "area": f"the area{condition or (f' that is {negated}{subject}' if f.is_not else f' of {subject}')}",
            "share": f"the share of the area{condition or f' that is {negated}{subject}'}",
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
            if f.rows_as and f.limit is not None:
                head = {"count": "how many", "share": "which share", "names": "which"}[f.rows_as]
                text = f"{head} of {each} have {text.removeprefix('the ')} {f.limit_op} {f.limit:g}"
            elif f.each:
                text += self._zone_text(f.zones[0]) + (f", by {f.by}" if f.by else "")
            elif f.what == "zone" and f.is_change:
                size = "greatest" if f.pick == "max" else "smallest"
                size = f"{ordinal(f.rank)} {size}" if f.rank > 1 else size
                extreme = f"{size} {({'drop': 'loss', 'rise': 'gain'}).get(f.change_sign, 'change')}"
                text = f"which of {each} has the {extreme} of {measured}"
            elif f.what == "zone":
                if f.by:
                    each = f"the values of {f.by} in {self.things[f.zones[0]].label}"
                extreme = "highest" if f.pick == "max" else "lowest"
                extreme = f"{ordinal(f.rank)} {extreme}" if f.rank > 1 else extreme
                text = f"which of {each} has the {extreme} value of {measured}"
                if f.top > 1:
                    text = f"which {f.top} of {each} have the {extreme} value of {measured}"
            elif f.what == "compare":
                text = f"in which of {each} {measured} is {'larger' if f.pick == 'max' else 'smaller'}"
            elif f.what == "difference" and len(f.zones) > 1:
                text = f"the difference of {measured} between {each}"
            else:
                text += self._zone_text(f.zones[0])
        flagged = {"clear": "cloud or shadow", "clear_cirrus": "cloud, shadow or cirrus"}.get(f.mask, "")
        clear = f", without the pixels that the image's quality band flags as {flagged}" if flagged else ""
        return f"You ask for {text}{method}{unit}{dates}{region}{clear}."
