"""The offline planner: English questions → form → plan, without a model and always the same.

Every word of a question must be understood. What is left over after dates, thresholds, units, indices,
targets and the words of the question itself were read makes the planner refuse, since an ignored word ("the
*forest's* mean NDVI") gives a number that looks right and answers another question. File names and metadata
are compared with the question's words, never read as words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from apps.agent.arguments import call_digest, parents_of, resolve
from apps.agent.planner.analysis_plans import plan_analysis
from apps.agent.planner.attributes import attributes_told, limit_not_understood
from apps.agent.planner.can_do import can_do
from apps.agent.planner.conditions import rank_said, two_figures
from apps.agent.planner.fields import Form
from apps.agent.planner.form import plan_from_form
from apps.agent.planner.intents import form_of, intent_of, of_rows, of_zones
from apps.agent.planner.landmarks import plan_landmarks
from apps.agent.planner.lexicon import lexicon
from apps.agent.planner.limits import UNIT, limits_said, names_in
from apps.agent.planner.measures import measured_fields
from apps.agent.planner.places import plan_place
from apps.agent.planner.prompts import plan_prompts, with_unused_marks
from apps.agent.planner.reflectance import band_first, reflectance_untold
from apps.agent.planner.roles import read_roles
from apps.agent.planner.spatial import SIGN, plain_words, put_signs
from apps.agent.planner.stated import IN_REGION, clear_said, dates_said, scenes_named, span_said
from apps.agent.planner.text import Text, spelled_out
from apps.agent.planner.thing_words import spans_at
from apps.agent.planner.things import is_thing
from apps.agent.units import UNIT_PATTERN, dimension, unit_of
from apps.core.evidence.fold import RunState
from apps.core.evidence.observation import TaskRef
from apps.core.evidence.plan import Plan, Question


@dataclass(frozen=True, slots=True)
class Reading:
    """What the words gave: a form, or why there is none; ``guess`` fills the form that the person is
    offered.
    """

    form: Form | None
    reason: str = ""
    code: str = "NO_ANSWER"
    needs: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    guess: dict[str, Any] = field(default_factory=dict)


class OfflinePlanner:
    """The Planner port without a model: deterministic, no I/O."""

    name = "offline"

    def plan(self, question: Question) -> Plan:
        if question.form:
            return with_unused_marks(plan_from_form(question), question)
        return plan_prompts(question, self.name) or with_unused_marks(self._plan_words(question), question)

    def _plan_words(self, question: Question) -> Plan:
        # of a run of spaces patterns would try every way to part it
        question = question.model_copy(update={"text": " ".join(question.text.split())})
        if len(question.text) <= LONGEST:
            if untold := reflectance_untold(question):
                return self._refused(question, Reading(None, untold[0], "NEEDS_BANDS", untold[1]))
            special = plan_place(question, self.name) or plan_landmarks(question, self.name) or plan_analysis(question, self.name)
            if special is not None:
                return special
        reading = read_question(question)
        if reading.form is None:
            return self._refused(question, reading)
        return plan_from_form(question, reading.form, warnings=reading.warnings)

    def _refused(self, question: Question, reading: Reading) -> Plan:
        return Plan(
            task=TaskRef(task_type="situation_analysis", question=question.text, answer_form="text"),
            planner=self.name,
            reason=reading.reason[:2000],
            code=reading.code,
            needs=reading.needs,
            warnings=reading.warnings,
            form=reading.guess,
        )

    def revise(self, question: Question, state: RunState) -> Plan | None:
        """The newest plan without the calls that were not accepted: each step goes on with its next
        alternative.

        None where a step has no other way left. The numbers of the steps stay, so what was accepted is found
        again.
        """
        plan = state.plan
        if plan is None or not plan.steps:
            return None
        chosen: dict[int, str] = {}
        steps = []
        is_changed = False
        for step in plan.steps:
            left = []
            for arguments in (step.arguments, *step.alternatives):
                needs = parents_of(step, arguments)
                if any(n not in chosen for n in needs):
                    left.append(arguments)
                    continue
                resolved = resolve(arguments, chosen)
                parents = tuple(dict.fromkeys(chosen[n] for n in needs))
                held = state.for_call(
                    call_digest(run_id=state.run_id, step=step.step, tool=step.tool, arguments=resolved, parents=parents)
                )
                if held is not None and not held.is_accepted:
                    is_changed = True
                    continue
                if held is not None and step.step not in chosen:
                    chosen[step.step] = held.id
                left.append(arguments)
            if not left:
                return None
            steps.append(step.model_copy(update={"arguments": left[0], "alternatives": tuple(left[1:])}))
        return plan.model_copy(update={"steps": tuple(steps)}) if is_changed else None


# --- reading ----------------------------------------------------------------------------------------------
# "which share of the water lies in the fields" is one of all the water, "which share of the fields is water" one of the fields.
_PART_OF_ALL = (
    r"\b(?:what|which|how large an?) (?:share|fraction|proportion|portion|part|percentage|percent|per cent|%) of "
    r"(?:the |all (?:of )?(?:the )?)?(?![^\ue000-\ue3ff]*\b(?:area|land|ground|image|scene|surface) )[^\ue000-\ue3ff]*?"
    r"\b(?:lies?|lying|falls?|stands?|(?:is|are|was|were)(?: found| located| situated)?) "
    r"(?:inside|within|in|outside|beyond|farther|further|less|more|not|near)\b"
)
# "does any field have a mean above 0.2", "are there fields with …": said of single polygons, not of all together.
_ANY_OF_THEM = (
    rf"\b(?:any|some|each|every|all|an?|one|single)\b(?: (?:single|one))?(?: of)?(?: the)? *{SIGN}|"
    rf"{SIGN} *(?:each |all |that |which )?(?:have|has|had|with|having|where|shows?)\b"
)
# Longer texts are refused: patterns of words take time by the square of their length.
LONGEST = 1500


def read_question(question: Question) -> Reading:
    """The form that a question's words fill. Never raises."""
    if (n := len(question.text)) > LONGEST:
        return Reading(None, f"The question has {n:,} characters; I read questions of up to {LONGEST:,}. Put it shortly.")
    two = two_figures(question.text)
    if two is None:
        return _read_one(question)
    if (two.how == "compare" or " difference in " in question.text.lower()) and (plain := _read_one(question)).form is not None:
        return plain
    one, other = (_read_one(question.model_copy(update={"text": text})) for text in (two.first, two.second))
    for reading, text in ((one, two.first), (other, two.second)):
        if reading.form is None:
            return replace(reading, reason=reading.reason.replace(can_do(text), can_do(question.text)))
    assert one.form is not None and other.form is not None
    second = other.form.model_dump(mode="json", exclude_defaults=True) | {"what": other.form.what}
    unit = one.form.unit or other.form.unit
    form = one.form.model_copy(update={"second": second, "second_as": two.how, "pick": two.pick, "unit": unit})
    guess = form.model_dump(mode="json")
    return Reading(form, warnings=tuple(dict.fromkeys((*one.warnings, *other.warnings))), guess=guess)


_UNTOLD = ("What is asked of them", "I cannot tell what")


def _read_one(question: Question) -> Reading:
    """The form of a question of one figure; where it is none and names an attribute, the reason says what attributes are for."""
    read = _read_words(question)
    if read.form is not None or read.code != "NO_ANSWER" or not any(v.fields for v in question.vectors):
        return read
    is_untold = read.reason.startswith(_UNTOLD)
    left = re.findall(r"“([^”]+)”", read.reason) if read.reason.startswith("I do not understand") else []
    if not is_untold and not left:
        return read
    told = attributes_told(question.text, question.vectors, plain_words(), left)
    if not told:
        return read
    return replace(read, reason=told if is_untold else f"{read.reason.removesuffix(can_do(question.text))}{told}")


def _read_words(question: Question) -> Reading:
    t = Text(spelled_out(band_first(question.text)))
    words = lexicon()
    guess: dict[str, Any] = {"what": "statistic"}
    warnings: list[str] = []
    if re.fullmatch(r"\W*(?:what(?:'s| is)|explain|define)\s+(?:an? )?[\w\-]+\W*", t.text) and not t.has(r"\bthe\b"):
        return Reading(None, "I measure on images; I do not explain terms. " + can_do(question.text), guess=guess)

    found = put_signs(t.text, question)
    if found.reason:
        return Reading(None, found.reason, "NO_ANSWER", dict(found.needs), guess=guess)
    warnings += found.warnings
    if found.parts:
        question = question.model_copy(update={"vectors": (*question.vectors, *found.parts)})
    ranked = rank_said(found.text)
    t.restart(ranked.text)
    scenes = scenes_named(t, question)
    roles = read_roles(t, found, question, ranked)
    if roles.refusal:
        return Reading(None, f"{roles.refusal} {can_do(question.text)}", guess=guess)
    clear = clear_said(t)
    t.take_all(r"\bunder (?=(?:the )?(?:water|snow|ice|vegetation|floods?|floodwater)\b)")
    thresholds = limits_said(t)
    quantities = names_in(
        t, [(w, n) for n, e in words.indices.items() for w in e.words] + [(w, n) for n, b in words.bands.items() for w in b.words]
    )
    numbered = _numbered_band(t, question)
    if isinstance(numbered, Reading):
        return numbered
    if numbered:
        quantities.append(numbered)
    is_not = _negated(t)
    targets, narrow = _targets(t)
    spans, is_period = dates_said(t)
    unit = _unit(t, question)
    quantity = quantities[0] if quantities else ""
    guess |= {
        "quantity": quantity,
        "target": targets[0] if targets else "",
        "unit": unit,
        "dates": [span_said(s) for s in spans],
        "scenes": scenes,
        "mask": clear,
    }
    if thresholds:
        guess |= {"threshold": thresholds[0].value, "side": thresholds[0].side}
    is_measured = roles.kind in ("measure", "distance")
    for word, hint in words.cannot.items():
        if t.has(rf"\b{re.escape(word)}\b"):
            return Reading(None, f"{hint} {can_do(question.text)}", guess=guess)
    if len(quantities) > 1:
        return Reading(
            None,
            f"Two indices or bands are named ({', '.join(words.title(q) for q in quantities)}); ask about one at a time.",
            guess=guess,
        )
    is_range = len(thresholds) == 2 and quantity and {h.side for h in thresholds} == {"above", "below"}
    if len(thresholds) > 1 and (not is_range or any(h.change for h in thresholds)):
        return Reading(None, "Two limits are named; ask with one at a time.", guess=guess)
    region = t.take(IN_REGION) or t.take(
        r"\b(?:in|within|inside|of|for|over)?\s*(?:the |this |my |a )?(?:selected|drawn|marked|given|highlighted|outlined) "
        r"(?:region|area|polygon|rectangle|box|part)\b|\b(?:in|within|inside|of|for) (?:the |this |my )?(?:polygon|"
        r"rectangle|bounding box|aoi|area of interest|region of interest|roi)\b"
    )
    if region and re.match(r"\W*(?:outside|not)\b", region[0]) and question.region is not None:
        return Reading(
            None,
            "What is drawn is what is looked at, not left out. Draw the region that is meant, or ask for what lies outside of "
            "the polygons of a vector file.",
            guess=guess,
        )
    if region and question.region is None:
        return Reading(
            None,
            "The question speaks of a region, but none is drawn. Draw it on the map or paste it, and ask again.",
            "NEEDS_REGION",
            {"region": True},
            guess=guess,
        )

    if is_not and (is_measured or roles.kind not in ("", "zone") or len(targets) != 1 or narrow or thresholds):
        reason = "“Not” is understood of one surface whose area or share is asked for: “what share is not water”."
        return Reading(None, reason, guess=guess)
    if is_measured:
        if quantity:
            return Reading(None, "Things are measured, or an index is; ask about one of the two.", guess=guess)
        if len(thresholds) > 1:
            return Reading(None, "Two limits are named; ask with one at a time.", guess=guess)
        bound = (thresholds[0].value, thresholds[0].side, thresholds[0].is_closed) if thresholds else None
        if thresholds and thresholds[0].unit:
            # "more than 10 ha of the fields" is a limit of their area, never of their number
            if dimension(thresholds[0].unit) != "area" or (unit and unit != thresholds[0].unit):
                return Reading(None, f"A limit in {thresholds[0].unit} is none of a number of things or of an area.", guess=guess)
            unit = thresholds[0].unit
        subject = next((v for v in question.vectors if roles.subject.split(":")[1:2] == [v.vector_id]), None)
        is_one = subject is not None and (subject.n == 1 or roles.subject.count(":") > 1)
        parts = {roles.subject, roles.reference, *roles.others, roles.each, *(w.reference for w in roles.where)}
        if spare := [n for n in targets if n not in parts]:
            reason = f"{_quoted([words.title(n) for n in spare])} is named, and I do not see what part it plays."
            return Reading(None, f"{reason} {can_do(question.text)}", guess=guess)
        read = measured_fields(t, roles, unit, bound, subject.noun if subject is not None else "", is_one=is_one)
        if isinstance(read, str):
            return Reading(None, read, guess=guess)
        if bound and read["what"] != "exists":
            return Reading(None, limit_not_understood(t.left_over(), subject), guess=guess)
        fields: dict[str, Any] | None = read
    elif roles.kind == "rows":
        told = of_rows(t, quantity, targets, thresholds, unit, roles.rows_as)
        if isinstance(told, str):
            return Reading(None, told, guess=guess)
        fields = told
    elif roles.kind == "which":
        fields = of_zones(t, quantity, targets, thresholds, unit)
    else:
        asked = intent_of(t, question, quantity, targets, thresholds, spans, unit, is_compared=roles.kind == "compare")
        if isinstance(asked, str):
            return Reading(None, asked, guess=guess)
        fields = asked
    if fields is None:
        return Reading(None, "I cannot tell what is to be measured. " + can_do(question.text), guess=guess)
    is_turned = bool(fields.pop("is_turned", False))
    guess |= {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}
    t.take_all(
        r"\b(?:over|across|during|throughout|through|along) (?:the )?(?:time|years|months|series|period|dates|whole period|scene|"
        r"image|area|region)\b|\btime series\b|\bseries\b"
    )
    n_dates = len({x.acquired_at.date() for x in question.scenes if x.acquired_at})
    t.take_all(
        rf"\b(?:over|across|of|for|from|between) (?:all |both )?(?:the |these |of the )?(?:{n_dates} )?dates\b|\bboth dates\b"
    )
    if not re.match(r"\W*(?:is|are|was|were|does|do|did|has|have)\b", t.text):
        t.take_all(r"\ball\b")
    t.take_all(r"\b(?:the )?two (?:dates|images|scenes|pictures|days|times)\b|\b(?:which|the|this) one\b")
    if (roles.zones or region) and fields["what"] == "share" and targets and t.said(_PART_OF_ALL):
        title = words.title(targets[0])
        reason = (
            f"The share that lies there of all {title} in the image, or the share of the ground there? I tell the second: write "
            f"“what share of … is {title}”. For the first, ask for the area there and for that in the whole image."
        )
        return Reading(None, reason, guess=guess)
    if quantity and thresholds and not targets and {fields["what"], fields.get("of")} & {"area", "share"}:
        # "the area where NDVI is above 0.4"
        t.take(r"\bwhere (?=(?:the )?\0)")
    if roles.zones:
        if fields["what"] == "exists" and not thresholds and not t.said(r"\b(?:any|there|some|contains?|has|have)\b"):
            reason = "Is there any of it, or is all of it so? Ask whether there is any, or which share it is."
            return Reading(None, reason, guess=guess)
        several = next((v.n > 1 for v in question.vectors if f"vector:{v.vector_id}" in roles.zones), False)
        if fields["what"] == "exists" and thresholds and several and t.said(_ANY_OF_THEM):
            reason = (
                "Any of them, each of them, or all taken together? Write “how many … have …” for the first two, and “is the … "
                "inside … above …” for the third."
            )
            return Reading(None, reason, guess=guess)
        zones = roles.zones[::-1] if is_turned else roles.zones
        fields |= {"zones": zones, "buffer_m": roles.buffer_m, "is_outside": roles.is_outside}
        if roles.each:
            fields |= {"each": "zones", "by": roles.by}
        if fields["what"] == "zone":
            fields |= {"by": roles.by, "rank": roles.rank, "top": roles.top}
        loose = r"(?:the )?(?:ones?|both|either)" if roles.kind == "compare" else r"(?:the ones?|taken together|together)"
        t.take_all(rf"\b{loose}\b")
    left = t.left_over()
    if left == ["not"] and thresholds:
        reason = "“Not” before a limit turns it round: write “at most” for “not above”, and “at least” for “not below”."
        return Reading(None, reason, guess=guess)
    if left:
        return Reading(
            None,
            f"I do not understand {_quoted(left)} here, and leaving it out could answer another question. "
            f"{can_do(question.text)}",
            guess=guess,
        )
    most = 2 if fields["what"] == "distance" else len(targets) if fields["what"] == "compare" or is_measured else 1
    if len(targets) > most:
        return Reading(
            None,
            f"Several things are named ({', '.join(words.title(n) for n in targets)}); ask about one at a time, or "
            "which of them is larger.",
            guess=guess,
        )
    if clear:
        fields["mask"] = clear
    if is_measured:
        try:
            form = Form.model_validate(fields | {"scenes": tuple(scenes), "dates": tuple(span_said(s) for s in spans)})
        except ValidationError as error:
            field = error.errors()[0]["loc"][:1]
            what = f"{field[0]}: {error.errors()[0]['msg']}" if field else error.errors()[0]["msg"]
            return Reading(None, f"The question says more than a plan can hold ({what}). Ask for a part of it.", guess=guess)
        named = (form.target, form.reference, *form.others, *(w.reference for w in form.where))
        if spans and all(not key or is_thing(key) for key in named):
            # a date that chooses nothing would be left out of the answer without a word
            reason = "A date chooses images, and only vector files are asked of. If an attribute holds it, write “where … = …”."
            return Reading(None, reason, guess=guess)
        warnings += [words.targets[n].warning for n in narrow if n in words.targets and words.targets[n].warning]
        return Reading(form, warnings=tuple(dict.fromkeys(warnings)), guess=guess)
    if is_not:
        fields["is_not"] = True
    form = form_of(question, fields, quantity, targets, thresholds, spans, is_period, unit, scenes)
    if form.threshold is not None and (limit := thresholds[0]).unit:
        is_share = limit.unit == "%" and quantity in words.indices
        if not is_share and (quantity, limit.unit) != ("elevation", "m"):
            return Reading(
                None,
                f"A limit in {limit.unit} does not fit {words.title(quantity) or 'this'}; give the number in its own unit.",
                guess=guess,
            )
    if form.what == "count" and t.said(r"\bhow many pixels\b"):
        return Reading(None, "I do not count pixels: ask for the area or for the share of the valid pixels.", guess=guess)
    for name in narrow:
        entry = words.targets.get(name)
        if entry is not None and entry.warning:
            warnings.append(entry.warning)
    if form.target == "burned" and words.targets["burned"].warning not in warnings:
        warnings.append(words.targets["burned"].warning)
    return Reading(form, warnings=tuple(dict.fromkeys(warnings)), guess=guess)


def _numbered_band(t: Text, question: Question) -> str | Reading:
    """'band 4' is the role of that band, where all scenes say the same."""
    m = t.take(r"\bband (\d{1,3})\b")
    if not m:
        return ""
    roles = {b.role for s in question.scenes for b in s.bands if b.index == int(m[1])}
    if len(roles) == 1 and (role := next(iter(roles))) in lexicon().bands:
        return role
    return Reading(
        None,
        f"What band {m[1]} is, is not known. Say what it shows (red, near infrared, …) and ask again.",
        "NEEDS_BANDS",
        {"roles": []},
        guess={"what": "statistic"},
    )


_NOT = (
    r"\b(?:(?:is |are |was |were )?not|isn't|aren't|other than|anything but|without|except(?: for)?|excluding)"
    r"(?: covered (?:by|with))?(?: (?:the|any))? *$"
)


def _negated(t: Text) -> bool:
    """Whether the one target that is named stands behind "not" or "without": 'how much is not water'. Read then. "The water area
    excluding ponds" names two, and is no such question."""
    spans = spans_at(t)
    m = re.search(_NOT, t.rest[: min(spans)]) if len(spans) == 1 else None
    if m is not None:
        t.mark(*m.span())
    return m is not None


def _targets(t: Text) -> tuple[list[str], list[str]]:
    """(targets in order, those among them that were named by a narrower word)."""
    words = lexicon()
    entries = [(w, n) for n, e in words.targets.items() for w in (*e.words, *e.narrower)]
    entries += [(w, n) for n, o in words.objects.items() for w in o.words]
    narrow = [n for n, e in words.targets.items() for w in e.narrower if t.has(rf"(?<![\w\-]){re.escape(w)}(?![\w\-])")]
    classes = [(m.start(), f"class {m[1]}") for m in t.take_all(r"\bclass (\d{1,5})\b")]
    named = names_in(t, entries)
    return [*named, *(name for _, name in classes)], list(dict.fromkeys(n for n in narrow if n in named))


def _unit(t: Text, question: Question) -> str:
    """The unit asked for; of a multiple choice also the one that all its numbers have."""
    if t.take(r"\bper decade\b"):
        return "1/decade"
    m = (
        t.take(rf"\b(?:how many|what number of|number of)\s+{UNIT}(?:\s+of\b)?")
        or t.take(rf"\b(?:expressed |given |measured )?(?:in|as)\s+(?:a\s+|an\s+)?{UNIT}")
        or t.take(rf"\(\s*(?:in\s+)?{UNIT}\s*\)")
        or t.take(r"\b(?:what|which)\s+(?P<unit>percentage|percent|per cent|%)(?!\w)")
        or t.take(r"\b(?P<unit>percentage)\b(?!\s+(?:change|points?))")
    )
    if m:
        return unit_of(m["unit"]) or ""
    found = {
        unit_of(u[0] if isinstance(u, tuple) else u)
        for text in question.choices.values()
        for u in re.findall(rf"\d\s*({UNIT_PATTERN})(?![\w²^])", text.lower())
    }
    return next(iter(found)) or "" if len(found) == 1 else ""


# --- what is asked ----------------------------------------------------------------------------------------


def _quoted(words: list[str]) -> str:
    shown = ", ".join(f"“{w}”" for w in list(dict.fromkeys(words))[:5])
    return shown
