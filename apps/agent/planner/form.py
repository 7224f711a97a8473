"""The plan's form: what a person fills in, what the parser of questions fills in, and the one way from it to a plan.

``plan_from_form`` checks what each step needs before anything runs (band roles, dates, GSD or CRS, region) and gives a plan
without steps that says what is missing, rather than a plan that would have to guess.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Any, Literal

from pydantic import Field, ValidationError

from apps.agent.dates import DateSpan, dates_in
from apps.agent.planner.lexicon import (
    TargetEntry,
    TargetMethod,
    has_role,
    lexicon,
    missing_roles,
    role_list,
)
from apps.agent.planner.things import Thing, is_thing, thing_of
from apps.agent.units import dimension, number_text
from apps.core.evidence.observation import Frozen, JsonMap, TaskRef, Tool
from apps.core.evidence.plan import AnswerRecipe, Plan, PlanStep, Question
from apps.core.geo.scene import SceneInfo
from apps.core.geo.vector import POLYGONS
from apps.tools.contract import step_reference
from apps.verification.quality import quality_band_of

What = Literal[
    "statistic", "area", "share", "count", "exists", "date", "difference", "trend", "distance", "compare", "length", "density",
    "ratio", "zone",
]  # fmt: skip
Relation = Literal[
    "", "inside", "overlaps", "touches", "within", "north_of", "south_of", "east_of", "west_of", "between", "nearest",
    "wholly_inside", "outside", "beyond", "not_overlapping", "apart",
]  # fmt: skip
Measured = Literal["statistic", "area", "share", "count"]
Statistic = Literal["mean", "median", "min", "max", "std"]

# What the planner can do, said to whoever asked for something else.
CAN_DO = (
    "I can answer: how many objects of a kind; whether there are any; how much area or which share is water, vegetation, bare "
    "or built-up land, snow, burned land, or where an index is above or below a number; mean, median, minimum, maximum, "
    "standard deviation or trend of an index or band; differences between two dates; on which date something is highest or "
    "lowest; which of two is larger; the distance between two things or places; how many objects or features of a vector file "
    "lie within a distance of something or farther away, inside it, outside of it, or north of it; which length, area or share "
    "of lines and polygons lies inside polygons or near to something; any of these inside the polygons of a vector file, in each "
    "of them as a table, and which polygon has most of it; and multiple choice over these."
)
# Pieces of fewer pixels are noise when the question is whether there is any of a target.
EXISTS_MIN_PX = 9
# Rows of a table at most, as the tools have it.
MAX_ROWS = 1000
_STATISTIC_TITLES: dict[str, str] = {
    "mean": "Mean",
    "median": "Median",
    "min": "Minimum",
    "max": "Maximum",
    "std": "Standard deviation",
}
_TASK_TYPES: dict[What, str] = {
    "statistic": "index_statistic",
    "area": "area_measurement",
    "share": "area_measurement",
    "count": "object_counting",
    "exists": "object_presence",
    "date": "time_property",
    "difference": "change_detection",
    "trend": "trend_analysis",
    "distance": "distance_measurement",
    "compare": "zonal_comparison",
    "length": "distance_measurement",
    "density": "object_counting",
    "ratio": "attribute_comparison",
    "zone": "zonal_comparison",
}
# Questions about things themselves: what their target is need not be found in an image.
_MEASURES = frozenset({"count", "area", "share", "exists", "distance", "length", "density", "ratio"})
_RELATION_WORDS: dict[str, str] = {
    "inside": "inside", "overlaps": "that overlap", "touches": "that touch", "north_of": "north of", "south_of": "south of",
    "east_of": "east of", "west_of": "west of", "between": "between", "nearest": "nearest to",
    "wholly_inside": "wholly inside", "outside": "outside of", "beyond": "farther away than a distance from",
    "not_overlapping": "that do not overlap", "apart": "that have no point in common with",
}  # fmt: skip


class Form(Frozen):
    """One question as fields. Empty strings and None: not said. See ``form_fields`` for the choices at hand."""

    what: What
    of: Literal["", "statistic", "area", "share", "count", "length", "density", "distance"] = Field(
        default="", description="what is compared, differenced, dated or tested; '' follows from quantity and target"
    )
    quantity: str = Field(default="", max_length=40, description="an index (ndvi, …) or the role of a band")
    target: str = Field(
        default="", max_length=200,
        description="water, vegetation, vehicle, …, 'class 21' of a class map, or a thing: vector:ID, vector:ID:NAME, "
        "place:LONGITUDE,LATITUDE, px:COLUMN,ROW",
    )  # fmt: skip
    reference: str = Field(default="", max_length=200, description="the second target, for distance, relations and compare")
    others: tuple[str, ...] = Field(default=(), max_length=10, description="further targets, for compare and between")
    relation: Relation = Field(default="", description="of the target to the reference")
    relation_m: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="metres, for the relations within and beyond"
    )
    clip: bool = Field(default=False, description="the target is cut where the relation ends; else it is chosen whole")
    each: Literal["", "zones", "reference", "target"] = Field(
        default="", description="a table: a figure for each feature of the zones, of the reference or of the target itself"
    )
    denominator: Literal["", "reference"] = Field(default="", description="a share with clip is one of the reference's area")
    by: str = Field(default="", max_length=60, description="for each: the attribute whose values are the rows; '': its names")
    length_of: Literal["", "outline", "extent"] = Field(
        default="", description="for the length of polygons: of their outline (perimeter), or the long side of each"
    )
    nearest_k: int = Field(default=1, ge=1, le=1000, description="how many, for the relation nearest")
    zones: tuple[str, ...] = Field(default=(), max_length=20, description="areas in which the image is read: vector:ID[:NAME]")
    buffer_m: float = Field(default=0.0, ge=0, le=100_000, description="zones are grown by so many metres")
    is_outside: bool = Field(default=False, description="what lies in none of the zones, instead of in them")
    statistic: Statistic = "mean"
    threshold: float | None = Field(default=None, allow_inf_nan=False)
    upper: float | None = Field(
        default=None, allow_inf_nan=False, description="with threshold: from threshold to this, both included"
    )
    side: Literal["above", "below"] = "above"
    is_closed: bool = Field(default=False, description="the threshold itself counts too (at least, at most)")
    change: Literal["", "drop", "rise"] = Field(default="", description="the threshold is one of a change between two dates")
    pick: Literal["max", "min"] = "max"
    is_relative: bool = Field(default=False, description="the change in per cent of the first value")
    distance_statistic: Literal["minimum", "mean", "maximum"] = "minimum"
    limit: float | None = Field(default=None, allow_inf_nan=False, description="for exists: the number that decides yes or no")
    limit_op: Literal[">", ">=", "<", "<="] = ">"
    unit: str = Field(default="", max_length=20)
    dates: tuple[str, ...] = Field(default=(), max_length=20, description="days, months, years or periods 'start..end'")
    scenes: tuple[str, ...] = Field(default=(), max_length=400, description="scene ids; empty: all that fit")
    region: JsonMap | None = None
    region_crs: str = "EPSG:4326"
    tolerance: float | None = Field(default=None, gt=0, le=1, description="for multiple choice over numbers")
    mask: Literal["", "clear"] = Field(default="", description="clear: without the pixels that the scene's quality band flags")


class RefusalError(Exception):
    """Inside of the planner: there is no plan, and why."""

    def __init__(self, reason: str, code: str = "NO_ANSWER", needs: dict[str, Any] | None = None):
        self.reason, self.code, self.needs = reason, code, needs or {}
        super().__init__(reason)


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
    except RefusalError as r:
        return Plan(
            task=builder.task(),
            planner=planner,
            understood=builder.understood,
            reason=r.reason,
            code=r.code,
            needs=r.needs,
            warnings=_unique((*warnings, *builder.warnings)),
            form=shown,
        )
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
        warnings=_unique((*warnings, *builder.warnings)),
        form=shown,
    )


def form_fields(question: Question) -> list[dict[str, Any]]:
    """The form for a page: one entry a field, with the choices that these scenes allow (name, label, kind, choices)."""
    words = lexicon()
    quantities = [n for n in (*words.indices, *words.bands) if any(not missing_roles(s, n) for s in question.scenes)]
    targets = [n for n, t in words.targets.items() if any(_methods(s, t.methods) for s in question.scenes)]
    dates = sorted({s.acquired_at.date().isoformat() for s in question.scenes if s.acquired_at})

    can_clear = any(quality_band_of(s.bands) for s in question.scenes)
    files = [(f"vector:{v.vector_id}", v.name) for v in question.vectors]
    areas = [(f"vector:{v.vector_id}", v.name) for v in question.vectors if v.count_of(POLYGONS)]
    for v in question.vectors:
        areas += [(f"vector:{v.vector_id}:{n}", f"{n} in {v.name}") for n in v.names[:50] if v.count_of(POLYGONS)]

    def choices(names: Sequence[str], more: Sequence[tuple[str, str]] = ()) -> list[list[str]]:
        return [["", "–"], *([n, words.title(n)] for n in names), *([key, title] for key, title in more)]

    return [
        {"name": "what", "label": "What is asked", "kind": "choice", "choices": [[w, w] for w in _TASK_TYPES]},
        {
            "name": "of",
            "label": "Of",
            "kind": "choice",
            "choices": [["", "–"], *([m, m] for m in ("statistic", "area", "share", "count"))],
        },
        {"name": "quantity", "label": "Index or band", "kind": "choice", "choices": choices(quantities)},
        {"name": "target", "label": "Target", "kind": "choice", "choices": choices([*targets, *words.objects], files)},
        {
            "name": "reference", "label": "Second target", "kind": "choice",
            "choices": choices([*targets, *words.objects], files),
        },
        {
            "name": "relation", "label": "Relation to it", "kind": "choice",
            "choices": [
                ["", "–"], ["within", "within a distance of"], *([k, w] for k, w in _RELATION_WORDS.items() if k != "nearest"),
            ],
        },
        {
            "name": "each", "label": "One figure for each of", "kind": "choice",
            "choices": [["", "–"], ["reference", "the second target’s features"], ["target", "the target’s own features"],
                        ["zones", "the polygons of “Inside of”"]],
        },
        {"name": "relation_m", "label": "Distance in m", "kind": "number", "choices": []},
        *([{"name": "zones", "label": "Inside of", "kind": "choice", "choices": choices((), areas)}] if areas else []),
        {
            "name": "statistic",
            "label": "Statistic",
            "kind": "choice",
            "choices": [[s, s] for s in ("mean", "median", "min", "max", "std")],
        },
        {"name": "side", "label": "Side", "kind": "choice", "choices": [["above", "above"], ["below", "below"]]},
        {"name": "threshold", "label": "Threshold", "kind": "number", "choices": []},
        {"name": "upper", "label": "Up to", "kind": "number", "choices": []},
        {"name": "change", "label": "Change", "kind": "choice", "choices": [["", "–"], ["drop", "drop"], ["rise", "rise"]]},
        {"name": "pick", "label": "Pick", "kind": "choice", "choices": [["max", "highest"], ["min", "lowest"]]},
        {
            "name": "unit",
            "label": "Unit",
            "kind": "choice",
            "choices": [["", "–"], *([u, u] for u in ("m2", "ha", "km2", "acre", "m", "km", "%"))],
        },
        {
            "name": "mask",
            "label": "Clouds",
            "kind": "choice",
            "choices": [["", "left in"], *([["clear", "left out"]] if can_clear else [])],
        },
        {"name": "dates", "label": "Dates", "kind": "dates", "choices": [[d, d] for d in dates]},
        {"name": "region", "label": "Region", "kind": "region", "choices": []},
    ]


class PlanBuilder:
    """Fills a plan from a form; refuses with RefusalError where something is missing."""

    def __init__(self, question: Question, form: Form) -> None:
        self.question, self.form, self.words = question, form, lexicon()
        self.steps: list[PlanStep] = []
        self.warnings: list[str] = []
        self.understood = ""
        self.things: dict[str, Thing] = {}
        self.region = form.region if form.region is not None else question.region
        self.region_crs = form.region_crs if form.region is not None else question.region_crs

    # --- the task ----------------------------------------------------------------------------------------------------------
    def task(self) -> TaskRef:
        f = self.form
        kind = _TASK_TYPES[f.what]
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

    def measured(self) -> Measured:
        """What is measured of one scene: stated, or what follows from quantity, target and threshold."""
        f = self.form
        if f.what in ("statistic", "area", "share", "count"):
            return f.what  # type: ignore[return-value]
        if f.of and f.of not in ("length", "density", "distance"):
            return f.of  # type: ignore[return-value]
        if f.target in self.words.objects or is_thing(f.target):
            return "count"
        if f.target or f.threshold is not None:
            return "share" if f.what == "exists" or f.unit == "%" else "area"
        return "statistic"

    # --- building ----------------------------------------------------------------------------------------------------------
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

    # --- things ------------------------------------------------------------------------------------------------------------
    def _open_things(self) -> None:
        """The vector files, features and places that the form names."""
        f = self.form
        for key in (f.target, f.reference, *f.others, *f.zones):
            try:
                thing = thing_of(key, self.question)
            except KeyError:
                raise RefusalError(
                    "The question has no such vector file or feature; choose it below the question.",
                    "BAD_ARGUMENT",
                    {"form": ["target"]},
                ) from None
            except ValueError as error:
                raise RefusalError(f"This is no place: {error}.", "BAD_ARGUMENT", {"form": ["target"]}) from None
            if thing is not None:
                self.things[key] = thing
        for key in f.zones:
            zone = self.things.get(key)
            if zone is None or zone.vector is None:
                raise RefusalError("A zone is a vector file or a feature of one.", "BAD_ARGUMENT", {"form": ["zones"]})
            if not f.buffer_m and not zone.vector.count_of(POLYGONS):
                raise RefusalError(
                    f"{zone.vector.name} holds {zone.vector.noun}, which have no inside.", "NO_ANSWER", {"form": ["zones"]}
                )

    def _is_related(self) -> bool:
        """Whether the question is one of things and their relations, measured rather than computed from pixels."""
        f = self.form
        named = (f.target, f.reference, *f.others)
        return (f.what in _MEASURES or (f.what == "zone" and f.each != "")) and not f.zones and (
            f.what in ("length", "density", "ratio") or f.each != "" or bool(f.relation) or any(is_thing(k) for k in named)
        )

    def _is_of_things_alone(self) -> bool:
        f = self.form
        named = [k for k in (f.target, f.reference, *f.others) if k]
        return bool(named) and all(k in self.things and self.things[k].px is None for k in named) and not f.zones

    def _check_related(self) -> None:
        f = self.form
        if f.mask:
            raise RefusalError("Clouds are left out of figures of the image only.", "NO_ANSWER", {"form": ["mask"]})
        if not f.target:
            raise RefusalError("Of what? Name a target or a vector file.", "NO_ANSWER", {"form": ["target"]})
        for name, field in ((f.target, "target"), (f.reference, "reference"), *((o, "others") for o in f.others)):
            known = name in self.words.targets or name in self.words.objects or _class_value(name) is not None
            if name and not known and name not in self.things:
                raise RefusalError(f"I do not know how to find {name!r}.", "BAD_ARGUMENT", {"form": [field]})
        needs_two = bool(f.relation) or f.what == "ratio"
        alone = self.things.get(f.target)
        if f.what == "distance" and not f.reference and (alone is None or alone.n < 2):
            needs_two = True
        if needs_two and not f.reference:
            raise RefusalError("To what? Name a second thing.", "NO_ANSWER", {"form": ["reference"]})
        if f.what == "density" and alone is not None and not f.reference and not f.each and not self.region:
            raise RefusalError(
                "Over which area? Draw a region, or name a file with polygons: a file alone has no ground to divide by.",
                "NEEDS_REGION",
                {"region": True},
            )
        if f.reference and f.reference == f.target and not f.relation:
            raise RefusalError("Both are the same thing.", "NO_ANSWER", {"form": ["reference"]})
        if f.relation in ("within", "beyond") and f.relation_m is None:
            raise RefusalError(f"{f.relation.capitalize()} which distance?", "BAD_ARGUMENT", {"form": ["relation_m"]})
        at = self.things.get(f.reference)
        is_hollow = at is not None and (at.vector is None or not at.vector.count_of(POLYGONS))
        if at is not None and is_hollow and f.relation in ("inside", "outside", "wholly_inside") and not f.clip:
            held = f"holds {at.vector.noun}, which have" if at.vector is not None else "is a place, which has"
            raise RefusalError(
                f"{at.label} {held} no inside. Ask for what lies within a distance, or farther away.",
                "NO_ANSWER",
                {"form": ["reference"]},
            )
        if f.each:
            self._check_each()
        if f.what == "share" and not f.relation:
            raise RefusalError("A share of which lie where? Name the relation.", "NO_ANSWER", {"form": ["relation"]})
        if f.clip:
            self._check_clip()
        if f.what in ("length", "area") and not f.clip and f.relation in ("inside", "outside", "overlaps", "between"):
            raise RefusalError(
                f"Things are chosen whole, by where they lie: their {f.what} would not be cut at the outline. Ask how many lie "
                f"there, or which {f.what} of them lies inside.",
                "NO_ANSWER",
                {"form": ["relation"]},
            )
        subject = self.things.get(f.target)
        what: str = f.of if f.what == "zone" else f.what
        is_area = what == "area" or (f.what in ("exists", "ratio") and f.of == "area")
        if is_area:
            names = (f.target, f.reference) if f.what == "ratio" else (f.target,)
            for name in names:
                thing = self.things.get(name)
                if name in self.words.objects or (thing is not None and not (thing.vector and thing.vector.count_of(POLYGONS))):
                    what = self._thing_title(name)
                    raise RefusalError(
                        f"{what[:1].upper()}{what[1:]} {'have' if name in self.words.objects else 'has'} no area that could be "
                        "measured: boxes, points and lines enclose none.",
                        "NO_ANSWER",
                        {"form": ["target"]},
                    )
        if what == "length" and subject is not None:
            if subject.vector is None or subject.has_only("points"):
                raise RefusalError("Points have no length.", "NO_ANSWER", {"form": ["target"]})
            if not subject.has_only("lines") and not subject.has_only("polygons"):
                raise RefusalError(
                    f"{subject.vector.name} holds lines and other shapes together; their lengths do not add up. Split the file.",
                    "NO_ANSWER",
                    {"form": ["target"]},
                )
            self._check_length_of(subject)
        elif f.length_of:
            raise RefusalError(
                "An outline or a long side is that of polygons in a file.", "BAD_ARGUMENT", {"form": ["length_of"]}
            )
        if is_area and subject is not None and subject.vector is not None and not subject.has_only("polygons"):
            self.warnings.append(f"{subject.vector.name} also holds shapes without an area; they add nothing.")
        if f.unit:
            wanted = {"area": "area", "distance": "length", "length": "length", "share": "number", "ratio": "number"}.get(what)
            if wanted and dimension(f.unit) != wanted:
                raise RefusalError(f"{f.unit!r} is not a unit of a {f.what}.", "BAD_ARGUMENT", {"form": ["unit"]})

    def _check_length_of(self, subject: Thing) -> None:
        """Polygons have an outline and a long side: nobody guesses which of them is their length."""
        f = self.form
        is_lines = subject.has_only("lines")
        if is_lines and f.length_of:
            raise RefusalError(
                f"{subject.title[:1].upper()}{subject.title[1:]} {'is a line' if subject.n == 1 else 'are lines'}: ask for the "
                "length.", "NO_ANSWER", {"form": ["length_of"]},
            )  # fmt: skip
        if not is_lines and (f.clip or f.each):
            raise RefusalError(
                "The outline or the long side of polygons is neither cut at others nor listed for each; name one of them.",
                "NO_ANSWER",
                {"form": ["each" if f.each else "clip"]},
            )
        if not is_lines and not f.length_of:
            raise RefusalError(
                f"The length of {subject.title}: of the outline, or from end to end? Write “the perimeter of …” or “the long "
                "side of …”.",
                "NO_ANSWER",
                {"form": ["length_of"]},
            )

    def _check_clip(self) -> None:
        """What is cut, and at what: polygons and lines of files, at polygons or at a distance."""
        f = self.form
        what: str = f.of if f.what in ("zone", "exists") else f.what
        of = f.of if f.what == "share" else what
        subject, at = self.things.get(f.target), self.things.get(f.reference)
        relation = f.relation or "inside"
        if of not in ("area", "length") and what != "share":
            raise RefusalError("Only an area, a length or a share is cut.", "BAD_ARGUMENT", {"form": ["clip"]})
        if relation not in ("inside", "outside", "within", "beyond"):
            raise RefusalError(
                "Things are cut at an outline or at a distance: inside, outside, within or beyond.",
                "BAD_ARGUMENT",
                {"form": ["relation"]},
            )
        for key, thing in ((f.target, subject), (f.reference, at)):
            if thing is None and key not in self.words.targets and _class_value(key) is None:
                raise RefusalError(f"{self._thing_title(key)} are found as boxes, which are no outlines to cut.", "NO_ANSWER",
                                    {"form": ["target"]})  # fmt: skip
        if at is not None and relation in ("inside", "outside") and not at.has_only("polygons"):
            raise RefusalError(
                f"{at.label} holds {at.vector.noun if at.vector else 'a point'}, which have no inside. Ask for what lies within "
                "a distance of them.",
                "NO_ANSWER",
                {"form": ["reference"]},
            )
        if subject is not None and (of == "length") != subject.has_only("lines"):
            held = subject.vector.noun if subject.vector else "a point"
            wanted = "length" if of == "length" else "area"
            kinds = "lines" if of == "length" else "polygons"
            reason = f"{subject.label} holds {held}, which have no {wanted} that could be cut: that is one of {kinds}."
            raise RefusalError(reason, "NO_ANSWER", {"form": ["target"]})
        if subject is not None and of == "area" and not subject.has_only("polygons"):
            raise RefusalError(f"{subject.label} holds shapes without an area.", "NO_ANSWER", {"form": ["target"]})

    def _check_each(self) -> None:
        """Whose features are listed, and by which attribute."""
        f = self.form
        key = f.target if f.each == "target" else f.reference
        thing = self.things.get(key)
        if thing is None or thing.vector is None or thing.name:
            raise RefusalError("A table lists the features of a vector file.", "BAD_ARGUMENT", {"form": ["each"]})
        if f.by and f.by not in thing.vector.fields:
            raise RefusalError(
                f"{thing.vector.name} has no attribute {f.by}; it has {', '.join(thing.vector.fields[:20]) or 'none'}.",
                "BAD_ARGUMENT",
                {"form": ["by"]},
            )
        if not f.by and thing.vector.n > MAX_ROWS:
            raise RefusalError(
                f"{thing.vector.name} has {thing.vector.n:,} features; a table holds {MAX_ROWS:,}.",
                "TOO_LARGE",
                {"form": ["each"]},
            )
        self._tell_names(thing)

    def _tell_names(self, thing: Thing) -> None:
        assert thing.vector is not None
        if not self.form.by and not thing.vector.name_field:
            self.warnings.append(f"No attribute of {thing.vector.name} names its features, so they are called by their number.")

    def _check_names(self) -> None:
        f = self.form
        if f.quantity and f.quantity not in self.words.indices and f.quantity not in self.words.bands:
            raise RefusalError(f"There is no index or band called {f.quantity!r} here.", "BAD_ARGUMENT", {"form": ["quantity"]})
        for name, field in ((f.target, "target"), (f.reference, "reference"), *((o, "others") for o in f.others)):
            if name in self.things:
                raise RefusalError(
                    "A vector file or a place is measured, compared with things, or taken as zones of an image.",
                    "NO_ANSWER",
                    {"form": [field]},
                )
            if name and name not in self.words.targets and name not in self.words.objects and not _class_value(name):
                raise RefusalError(f"I do not know how to find {name!r}.", "BAD_ARGUMENT", {"form": [field]})
        if not f.quantity and not f.target:
            raise RefusalError(
                "What is meant: an index or band, or something on the ground? " + CAN_DO,
                "NO_ANSWER",
                {"form": ["quantity", "target"]},
            )
        needs_target = f.what in ("count", "distance") or (self.measured() == "count" and f.what != "date")
        if needs_target and not f.target:
            raise RefusalError("Of what? Name the objects, vehicles or trees for example.", "NO_ANSWER", {"form": ["target"]})
        if self.measured() == "count" and f.target not in self.words.objects:
            raise RefusalError(
                f"I can count objects, but {self.words.title(f.target)} is a surface: ask for its area or share.",
                "NO_ANSWER",
                {"form": ["what"]},
            )
        if self.measured() == "statistic" and not f.quantity:
            raise RefusalError(f"A {f.statistic} of what? Name an index or a band.", "NO_ANSWER", {"form": ["quantity"]})
        if f.what == "exists" and self.measured() == "statistic" and f.limit is None:
            raise RefusalError(
                f"Whether {self.words.title(f.quantity)} is above or below which number?", "NO_ANSWER", {"form": ["limit"]}
            )
        if self.measured() == "statistic" and (f.target or f.threshold is not None):
            raise RefusalError(
                "A statistic of one part of the scene only is not computed yet: draw a region, or ask for an area or a share.",
                "NO_ANSWER",
                {"form": ["target", "threshold"]},
            )
        if f.upper is not None and (f.threshold is None or f.upper < f.threshold or f.change or f.target):
            raise RefusalError("From which number to which, of which index?", "BAD_ARGUMENT", {"form": ["threshold", "upper"]})
        if f.limit is not None and f.what not in ("exists", "difference"):
            raise RefusalError("A limit belongs to a question of yes or no.", "BAD_ARGUMENT", {"form": ["limit"]})
        if self.measured() in ("area", "share"):
            if f.quantity and not f.target and f.threshold is None:
                raise RefusalError(
                    f"{self.words.title(f.quantity)} above or below which number?", "NO_ANSWER", {"form": ["threshold"]}
                )
            for name in (f.target, f.reference, *f.others) if f.what != "distance" else ():
                if name in self.words.objects:
                    raise RefusalError(
                        f"I can find and count {self.words.title(name)}, but boxes are no outlines, so their area would "
                        "be wrong. Ask how many there are.",
                        "NO_ANSWER",
                        {"form": ["what"]},
                    )
        if f.unit:
            wanted = {"area": ("area",), "share": ("number",), "distance": ("length",)}
            asked = "distance" if f.what == "distance" else self.measured() if f.what not in ("date", "compare", "exists") else ""
            if asked in wanted and dimension(f.unit) not in wanted[asked]:
                raise RefusalError(
                    f"{f.unit!r} is not a unit of {'an ' if asked == 'area' else 'a '}{asked}.",
                    "BAD_ARGUMENT",
                    {"form": ["unit"]},
                )
            if self.measured() == "statistic" and not self._is_unit_of_quantity(f.unit):
                title = self.words.title(f.quantity)
                raise RefusalError(
                    f"{title[:1].upper()}{title[1:]} is not given in {f.unit!r} here; ask for it in its own unit.",
                    "BAD_ARGUMENT",
                    {"form": ["unit"]},
                )

    def _is_unit_of_quantity(self, unit: str) -> bool:
        """Whether a statistic may be asked for in ``unit``: rates for trends, metres for elevation, degrees for temperatures."""
        if self.form.what == "trend":
            return dimension(unit) in ("rate", "number")
        if (self.form.quantity, unit) == ("elevation", "m"):
            return True
        return unit == "1" or dimension(unit) not in ("area", "length", "number")

    # --- scenes ------------------------------------------------------------------------------------------------------------
    def _capable(self) -> list[SceneInfo]:
        """Scenes that have what the quantity or target needs; NEEDS_BANDS where none has."""
        f = self.form
        scenes = list(self.question.scenes)
        if f.scenes:
            by_id = {s.scene_id: s for s in scenes}
            unknown = [i for i in f.scenes if i not in by_id]
            if unknown:
                raise RefusalError(
                    "The form names a scene that the question does not have.", "BAD_ARGUMENT", {"form": ["scenes"]}
                )
            scenes = [by_id[i] for i in f.scenes]
        if f.mask and not any(quality_band_of(s.bands) for s in scenes):
            held = any("qa" in s.roles for s in scenes)
            raise RefusalError(
                "I cannot leave clouds out: "
                + (
                    "the image has a quality band, but how its bits are read is not known."
                    if held
                    else "the image has no quality band (QA_PIXEL, BQA or SCL) that tells where they are."
                )
                + " Add the scene's quality band to it, or ask about all pixels.",
                "NEEDS_BANDS",
                {"roles": ["qa"]},
            )
        able = [s for s in scenes if not self._lacking(s)]
        if not able:
            best = min(scenes, key=lambda s: len(self._lacking(s)))
            lacking = self._lacking(best)
            lame = [n for n in (f.target, f.reference, *f.others) if n and self._lacking_for(best, n)]
            is_of_quantity = bool(f.quantity and missing_roles(best, f.quantity)) or not lame
            what = self.words.title(f.quantity if is_of_quantity else lame[0])
            is_open = any(b.role == "unknown" for s in scenes for b in s.bands)
            how = "Say which band is which, and ask again." if is_open else "The image has no such band; add one that has it."
            needs: dict[str, Any] = {"roles": list(lacking)}
            if (self.measured() == "area" or f.what == "distance") and all(
                s.grid.crs is None and s.gsd_m is None for s in scenes
            ):
                needs["gsd_m"] = True
                how += (
                    " An area or distance also needs the ground sampling distance in metres: the image has no coordinate system."
                )
            band = f"the {_plural('band', lacking)} {role_list(lacking)}" if lacking != (f.quantity,) else "a band that shows it"
            raise RefusalError(f"{what[:1].upper()}{what[1:]} needs {band}. {how}", "NEEDS_BANDS", needs)
        if len(able) < len(scenes):
            n = len(scenes) - len(able)
            self.warnings.append(
                f"{n} of {len(scenes)} scenes {'has' if n == 1 else 'have'} no band for this and "
                f"{'was' if n == 1 else 'were'} left out."
            )
        return able

    def _lacking(self, scene: SceneInfo) -> tuple[str, ...]:
        f = self.form
        out: list[str] = []
        if f.quantity:
            out.extend(missing_roles(scene, f.quantity))
        if f.mask and quality_band_of(scene.bands) is None:
            out.append("qa")
        if not (f.quantity and f.threshold is not None):
            for name in (f.target, f.reference, *f.others):
                out.extend(self._lacking_for(scene, name))
        elif f.reference:
            out.extend(self._lacking_for(scene, f.reference))
        return tuple(dict.fromkeys(out))

    def _lacking_for(self, scene: SceneInfo, target: str) -> tuple[str, ...]:
        if _class_value(target) is not None:
            return () if "class" in scene.roles else ("class",)
        entry = self.words.targets.get(target)
        if entry is None or _methods(scene, entry.methods):
            return ()
        return missing_roles(scene, entry.methods[0].index or entry.methods[0].band)

    def _spans(self) -> list[DateSpan]:
        out = []
        for text in self.form.dates:
            start, dots, end = text.partition("..")
            first, last = dates_in(f"in {start}"), dates_in(f"in {end}")
            if dots and (first or not start) and (last or not end) and (first or last):
                out.append(DateSpan(first[0].start if first else date.min, last[0].end if last else date.max, (0, 0)))
            elif not dots and len(first) == 1:
                out.append(first[0])
            else:
                raise RefusalError(
                    f"{text!r} is no date that I can read; write 2014-02-18, 2014-02 or 2013-09-01..2014-08-31.",
                    "BAD_ARGUMENT",
                    {"form": ["dates"]},
                )
        return out

    def _dated(self, scenes: list[SceneInfo]) -> list[SceneInfo]:
        """The scenes in order of time; NEEDS_DATES where one has no date."""
        undated = [s.scene_id for s in scenes if s.acquired_at is None]
        if undated:
            raise RefusalError(
                f"{len(undated)} of {len(scenes)} images {'has' if len(undated) == 1 else 'have'} no date. Say when "
                f"{'it was' if len(undated) == 1 else 'they were'} acquired, and ask again.",
                "NEEDS_DATES",
                {"dates": undated},
            )
        return sorted(scenes, key=_when)

    def _in_dates(self, scenes: list[SceneInfo]) -> list[SceneInfo]:
        """Scenes that fall in the dates asked for (all where none was asked)."""
        spans = self._spans()
        if not spans:
            return scenes
        dated = self._dated(scenes)
        found = [s for s in dated if any(span.covers(_when(s)) for span in spans)]
        for span in spans:
            if not any(span.covers(_when(s)) for s in dated):
                raise RefusalError(
                    f"No image falls in {_span_text(span)}; there are {_date_list(dated)}.",
                    "NEEDS_DATES",
                    {"available": [_day(s) for s in dated]},
                )
        return found

    def _one(self) -> SceneInfo:
        """The one scene that is meant."""
        scenes = self._in_dates(self._capable())
        if len(scenes) == 1:
            return scenes[0]
        if all(s.acquired_at for s in scenes):
            raise RefusalError(
                f"{len(scenes)} images fit: {_date_list(sorted(scenes, key=_when))}. Say which date you mean, or ask for "
                "the difference, or on which date it is largest.",
                "NEEDS_DATES",
                {"available": [_day(s) for s in sorted(scenes, key=_when)]},
            )
        raise RefusalError(
            f"{len(scenes)} images fit; say which one you mean.", "NO_ANSWER", {"scenes": [s.scene_id for s in scenes]}
        )

    def _two(self) -> tuple[SceneInfo, SceneInfo]:
        """The scenes before and after, in order of time."""
        capable = self._capable()
        spans = self._spans()
        if len(capable) < 2:
            raise RefusalError(
                "A change needs two images of one place at two dates; there is one that fits.", "NEEDS_DATES", {"scenes": True}
            )
        dated = self._dated(capable)
        if not spans:
            pair = (dated[0], dated[-1])
        elif len(spans) == 1:
            inside = self._in_dates(capable)
            if len(inside) < 2:
                raise RefusalError(
                    f"A change needs two dates; one image falls in {_span_text(spans[0])}.",
                    "NEEDS_DATES",
                    {"available": [_day(s) for s in dated]},
                )
            pair = (inside[0], inside[-1])
        elif len(spans) == 2:
            ends = []
            for span in spans:
                inside = [s for s in dated if span.covers(_when(s))]
                if len(inside) != 1:
                    raise RefusalError(
                        f"{len(inside) or 'No'} image{'s' if len(inside) != 1 else ''} fall{'s' * (len(inside) == 1)} in "
                        f"{_span_text(span)}; name the two dates. There are {_date_list(dated)}.",
                        "NEEDS_DATES",
                        {"available": [_day(s) for s in dated]},
                    )
                ends.append(inside[0])
            pair = (min(ends, key=_when), max(ends, key=_when))
        else:
            raise RefusalError("A change needs two dates, not more.", "BAD_ARGUMENT", {"form": ["dates"]})
        if _when(pair[0]) == _when(pair[1]) or pair[0].scene_id == pair[1].scene_id:
            raise RefusalError("A change needs two different dates.", "NEEDS_DATES", {"available": [_day(s) for s in dated]})
        self._same_place(list(pair))
        return pair

    def _series(self, least: int) -> list[SceneInfo]:
        """Scenes of one place in order of time, at least so many."""
        scenes = self._capable()
        if len(scenes) >= least or self.form.dates:
            scenes = self._in_dates(scenes)
        if len(scenes) < least:
            raise RefusalError(
                f"This needs images of at least {least} dates; {len(scenes)} fit{'s' * (len(scenes) == 1)}.",
                "NEEDS_DATES",
                {"scenes": True},
            )
        scenes = self._dated(scenes)
        days = [_day(s) for s in scenes]
        if len(set(days)) < len(days):
            raise RefusalError(
                "Two images have the same date; say which one counts.", "NEEDS_DATES", {"available": sorted(set(days))}
            )
        self._same_place(scenes)
        return scenes

    def _same_place(self, scenes: list[SceneInfo]) -> None:
        first = scenes[0]
        for s in scenes[1:]:
            if not _overlap(first, s):
                raise RefusalError(
                    "The images do not show the same place, so dates cannot be compared between them.",
                    "NO_ANSWER",
                    {"scenes": [x.scene_id for x in scenes]},
                )

    def _needs_ground(self, *scenes: SceneInfo) -> None:
        """NEEDS_GSD where a scene has neither a CRS nor a GSD: no metres without one."""
        lacking = [s.scene_id for s in scenes if s.grid.crs is None and s.effective_gsd_m is None]
        if lacking:
            raise RefusalError(
                "The image has no coordinate system, so the size of a pixel on the ground is not known. Give the ground "
                "sampling distance in metres; a count or a share works without.",
                "NEEDS_GSD",
                {"gsd_m": True, "scenes": lacking},
            )

    def _check_region(self, *scenes: SceneInfo) -> None:
        if self.region is None:
            return
        if self.region_crs != "image" and any(s.grid.crs is None for s in scenes):
            raise RefusalError(
                "The region is given in map coordinates, but the image has no coordinate system. Draw the region on the image.",
                "NEEDS_CRS",
                {"crs": True},
            )
        if self.region_crs == "EPSG:4326":
            outside = [s for s in scenes if _is_apart(self.region, s)]
            if outside:
                raise RefusalError(
                    "The region lies outside of the image. Draw it on the image, or take it away to ask about all of it.",
                    "BAD_REGION",
                    {"region": True, "scenes": [s.scene_id for s in outside]},
                )
        if self.region_crs == "image" and len(scenes) > 1 and len({s.grid.shape for s in scenes}) > 1:
            raise RefusalError("The region is given in pixels, but the images differ in size.", "NEEDS_REGION", {"region": True})

    # --- steps -------------------------------------------------------------------------------------------------------------
    def _add(
        self,
        tool: Tool,
        arguments: dict[str, Any],
        why: str,
        needs: Sequence[int] = (),
        alternatives: Sequence[dict[str, Any]] = (),
    ) -> int:
        n = len(self.steps) + 1
        self.steps.append(
            PlanStep(
                step=n,
                tool=tool,
                arguments=self._with_region(arguments),
                why=why[:500],
                needs=tuple(needs),
                alternatives=tuple(self._with_region(a) for a in alternatives),
            )
        )
        return n

    def _with_region(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {**arguments, "region": self.region, "region_crs": self.region_crs} if self.region is not None else arguments

    def _quantity_nodes(self, scene: SceneInfo, suffix: str = "", quantity: str = "") -> tuple[list[dict[str, Any]], str]:
        """Nodes that give the quantity of one scene, without its flagged pixels where that is asked, and the last one's name."""
        q = quantity or self.form.quantity
        source = {"id": f"s{suffix or '1'}", "op": "asset.scene", "params": {"scene": scene.scene_id}}
        name = f"q{suffix}" if suffix else "q"
        params: dict[str, Any] = {"quality_mask": "auto"} if self.form.mask else {}
        if q in scene.roles or q not in self.words.indices:
            role = q if q in scene.roles else next((r for r in (q, "nir08", "thermal2") if r in scene.roles), q)
            op, params = "raster.product.band", params | {"role": role}
        else:
            op, params = "raster.product.index", params | {"index": q}
        return [source, {"id": name, "op": op, "inputs": [source["id"]], "params": params}], name

    def _target_nodes(self, scene: SceneInfo, target: str) -> list[list[dict[str, Any]]]:
        """Graphs that end in ``mask``, one a method: where a target is, found inside of one call. For what a mask of its own
        cannot serve: pixels that are left out by the quality band, and zones."""
        value = _class_value(target)
        if value is not None:
            nodes, last = self._quantity_nodes(scene, quantity="class")
            params: dict[str, Any] = {"values": [value]}
            return [[*nodes, {"id": "mask", "op": "raster.product.class_values", "inputs": [last], "params": params}]]
        out = []
        for m in self._target_methods(scene, target)[:4]:
            nodes, last = self._quantity_nodes(scene, quantity=m.index or m.band)
            limit: dict[str, Any] = {"op": ">" if m.side == "above" else "<", "value": m.threshold}
            out.append([*nodes, {"id": "mask", "op": "raster.product.threshold", "inputs": [last], "params": limit}])
        return out

    def _target_methods(self, scene: SceneInfo, target: str) -> list[TargetMethod]:
        """How a target is found in a scene, first choice first; as the question says where it names an index."""
        f = self.form
        methods = _methods(scene, self.words.targets[target].methods)
        if f.quantity and f.threshold is not None and target == f.target:
            is_index = f.quantity in self.words.indices
            methods = [
                TargetMethod(
                    index=f.quantity if is_index else "",
                    band="" if is_index else f.quantity,
                    threshold=f.threshold,
                    side=f.side,
                )
            ]
        elif f.quantity and target == f.target:
            methods = [m for m in methods if f.quantity in (m.index, m.band)] or [
                TargetMethod(index=f.quantity, threshold="otsu", side="above")
            ]
        if methods[0].index == "ngrdi":
            self.warnings.append("Only visible bands are at hand: green things that are no plants may be taken for vegetation.")
        return methods

    def _graph(self, nodes: list[dict[str, Any]], out: dict[str, Any]) -> dict[str, Any]:
        return {"nodes": [*nodes, {"id": "out", **out}], "output": "out"}

    def _threshold(self) -> dict[str, Any]:
        f = self.form
        value = -f.threshold if f.change == "drop" and f.threshold is not None else f.threshold
        below = f.side == "below" if not f.change else f.change == "drop"
        return {"op": ("<" if below else ">") + ("=" if f.is_closed else ""), "value": value}

    def _mask_nodes(self, source: str) -> list[dict[str, Any]]:
        """Nodes that end in ``mask``: where the quantity is beyond the threshold, or between two."""
        f = self.form
        if f.upper is None:
            return [{"id": "mask", "op": "raster.product.threshold", "inputs": [source], "params": self._threshold()}]
        return [
            {"id": "low", "op": "raster.product.threshold", "inputs": [source], "params": {"op": ">=", "value": f.threshold}},
            {"id": "high", "op": "raster.product.threshold", "inputs": [source], "params": {"op": "<=", "value": f.upper}},
            {"id": "mask", "op": "raster.product.logic", "inputs": ["low", "high"], "params": {"op": "and"}},
        ]

    def _condition(self) -> str:
        if self.form.upper is not None:
            return f"{self.form.threshold:g} ≤ {self.words.title(self.form.quantity)} ≤ {self.form.upper:g}"
        t = self._threshold()
        return f"{self.words.title(self.form.quantity)} {t['op']} {t['value']:g}"

    def _measure(self, scene: SceneInfo, target: str = "") -> int:
        """Adds the steps that measure one scene; the number of the last."""
        f, kind = self.form, self.measured()
        target = target or f.target
        self._check_region(scene)
        at = f" of {_day(scene)}" if scene.acquired_at else ""
        if (
            f.quantity == "elevation"
            and f.threshold is not None
            and any(b.unit != "m" for b in scene.bands_with_role("elevation"))
        ):
            self.warnings.append("The image does not say in which unit its elevation is; it is taken for metres.")
        if kind == "statistic":
            nodes, last = self._quantity_nodes(scene)
            return self._add(
                "execute",
                self._graph(nodes, {"op": "raster.summarize.statistic", "inputs": [last], "params": {"statistic": f.statistic}}),
                f"{self._title()} over the valid pixels{at}.",
            )
        if kind == "area":
            self._needs_ground(scene)
        if not target:
            nodes, last = self._quantity_nodes(scene)
            nodes += self._mask_nodes(last)
            if kind == "area":
                return self._add(
                    "execute",
                    self._graph(
                        nodes, {"op": "raster.summarize.area", "inputs": ["mask"], "params": {"unit": self._area_unit()}}
                    ),
                    f"Area where {self._condition()}{at}, geodesic or on an equal-area grid.",
                )
            return self._add(
                "execute",
                self._graph(nodes, {"op": "raster.summarize.share", "inputs": ["mask"], "params": {}}),
                f"Share of the valid pixels where {self._condition()}{at}.",
            )
        if f.mask and kind in ("area", "share") and target not in self.words.objects:
            return self._measure_masked(scene, target, at)
        layer = self._find(scene, target)
        mode = "objects" if target in self.words.objects else "regions"
        source: dict[str, Any] = {"name": target, "mode": mode, "layer": step_reference(layer)}
        if scene.grid.crs is None and scene.effective_gsd_m is not None and kind == "area":
            source["gsd_m"] = scene.effective_gsd_m
        spec: dict[str, Any] = {"metric": {"area": "area", "share": "ratio", "count": "count"}[kind], "subject": target}
        if kind == "area":
            spec["unit"] = self._area_unit()
        elif kind == "share":
            spec |= {"denominator": "valid", "unit": "1"}
        else:
            spec["unit"] = "1"
        title = self.words.title(target)
        why = {
            "area": f"Area of {title}, geodesic or on an equal-area grid.",
            "share": f"Share of the valid pixels that is {title}.",
            "count": f"Count the {title} that were found.",
        }[kind]
        return self._add("measure", {"sources": [source], "spec": spec}, why, (layer,))

    def _measure_masked(self, scene: SceneInfo, target: str, at: str) -> int:
        """Area or share of a target over the pixels that the quality band leaves."""
        kind, title = self.measured(), self.words.title(target)
        out: dict[str, Any] = {"op": "raster.summarize.share", "inputs": ["mask"], "params": {}}
        if kind == "area":
            out = {"op": "raster.summarize.area", "inputs": ["mask"], "params": {"unit": self._area_unit()}}
        arguments = [self._graph(nodes, out) for nodes in self._target_nodes(scene, target)]
        why = f"{'Area' if kind == 'area' else 'Share'} of {title}{at} over the pixels that the quality band does not flag."
        return self._add("execute", arguments[0], why, alternatives=arguments[1:])

    def _find(self, scene: SceneInfo, target: str, min_px: int = 0) -> int:
        """Adds the perceive step that finds a target in one scene."""
        if self.form.mask:
            raise RefusalError(
                "Clouds are left out of means, areas and shares; of things that are counted or of distances they are not.",
                "NO_ANSWER",
                {"form": ["mask"]},
            )
        at = f" in the image of {_day(scene)}" if scene.acquired_at else ""
        base: dict[str, Any] = {"image_paths": [scene.scene_id], "objective": target}
        if target in self.words.objects:
            entry = self.words.objects[target]
            return self._add(
                "perceive",
                {
                    **base,
                    "mode": "objects",
                    "target_groups": {target: list(entry.prompts)},
                    "objects_method": {"detector": "auto"},
                },
                f"Find the {entry.title[1]}{at}.",
            )
        value = _class_value(target)
        if value is not None:
            return self._add(
                "perceive",
                {
                    **base,
                    "mode": "regions",
                    "target_groups": {target: [target]},
                    "regions_method": {"kind": "class_value", "values": [value]},
                },
                f"Take the pixels of {target} of the class map{at}.",
            )
        methods = self._target_methods(scene, target)
        arguments = [
            {**base, "mode": "regions", "target_groups": {target: [target]}, "regions_method": _region_method(m, min_px)}
            for m in methods
        ]
        return self._add(
            "perceive",
            arguments[0],
            f"Find {self.words.title(target)}{at}: {_method_text(methods[0])}.",
            alternatives=arguments[1:4],
        )

    def _area_unit(self) -> str:
        return self.form.unit or "km2"

    # --- the kinds of question ------------------------------------------------------------------------------------------------
    def _statistic(self) -> AnswerRecipe:
        f = self.form
        scenes = self._in_dates(self._capable())
        title = self._title()
        if len(scenes) == 1:
            n = self._measure(scenes[0])
            self._clouds(scenes, when=f.statistic == "min")
            return AnswerRecipe(kind="value", steps=(n,), options={"phrase": title})
        scenes = self._series(2)
        over = f.statistic if f.statistic in ("min", "max") else "mean"
        n = self._series_step(scenes, {"statistic": f.statistic, "over": over}, f"{title} of each of {len(scenes)} dates.")
        self.understood += (
            f" The images are of {len(scenes)} dates: the {f.statistic} is taken of each, and the {over} over the dates."
        )
        self._clouds(scenes, when=f.statistic == "min")
        span = f"({_day(scenes[0])} to {_day(scenes[-1])})"
        phrase = f"{title} of the series {span}"
        if f.statistic in ("median", "std"):
            phrase = f"Mean over the dates of the {_lower(title)} {span}"
        return AnswerRecipe(kind="value", steps=(n,), options={"phrase": phrase})

    def _series_step(self, scenes: list[SceneInfo], params: dict[str, Any], why: str, op: str = "raster.summarize.series") -> int:
        self._check_region(*scenes)
        nodes: list[dict[str, Any]] = []
        ends = []
        for i, s in enumerate(scenes, start=1):
            more, last = self._quantity_nodes(s, str(i))
            nodes += more
            ends.append(last)
        return self._add("execute", self._graph(nodes, {"op": op, "inputs": ends, "params": params}), why)

    def _single(self) -> AnswerRecipe:
        scene = self._one()
        n = self._measure(scene)
        return AnswerRecipe(kind="value", steps=(n,), unit=self._recipe_unit(), options=self._phrases())

    def _recipe_unit(self) -> str:
        kind = self.measured()
        return self._area_unit() if kind == "area" else (self.form.unit or "1") if kind == "share" else "1"

    def _phrases(self) -> dict[str, Any]:
        """The words of the answer."""
        f, kind = self.form, self.measured()
        if kind == "count":
            entry = self.words.objects[f.target]
            return {
                "noun": f"{entry.title[1]} found",
                "noun_one": f"{entry.title[0]} found",
                "phrase": f"Number of {entry.title[1]}",
            }
        if kind == "statistic":
            return {"phrase": self._title()}
        what = f"of {self.words.title(f.target)}" if f.target else f"where {self._condition()}"
        if kind == "area":
            return {"phrase": f"Area {what}"}
        return {"phrase": f"Share {what}" if f.target else f"Share of the area {what}"}

    def _title(self) -> str:
        """'Mean NDVI', 'Standard deviation of the red band'."""
        name = self.words.title(self.form.quantity)
        head = _STATISTIC_TITLES[self.form.statistic]
        return f"{head} of {name}" if name.startswith("the ") or self.form.statistic == "std" else f"{head} {name}"

    def _changed(self) -> AnswerRecipe:
        """Area or share where the quantity fell or rose by more than the threshold."""
        f = self.form
        if not f.quantity or f.threshold is None or f.threshold < 0:
            raise RefusalError(
                "A drop or rise of which index, by more than which number?", "NO_ANSWER", {"form": ["quantity", "threshold"]}
            )
        before, after = self._two()
        self._check_region(before, after)
        if f.what == "area":
            self._needs_ground(before)
        arguments = []
        for params in ({}, {"resample": "bilinear"}):
            nodes = self._difference_nodes(before, after, params)
            nodes.append({"id": "mask", "op": "raster.product.threshold", "inputs": ["difference"], "params": self._threshold()})
            out = (
                {"op": "raster.summarize.area", "inputs": ["mask"], "params": {"unit": self._area_unit()}}
                if f.what == "area"
                else {"op": "raster.summarize.share", "inputs": ["mask"], "params": {}}
            )
            arguments.append(self._graph(nodes, out))
        title = self.words.title(f.quantity)
        verb = "fell" if f.change == "drop" else "rose"
        more = "at least" if f.is_closed else "more than"
        what = f"where {title} {verb} by {more} {f.threshold:g} from {_day(before)} to {_day(after)}"
        n = self._add("execute", arguments[0], f"{f.what.capitalize()} {what}.", alternatives=arguments[1:])
        return AnswerRecipe(
            kind="value",
            steps=(n,),
            unit=self._recipe_unit(),
            options={"phrase": f"Area {what}" if f.what == "area" else f"Share of the area {what}"},
        )

    def _difference_nodes(self, before: SceneInfo, after: SceneInfo, params: dict[str, Any]) -> list[dict[str, Any]]:
        first, a = self._quantity_nodes(before, "1")
        second, b = self._quantity_nodes(after, "2")
        return [*first, *second, {"id": "difference", "op": "raster.product.difference", "inputs": [a, b], "params": params}]

    def _exists(self) -> AnswerRecipe:
        f, kind = self.form, self.measured()
        scene = self._one()
        options: dict[str, Any] = {"op": f.limit_op, "value": f.limit if f.limit is not None else 0, **self._phrases()}
        if kind == "share" and f.target and f.limit is None:
            if f.mask:
                raise RefusalError(
                    f"Whether there is any {self.words.title(f.target)} is told by pieces of it, of which clouds are not left "
                    "out. Ask for its share or area without clouds.",
                    "NO_ANSWER",
                    {"form": ["mask"]},
                )
            layer = self._find(scene, f.target, EXISTS_MIN_PX)
            n = self._add(
                "measure",
                {
                    "sources": [{"name": f.target, "mode": "regions", "layer": step_reference(layer)}],
                    "spec": {"metric": "ratio", "subject": f.target, "denominator": "valid", "unit": "1"},
                },
                f"Share of the valid pixels that is {self.words.title(f.target)}, in pieces of at least {EXISTS_MIN_PX} pixels.",
                (layer,),
            )
        else:
            n = self._measure(scene)
        return AnswerRecipe(kind="boolean", steps=(n,), unit=self._recipe_unit(), options=options)

    def _date(self) -> AnswerRecipe:
        f = self.form
        scenes = self._series(2)
        word = "highest" if f.pick == "max" else "lowest"
        if self.measured() == "statistic":
            title = self._title()
            n = self._series_step(
                scenes, {"statistic": f.statistic, "pick": f.pick}, f"{title} of each date; the {word} is picked."
            )
            return AnswerRecipe(kind="date", steps=(n,), options={"phrase": f"The date with the {word} {_lower(title)}"})
        steps = tuple(self._measure(s) for s in scenes)
        word = "largest" if f.pick == "max" else "smallest"
        return AnswerRecipe(
            kind="compare",
            steps=steps,
            unit=self._recipe_unit(),
            options={
                "pick": f.pick,
                "labels": [_day(s) for s in scenes],
                "word": f"the date with the {word} value",
                "phrase": _lower(str(self._phrases()["phrase"])),
            },
        )

    def _difference(self) -> AnswerRecipe:
        f = self.form
        before, after = self._two()
        span = f"from {_day(before)} to {_day(after)}"
        if self.measured() == "statistic" and f.statistic == "mean" and not f.is_relative:
            self._check_region(before, after)
            arguments = [
                self._graph(
                    self._difference_nodes(before, after, params),
                    {"op": "raster.summarize.statistic", "inputs": ["difference"], "params": {"statistic": "mean"}},
                )
                for params in ({}, {"resample": "bilinear"})
            ]
            title = self.words.title(f.quantity)
            n = self._add(
                "execute",
                arguments[0],
                f"Mean of {title} of {_day(after)} minus {_day(before)}, over pixels valid at both.",
                alternatives=arguments[1:],
            )
            if f.limit is not None:
                options: dict[str, Any] = {"phrase": f"Mean change of {title} {span}", "op": f.limit_op, "value": f.limit}
                return AnswerRecipe(kind="boolean", steps=(n,), options=options)
            return AnswerRecipe(kind="value", steps=(n,), options={"phrase": f"Mean change of {title} {span}", "signed": True})
        if f.limit is not None:
            raise RefusalError(
                "Whether a change is larger than a number is answered for the mean of an index or band only.",
                "NO_ANSWER",
                {"form": ["limit"]},
            )
        steps = (self._measure(before), self._measure(after))
        phrase = _lower(str(self._phrases()["phrase"]))
        return AnswerRecipe(
            kind="difference",
            steps=steps,
            unit=self._recipe_unit(),
            options={
                "phrase": f"Change of the {phrase} {span}",
                "labels": [_day(before), _day(after)],
                "relative": f.is_relative,
            },
        )

    def _trend(self) -> AnswerRecipe:
        f = self.form
        if self.measured() != "statistic":
            raise RefusalError(
                "A trend is computed of an index or band, not of an area or count yet.", "NO_ANSWER", {"form": ["quantity"]}
            )
        scenes = self._series(3)
        title = self._title()
        n = self._series_step(
            scenes,
            {"statistic": f.statistic, "method": "linear"},
            f"Linear trend of the {_lower(title)} of {len(scenes)} dates, with its 95 % interval.",
            "raster.summarize.trend",
        )
        return AnswerRecipe(
            kind="value",
            steps=(n,),
            unit=f.unit if dimension(f.unit) == "rate" else "1",
            options={"phrase": f"Trend of the {_lower(title)} from {_day(scenes[0])} to {_day(scenes[-1])}", "signed": True},
        )

    def _distance(self) -> AnswerRecipe:
        f = self.form
        if not f.reference:
            raise RefusalError("The distance from what to what? Name two things.", "NO_ANSWER", {"form": ["reference"]})
        if f.target == f.reference:
            raise RefusalError(
                "The distance between things of one kind is not measured yet; name two kinds.",
                "NO_ANSWER",
                {"form": ["reference"]},
            )
        scene = self._one()
        self._check_region(scene)
        self._needs_ground(scene)
        sources = []
        layers = []
        for name in (f.target, f.reference):
            layers.append(self._find(scene, name))
            source: dict[str, Any] = {
                "name": name,
                "mode": "objects" if name in self.words.objects else "regions",
                "layer": step_reference(layers[-1]),
            }
            if scene.grid.crs is None and scene.effective_gsd_m is not None:
                source["gsd_m"] = scene.effective_gsd_m
            sources.append(source)
        unit = f.unit or "m"
        which = {"minimum": "Shortest", "mean": "Mean", "maximum": "Longest"}[f.distance_statistic]
        phrase = f"{which} distance between {self.words.title(f.target)} and {self.words.title(f.reference)}"
        n = self._add(
            "measure",
            {
                "sources": sources,
                "spec": {
                    "metric": "distance",
                    "subject": f.target,
                    "reference": f.reference,
                    "distance_statistic": f.distance_statistic,
                    "unit": unit,
                },
            },
            f"{phrase}, edge to edge.",
            layers,
        )
        return AnswerRecipe(kind="value", steps=(n,), unit=unit, options={"phrase": phrase})

    # --- things and relations ----------------------------------------------------------------------------------------------
    def _thing_title(self, key: str) -> str:
        return self.things[key].title if key in self.things else self.words.title(key)

    def _related(self) -> AnswerRecipe:
        """A figure of the target, chosen by its relation to the reference or by its distance from it."""
        f = self.form
        keys = list(dict.fromkeys(k for k in (f.target, f.reference, *f.others) if k))
        in_image = [k for k in keys if k not in self.things or self.things[k].px is not None]
        scene = self._one() if in_image else None
        if scene is not None:
            self._check_region(scene)
        is_metric = f.clip or f.what in ("area", "distance", "length", "density") or f.relation in ("within", "beyond", "nearest")
        if scene is not None and is_metric:
            self._needs_ground(scene)
        if scene is not None and scene.grid.crs is None and any(k in self.things and self.things[k].px is None for k in keys):
            raise RefusalError(
                "The image has no coordinate system, so it cannot be brought together with places on the map.",
                "NEEDS_CRS",
                {"crs": True},
            )
        sources: list[dict[str, Any]] = []
        layers: list[int] = []
        names: dict[str, str] = {}
        for key in keys:
            thing = self.things.get(key)
            label = thing.label if thing is not None else key
            name = names[key] = label if label not in names.values() else f"{label[:70]} {len(names) + 1}"
            if thing is not None:
                sources.append(thing.source(name) | self._rows_named(key))
                continue
            assert scene is not None
            layers.append(self._find(scene, key))
            mode = "objects" if key in self.words.objects else "regions"
            source: dict[str, Any] = {"name": name, "mode": mode, "layer": step_reference(layers[-1])}
            if scene.grid.crs is None and scene.effective_gsd_m is not None:
                source["gsd_m"] = scene.effective_gsd_m
            sources.append(source)
        spec = self._spec(names)
        phrase = self._related_phrase()
        n = self._add("measure", {"sources": sources, "spec": spec}, f"{phrase}."[:500], layers)
        unit = {"count": "1", "exists": "1", "density": spec.get("unit", "1/km2")}.get(f.what, f.unit)
        options: dict[str, Any] = {"phrase": phrase}
        if f.what == "zone":
            options["phrase"] = self._picked_phrase()
            listed = self.things[f.target if f.each == "target" else f.reference].vector
            options["noun"] = "rows" if f.by or listed is None else listed.noun
            return AnswerRecipe(kind="zone", steps=(n,), unit=str(spec["unit"]), options=options)
        if f.each:
            return AnswerRecipe(kind="table", steps=(n,), unit=str(spec["unit"]), options=options)
        if f.what == "exists":
            is_area = f.of == "area"
            value: float = f.limit if f.limit is not None else 0
            options |= {"op": f.limit_op, "value": value}
            if not is_area:
                options |= {"noun": self._subject_noun(), "noun_one": self._subject_noun()}
            return AnswerRecipe(kind="boolean", steps=(n,), unit=(f.unit or "m2") if is_area else "1", options=options)
        if f.what == "count":
            options |= {"noun": self._subject_noun(), "noun_one": self._subject_noun()}
        default = {"area": self._area_unit(), "distance": "m", "length": "m", "share": "1", "ratio": "1"}.get(f.what, "1")
        return AnswerRecipe(kind="value", steps=(n,), unit=unit or default, options=options)

    def _rows_named(self, key: str) -> dict[str, Any]:
        """For a source whose features are listed: the attribute that names the rows."""
        f = self.form
        if not f.each or key != (f.target if f.each == "target" else f.reference):
            return {}
        vector = self.things[key].vector
        named = f.by or (vector.name_field if vector is not None else "")
        return {"name_field": named} if named else {}

    def _spec(self, names: dict[str, str]) -> dict[str, Any]:
        f = self.form
        what = f.of if f.what == "zone" else f.what
        metric = {"exists": "area" if f.of == "area" else "count", "share": "ratio"}.get(what, what)
        out: dict[str, Any] = {"metric": metric, "subject": names[f.target]}
        if f.reference:
            out["reference"] = names[f.reference]
        if f.relation:
            out["relation"] = f.relation
            if f.relation in ("within", "beyond"):
                out["distance_m"] = f.relation_m
            if f.relation == "nearest":
                out["nearest_k"] = f.nearest_k
            if f.others:
                out["others"] = [names[k] for k in f.others]
        if f.length_of:
            out["length_of"] = f.length_of
        unit = {"area": self._area_unit(), "distance": f.unit or "m", "length": f.unit or "m", "density": f.unit or "1/km2"}
        out["unit"] = unit.get(metric, "1")
        if metric == "area" and f.what == "exists":
            out["unit"] = f.unit or "m2"
        if f.what == "distance":
            out["distance_statistic"] = f.distance_statistic
        if f.clip:
            out["clip"] = True
        if f.each:
            out["each"] = names[f.target if f.each == "target" else f.reference]
            if f.what == "zone":
                out["pick"] = f.pick
        if what == "share" and f.clip:
            # "the share of the district that is covered by …" is one of the reference; else one of the target itself
            of_reference = bool(f.each) or f.denominator == "reference"
            out |= {"denominator": "reference" if of_reference else "subject", "of": "length" if f.of == "length" else "area"}
        elif what == "share":
            subject = self.things.get(f.target)
            is_surface = subject is None and f.target not in self.words.objects
            out |= {"denominator": "subject", "of": "area" if is_surface else "count"}
        if f.what == "ratio":
            out |= {"denominator": "reference", "of": f.of or "count"}
        if what == "density":
            of_reference = bool(f.reference) and f.relation == "inside"
            out |= {"of": "count", "denominator": "reference" if of_reference else "valid"}
        return out

    def _relation_text(self) -> str:
        f = self.form
        if not f.relation:
            return ""
        words = _RELATION_WORDS.get(f.relation, f.relation)
        if f.relation == "within":
            words = f"within {f.relation_m:g} m of"
        if f.relation == "beyond":
            words = f"farther than {f.relation_m:g} m from"
        if f.relation == "nearest":
            words = f"(the {f.nearest_k} nearest) to"
        references = " and ".join(self._thing_title(k) for k in (f.reference, *f.others))
        return f" {words} {references}"

    def _subject_noun(self) -> str:
        """'of the 43 polygons of buildings.gpkg lie within 100 m of water', after a number."""
        f, thing = self.form, self.things.get(self.form.target)
        if thing is None:
            return f"{self.words.title(f.target)} found{self._relation_text()}"
        head = f"of {thing.title}" if f.relation and not thing.name else (thing.vector.noun if thing.vector else "place")
        tail = "" if f.relation or thing.vector is None else f" in {thing.vector.name}"
        return f"{head}{self._relation_text()}{tail}" + (" in the region" if self.region is not None else "")

    def _related_phrase(self) -> str:
        f = self.form
        subject, relation = self._thing_title(f.target), self._relation_text()
        what = f.of if f.what == "zone" else f.what
        if f.each or f.clip:
            return self._cut_phrase(what, subject, relation) + (" in the region" if self.region is not None else "")
        if f.what == "distance":
            which = {"minimum": "Shortest distance", "mean": "Mean distance", "maximum": "Longest distance"}[f.distance_statistic]
            if not f.reference:
                return f"{which} between neighbours among {subject}"
            if f.distance_statistic == "minimum" or self._is_one(f.target):
                is_pair = self._is_one(f.target) and self._is_one(f.reference)
                return f"{'Distance' if is_pair else which} between {subject} and {self._thing_title(f.reference)}"
            if f.relation == "nearest":
                return f"{which} of the {f.nearest_k} nearest of {subject} to {self._thing_title(f.reference)}"
            return f"{which} from each of {subject}{relation} to the nearest of {self._thing_title(f.reference)}"
        if f.what == "ratio":
            kind = "areas" if f.of == "area" else "numbers"
            return f"Ratio of the {kind} of {subject} and {self._thing_title(f.reference)}"
        head = {"count": "Number of", "exists": "Area of" if f.of == "area" else "Number of", "area": "Area of",
                "share": "Share of", "length": "Length of", "density": "Density of"}[f.what]  # fmt: skip
        if f.length_of:
            several = "" if self._is_one(f.target) else "mean "
            head = "Perimeter of" if f.length_of == "outline" else f"{several}long side of".capitalize()
        return f"{head} {subject}{relation}" + (" in the region" if self.region is not None else "")

    def _picked_phrase(self) -> str:
        """'largest number of the 12 points of sites.csv', 'smallest area', 'largest share covered by …'."""
        f = self.form
        head = "largest" if f.pick == "max" else "smallest"
        if f.of == "distance":
            return f"{head} distance to {self._thing_title(f.reference) if f.reference else 'its nearest other'}"
        if f.each == "target":
            return f"{head} {f.of if f.of != 'count' else 'number'}"
        subject = self._thing_title(f.target)
        if f.of == "share":
            return f"{head} share covered by {subject}"
        near = f" within {f.relation_m:g} m" if f.relation == "within" else ""
        return f"{head} {'number' if f.of == 'count' else f.of} of {subject}{near}"

    def _cut_phrase(self, what: str, subject: str, relation: str) -> str:
        """'Length of roads.kml inside the district, cut at its outline', 'Number of sites in each of the 3 polygons of …'."""
        f = self.form
        head = {"count": "Number of", "area": "Area of", "length": "Length of", "density": "Density of", "share": "Share of",
                "exists": "Area of", "distance": "Distance from"}[what]  # fmt: skip
        reference = self._thing_title(f.reference) if f.reference else ""
        is_of_reference = what == "share" and (f.each or f.denominator == "reference")
        if f.each:
            thing = self.things[f.target if f.each == "target" else f.reference]
            listed = f"each {f.by}" if f.by else f"each of {thing.title}"
            if f.by and thing.vector is not None:
                listed += f" in {thing.vector.name}"
            if what == "distance":
                return f"Distance from {listed} to {reference or 'the nearest other'}"
            if f.each == "target":
                return f"{head} {listed}"
            where = f"within {f.relation_m:g} m of" if f.relation == "within" else "in"
            if is_of_reference:
                return f"Share of {listed} that is covered by {subject}"
            return f"{head} {subject} {where} {listed}"
        if is_of_reference:
            return f"Share of {reference} that is covered by {subject}"
        if what == "share":
            head = f"Share of the {'length' if f.of == 'length' else 'area'} of"
        return f"{head} {subject}{relation}, cut {'there' if f.relation in ('within', 'beyond') else 'at the outline'}"

    def _is_one(self, key: str) -> bool:
        return key in self.things and self.things[key].n == 1

    # --- zones -------------------------------------------------------------------------------------------------------------
    def _zoned(self) -> AnswerRecipe:
        """Figures of the image inside of polygons."""
        f, kind = self.form, self.measured()
        if kind == "count":
            raise RefusalError(
                "Objects inside of polygons are counted by their relation: ask how many lie inside.",
                "NO_ANSWER",
                {"form": ["zones"]},
            )
        for key in f.zones:
            vector = self.things[key].vector
            assert vector is not None
            if not f.buffer_m and vector.count_of(POLYGONS) < vector.n:
                others = vector.n - vector.count_of(POLYGONS)
                self.warnings.append(f"{others} points or lines of {vector.name} have no inside and are left out.")
        if f.each:
            return self._each_zone()
        if f.is_outside and len(f.zones) > 1:
            raise RefusalError("Outside of which? Name one file.", "NO_ANSWER", {"form": ["zones"]})
        if f.what == "zone":
            return self._which_zone()
        if f.what in ("compare", "difference") and len(f.zones) > 1:
            return self._between_zones()
        if len(f.zones) != 1:
            raise RefusalError("One area at a time, or which of them is larger.", "NO_ANSWER", {"form": ["zones"]})
        if f.what == "difference" and kind == "statistic" and f.statistic == "mean" and not f.is_relative and f.limit is None:
            return self._zoned_change()
        if f.what not in ("statistic", "area", "share", "exists") or (f.what == "exists" and kind == "share" and f.limit is None):
            raise RefusalError(
                "Inside of polygons I can give a statistic, an area or a share of one image, or the mean change between two.",
                "NO_ANSWER",
                {"form": ["what"]},
            )
        if f.change:
            raise RefusalError(
                "Inside of polygons a change is given as its mean; ask for that.", "NO_ANSWER", {"form": ["change"]}
            )
        n = self._zone_step(self._one(), f.zones[0])
        recipe: dict[str, Any] = {"steps": (n,), "unit": self._recipe_unit()}
        phrase = f"{self._phrases()['phrase']}{self._zone_text(f.zones[0])}"
        if f.what == "exists":
            return AnswerRecipe(kind="boolean", options={"op": f.limit_op, "value": f.limit or 0, "phrase": phrase}, **recipe)
        return AnswerRecipe(kind="value", options={"phrase": phrase}, **recipe)

    def _each_zone(self) -> AnswerRecipe:
        """A figure of the image in each polygon of a file, or for each value of an attribute."""
        f = self.form
        key = f.zones[0]
        thing = self.things[key]
        vector = thing.vector
        assert vector is not None
        if len(f.zones) != 1 or thing.name:
            raise RefusalError("A table lists the polygons of one file.", "NO_ANSWER", {"form": ["zones"]})
        if f.what not in ("statistic", "area", "share") or f.change or f.is_outside:
            raise RefusalError(
                "For each polygon I can give a statistic, an area or a share of one image.", "NO_ANSWER", {"form": ["what"]}
            )
        if f.by and f.by not in vector.fields:
            raise RefusalError(f"{vector.name} has no attribute {f.by}.", "BAD_ARGUMENT", {"form": ["by"]})
        self._tell_names(thing)
        n = self._zone_step(self._one(), key, is_each=True)
        by = f"each {f.by} in {vector.name}" if f.by else f"each of {thing.title}"
        near = f"within {f.buffer_m:g} m of" if f.buffer_m else "in"
        return AnswerRecipe(kind="table", steps=(n,), unit=self._recipe_unit(),
                            options={"phrase": f"{self._phrases()['phrase']} {near} {by}"})  # fmt: skip

    def _zone_text(self, key: str) -> str:
        if self.form.each:
            near = f"within {self.form.buffer_m:g} m of" if self.form.buffer_m else "in"
            return f" {near} each of {self.things[key].title}"
        if self.form.is_outside:
            far = f"farther than {self.form.buffer_m:g} m from" if self.form.buffer_m else "outside of"
            return f" {far} {self.things[key].title}"
        near = f" within {self.form.buffer_m:g} m of" if self.form.buffer_m else " inside"
        return f"{near} {self.things[key].title}"

    def _zone_step(self, scene: SceneInfo, key: str, *, pick: str = "", is_each: bool = False) -> int:
        """One summary by zones: of one zone made of all polygons, or the polygon with the extreme."""
        f, kind = self.form, self.measured()
        if kind == "area":
            self._needs_ground(scene)
        if scene.grid.crs is None:
            raise RefusalError(
                "The image has no coordinate system, so polygons of the map have no place on it.", "NEEDS_CRS", {"crs": True}
            )
        self._check_zone(scene, key)
        several = bool(pick) or is_each or f.is_outside
        outlines = self.things[key].zones(buffer_m=f.buffer_m, dissolve=not several)
        if f.is_outside:
            outlines["outside"] = True
        if is_each and f.by:
            outlines |= {"name": f.by, "group": True}
        zones = {"id": "zones", "op": "vector.zones", "params": outlines}
        params: dict[str, Any] = {"statistic": f.statistic if kind == "statistic" else kind}
        if kind == "area":
            params["unit"] = self._area_unit()
        if pick:
            params["pick"] = pick
        if kind == "statistic":
            nodes, last = self._quantity_nodes(scene)
            graphs = [nodes]
        elif f.target:
            graphs, last = self._target_nodes(scene, f.target), "mask"
        else:
            nodes, q = self._quantity_nodes(scene)
            graphs, last = [[*nodes, *self._mask_nodes(q)]], "mask"
        arguments = [
            self._graph([*nodes, zones], {"op": "raster.summarize.zonal", "inputs": [last, "zones"], "params": params})
            for nodes in graphs
        ]
        at = f" of {_day(scene)}" if scene.acquired_at else ""
        why = f"{self._phrases()['phrase']}{at}{self._zone_text(key)}, by pixel centres"
        if is_each:
            why = f"{self._phrases()['phrase']}{at} in each of {self.things[key].title}, by pixel centres"
        if pick:
            extreme = "highest" if pick == "max" else "lowest"
            why = f"{self._phrases()['phrase']}{at} of each of {self.things[key].title}; the {extreme}"
        return self._add("execute", arguments[0], f"{why}."[:500], alternatives=arguments[1:])

    def _check_zone(self, scene: SceneInfo, key: str) -> None:
        """Refused before any tool runs where a file surely lies beside the image."""
        vector = self.things[key].vector
        assert vector is not None
        west, south, east, north = vector.bounds
        ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
        if not self.form.buffer_m and _is_apart({"type": "Polygon", "coordinates": [ring]}, scene):
            raise RefusalError(
                f"{vector.name} lies outside of the image: it reaches from {west:.4g}, {south:.4g} to {east:.4g}, {north:.4g} "
                "degrees. Choose another file or image.",
                "BAD_REGION",
                {"vectors": [vector.vector_id], "scenes": [scene.scene_id]},
            )

    def _which_zone(self) -> AnswerRecipe:
        f = self.form
        key = f.zones[0]
        vector = self.things[key].vector
        assert vector is not None
        if len(f.zones) != 1 or self.things[key].name or vector.n < 2:
            raise RefusalError("Which polygon of which file? Name a file with several.", "NO_ANSWER", {"form": ["zones"]})
        if not vector.name_field:
            self.warnings.append(f"No attribute of {vector.name} names its features, so they are called by their number.")
        n = self._zone_step(self._one(), key, pick=f.pick)
        word = {"area": ("largest", "smallest"), "share": ("largest", "smallest")}.get(self.measured(), ("highest", "lowest"))
        phrase = f"{word[0] if f.pick == 'max' else word[1]} {_lower(str(self._phrases()['phrase']))}"
        return AnswerRecipe(kind="zone", steps=(n,), unit=self._recipe_unit(), options={"phrase": phrase})

    def _between_zones(self) -> AnswerRecipe:
        """Two or more named areas, each measured by itself, then compared or subtracted."""
        f, kind = self.form, self.measured()
        scene = self._one()
        steps = tuple(self._zone_step(scene, key) for key in f.zones)
        labels = [self.things[k].label for k in f.zones]
        phrase = _lower(str(self._phrases()["phrase"]))
        if f.what == "difference":
            if len(f.zones) != 2:
                raise RefusalError("A difference is that of two areas.", "NO_ANSWER", {"form": ["zones"]})
            told = f"{self._phrases()['phrase']}: {labels[1]} less {labels[0]}"
            return AnswerRecipe(
                kind="difference", steps=steps, unit=self._recipe_unit(), options={"phrase": told, "labels": [*labels]}
            )
        stem = "high" if kind == "statistic" else "larg"
        word = f"{stem if f.pick == 'max' else 'low' if kind == 'statistic' else 'small'}{'est' if len(labels) > 2 else 'er'}"
        options: dict[str, Any] = {"pick": f.pick, "labels": [*labels], "phrase": phrase}
        options["word"] = f"the {word}" if len(labels) > 2 else word
        return AnswerRecipe(kind="compare", steps=steps, unit=self._recipe_unit(), options=options)

    def _zoned_change(self) -> AnswerRecipe:
        """Mean change between two dates inside of polygons."""
        f = self.form
        before, after = self._two()
        key = f.zones[0]
        self._check_zone(before, key)
        zones = {"id": "zones", "op": "vector.zones", "params": self.things[key].zones(buffer_m=f.buffer_m)}
        arguments = [
            self._graph(
                [*self._difference_nodes(before, after, params), zones],
                {"op": "raster.summarize.zonal", "inputs": ["difference", "zones"], "params": {"statistic": "mean"}},
            )
            for params in ({}, {"resample": "bilinear"})
        ]
        title = self.words.title(f.quantity)
        phrase = f"Mean change of {title} from {_day(before)} to {_day(after)}{self._zone_text(key)}"
        n = self._add("execute", arguments[0], f"{phrase}."[:500], alternatives=arguments[1:])
        return AnswerRecipe(kind="value", steps=(n,), options={"phrase": phrase, "signed": True})

    def _compare(self) -> AnswerRecipe:
        f, kind = self.form, self.measured()
        stem = {"area": ("larg", "small"), "share": ("larg", "small"), "count": ("great", "small"), "statistic": ("high", "low")}[
            kind
        ]
        more, most = f"{stem[f.pick == 'min']}er", f"the {stem[f.pick == 'min']}est"
        word = most if f.others else more
        options: dict[str, Any] = {"pick": f.pick, "word": word}
        if f.reference:
            names = [f.target, f.reference, *f.others]
            if kind == "statistic" or any((kind == "count") != (n in self.words.objects) for n in names):
                raise RefusalError(
                    "These two cannot be compared: one is counted, the other measured.",
                    "NO_ANSWER",
                    {"form": ["target", "reference"]},
                )
            scene = self._one()
            steps = tuple(self._measure(scene, name) for name in names)
            labels = [self._label(n) for n in names]
            options |= {"labels": labels, "phrase": {"area": "area", "share": "share of the area", "count": "number"}[kind]}
        else:
            scenes = self._compared_scenes()
            labels = _labels(scenes)
            options["word"] = most if len(scenes) > 2 else more
            steps = tuple(self._measure(s) for s in scenes)
            options |= {"labels": labels, "phrase": _lower(str(self._phrases()["phrase"]))}
        return AnswerRecipe(kind="compare", steps=steps, unit=self._recipe_unit(), options=options)

    def _label(self, target: str) -> str:
        """A target's name in the answer; of a multiple choice the option that names it, so that it is recognised."""
        entry = self.words.targets.get(target) or self.words.objects.get(target)
        known = entry.words if entry is not None else (target,)
        if isinstance(entry, TargetEntry):
            known = (*known, *entry.narrower)
        options = [
            text
            for text in self.question.choices.values()
            if any(re.search(rf"(?<![\w\-]){re.escape(w)}(?![\w\-])", text.lower()) for w in known)
        ]
        return options[0] if len(options) == 1 else self.words.title(target)

    def _compared_scenes(self) -> list[SceneInfo]:
        capable = self._capable()
        scenes = self._in_dates(capable)
        if len(scenes) < 2:
            raise RefusalError("A comparison needs two images, two dates or two targets.", "NO_ANSWER", {"scenes": True})
        return sorted(scenes, key=_when) if all(s.acquired_at for s in scenes) else scenes

    # --- words -------------------------------------------------------------------------------------------------------------
    def _clouds(self, scenes: list[SceneInfo], *, when: bool) -> None:
        if when and not self.form.mask and self.form.quantity in self.words.indices and not all("qa" in s.roles for s in scenes):
            self.warnings.append(
                "No cloud mask was applied: clouds or their shadows may explain the lowest value. Look at the image "
                "of that date before you rely on it."
            )

    def _understood(self) -> str:
        f, kind = self.form, self.measured()
        title = self._thing_title
        subject = title(f.target) if f.target else title(f.quantity)
        if self._is_related():
            unit = f", in {f.unit}" if f.unit else ""
            place = ", in the region that is given" if self.region is not None else ""
            limit = f" {f.limit_op} {number_text(f.limit, '1')}" if f.limit is not None else " more than nothing"
            head = f"the {_lower(self._related_phrase())}"
            if f.what == "exists":
                head = f"whether {head} is{limit}"
            if f.what == "zone":
                listed = self.things[f.target if f.each == "target" else f.reference].title
                head = f"which of {listed} has the {self._picked_phrase()}"
            return f"You ask for {head.removesuffix(' in the region')}{unit}{place}."
        condition = (
            f" where {self._condition()}" if f.quantity and f.threshold is not None and not f.target and not f.change else ""
        )
        statistic = _lower(self._title()) if f.quantity else ""
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
        dates = f", for {' and '.join(_span_text(s) for s in self._spans())}" if f.dates else ""
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


# --- small facts ----------------------------------------------------------------------------------------------------------------
def _class_value(name: str) -> int | None:
    """21 of 'class 21'."""
    head, _, tail = name.partition(" ")
    return int(tail) if head == "class" and tail.isdecimal() and len(tail) < 6 else None


def _methods(scene: SceneInfo, methods: Sequence[TargetMethod]) -> list[TargetMethod]:
    """The methods that a scene's bands allow, in order."""
    return [m for m in methods if (not missing_roles(scene, m.index) if m.index else has_role(scene, m.band))]


def _region_method(m: TargetMethod, min_px: int) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": "index_threshold", "index": m.index} if m.index else {"kind": "band_threshold", "band": m.band}
    out |= {"threshold": m.threshold, "side": m.side}
    if min_px:
        out["min_px"] = min_px
    return out


def _method_text(m: TargetMethod) -> str:
    name = lexicon().title(m.index or m.band)
    if m.threshold == "otsu":
        return f"{name} {m.side} Otsu's threshold"
    return f"{name} {'>' if m.side == 'above' else '<'} {m.threshold:g}"


def _when(scene: SceneInfo) -> date:
    return scene.acquired_at.date() if scene.acquired_at else date.min


def _day(scene: SceneInfo) -> str:
    return _when(scene).isoformat()


def _labels(scenes: list[SceneInfo]) -> list[str]:
    """One name a scene, none twice: dates where they differ, else file names, else numbers."""
    days = [_day(s) if s.acquired_at else "" for s in scenes]
    names = [s.name for s in scenes]
    for labels in (days, names):
        if all(labels) and len(set(labels)) == len(labels):
            return labels
    return [f"image {i}" for i in range(1, len(scenes) + 1)]


def _date_list(scenes: list[SceneInfo]) -> str:
    days = list(dict.fromkeys(_day(s) for s in scenes))
    return ", ".join(days) if len(days) <= 6 else f"{len(days)} dates from {days[0]} to {days[-1]}"


def _span_text(span: DateSpan) -> str:
    if span.month_only or span.start == span.end:
        return span.text()
    if span.start == date.min:
        return f"the time to {span.end.isoformat()}"
    return f"the time from {span.start.isoformat()}" + ("" if span.end == date.max else f" to {span.end.isoformat()}")


def _is_apart(region: Any, scene: SceneInfo) -> bool:
    """True where the outlines of a region (degrees) and a scene surely do not meet; the tools look at the exact shapes."""
    points: list[tuple[float, float]] = []
    todo: list[Any] = [region]
    while todo:
        at = todo.pop()
        if isinstance(at, dict):
            todo.extend(at.values())
        elif isinstance(at, list | tuple) and len(at) >= 2 and all(isinstance(x, int | float) for x in at[:2]):
            points.append((float(at[0]), float(at[1])))
        elif isinstance(at, list | tuple):
            todo.extend(at)
    try:
        west, south, east, north = scene.grid.lonlat_bounds()
    except ValueError:
        return False
    if not points or east < west:
        return False
    lons, lats = [x for x, _ in points], [y for _, y in points]
    return max(lons) < west or min(lons) > east or max(lats) < south or min(lats) > north


def _overlap(one: SceneInfo, other: SceneInfo) -> bool:
    """True where the outlines of two scenes share at least half of the smaller one; by size alone where neither has a CRS."""
    if one.grid.crs is None or other.grid.crs is None:
        return one.grid.crs == other.grid.crs and one.grid.shape == other.grid.shape
    if one.grid == other.grid:
        return True
    try:
        a, b = one.grid.lonlat_bounds(), other.grid.lonlat_bounds()
    except ValueError:
        return False
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    smaller = min((a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1]))
    return width * height >= 0.5 * smaller > 0


def _lower(text: str) -> str:
    """The text with a small first letter, unless it begins with an abbreviation."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def _plural(word: str, items: Sequence[str]) -> str:
    return word if len(items) == 1 else word + "s"


def _unique(items: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))
