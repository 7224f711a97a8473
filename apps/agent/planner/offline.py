"""The offline planner: English questions → form → plan, without a model and always the same.

Every word of a question must be understood. What is left over after dates, thresholds, units, indices,
targets and the words of the question itself were read makes the planner refuse, since an ignored word ("the
*forest's* mean NDVI") gives a number that looks right and answers another question. File names and metadata
are compared with the question's words, never read as words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from apps.agent.arguments import call_digest, parents_of, resolve
from apps.agent.dates import DateSpan
from apps.agent.planner.analysis_plans import plan_analysis
from apps.agent.planner.conditions import rank_said, two_figures
from apps.agent.planner.fields import CAN_DO, Form
from apps.agent.planner.form import plan_from_form
from apps.agent.planner.landmarks import plan_landmarks
from apps.agent.planner.lexicon import lexicon
from apps.agent.planner.measures import measured_fields, read_roles
from apps.agent.planner.places import plan_place
from apps.agent.planner.spatial import put_signs
from apps.agent.planner.stated import CLEAR, IN_REGION, dates_said, scenes_named, span_said
from apps.agent.planner.text import Text
from apps.agent.units import UNIT_PATTERN, dimension, unit_of
from apps.core.evidence.fold import RunState
from apps.core.evidence.observation import TaskRef
from apps.core.evidence.plan import Plan, Question

_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?|\.\d+)"
_YEAR = r"(?:19|20)\d\d"
_ABOVE = (
    r"no less than|not less than|at least|greater than or equal to|greater than|higher than|more than|larger than|bigger than|"
    r"above|exceeding|exceeds?|over(?!\s+(?:19|20)\d\d\b)|>=|≥|>"
)
_BELOW = (
    r"no more than|not more than|at most|less than or equal to|less than|lower than|smaller than|fewer than|not exceeding|"
    r"below|under|<=|≤|<"
)
_CLOSED = re.compile(r"no less|not less|at least|equal|>=|≥|no more|not more|at most|<=|≤|not exceed")
# the longest reading of a unit wins, and a unit ends where its word ends
_UNIT = rf"(?P<unit>{UNIT_PATTERN})(?![\w²^])"
_DROP = (
    r"disappear(?:s|ed)?|vanish(?:es|ed)?|shrank|shrunk|shrinks?|recede[sd]?|drop(?:s|ped)?|"
    r"decreas(?:e|es|ed)|declin(?:e|es|ed)|f(?:a|e)ll(?:s|en)?|loss(?:es)?|los(?:t|e)|reduc(?:tion|ed)"
)
_RISE = r"expand(?:s|ed)?|ris(?:e|es|en)|rose|increas(?:e|es|ed)|gain(?:s|ed)?|growth|gr(?:ew|own?|ows)"
_CHANGE = r"chang(?:e|es|ed)|differ(?:ence|ences|s)?"
_MOST = r"largest|larger|biggest|bigger|highest|higher|greatest|greater|most|more|maximum|maximal|peak"
_LEAST = r"smallest|smaller|lowest|lower|least|less|fewest|fewer|minimum|minimal"


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
            return plan_from_form(question)
        special = (
            plan_place(question, self.name) or plan_landmarks(question, self.name) or plan_analysis(question, self.name)
        )
        if special is not None:
            return special
        reading = read_question(question)
        if reading.form is None:
            return Plan(
                task=TaskRef(task_type="situation_analysis", question=question.text, answer_form="text"),
                planner=self.name,
                reason=reading.reason,
                code=reading.code,
                needs=reading.needs,
                warnings=reading.warnings,
                form=reading.guess,
            )
        return plan_from_form(question, reading.form, warnings=reading.warnings)

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
@dataclass(slots=True)
class _Threshold:
    value: float
    side: str
    is_closed: bool
    unit: str
    change: str
    at: int


def read_question(question: Question) -> Reading:
    """The form that a question's words fill. Never raises."""
    two = two_figures(question.text)
    if two is None:
        return _read_one(question)
    if two.how == "compare" and (plain := _read_one(question)).form is not None:
        return plain
    one, other = (_read_one(question.model_copy(update={"text": text})) for text in (two.first, two.second))
    for reading in (one, other):
        if reading.form is None:
            return reading
    assert one.form is not None and other.form is not None
    second = other.form.model_dump(mode="json", exclude_defaults=True) | {"what": other.form.what}
    unit = one.form.unit or other.form.unit
    form = one.form.model_copy(update={"second": second, "second_as": two.how, "pick": two.pick, "unit": unit})
    guess = form.model_dump(mode="json")
    return Reading(form, warnings=tuple(dict.fromkeys((*one.warnings, *other.warnings))), guess=guess)


def _read_one(question: Question) -> Reading:
    """The form of a question of one figure."""
    t = Text(question.text)
    words = lexicon()
    guess: dict[str, Any] = {"what": "statistic"}
    warnings: list[str] = []
    if re.fullmatch(r"\W*(?:what(?:'s| is)|explain|define)\s+(?:an? )?[\w\-]+\W*", t.text) and not t.has(r"\bthe\b"):
        return Reading(None, "I measure on images; I do not explain terms. " + CAN_DO, guess=guess)

    found = put_signs(t.text, question)
    if found.reason:
        return Reading(None, found.reason, "NO_ANSWER", dict(found.needs), guess=guess)
    ranked = rank_said(found.text)
    t.restart(ranked.text)
    scenes = scenes_named(t, question)
    roles = read_roles(t, found, question, ranked)
    if roles.refusal:
        return Reading(None, f"{roles.refusal} {CAN_DO}", guess=guess)
    is_clear = bool(t.take_all(CLEAR))
    t.take_all(r"\bunder (?=(?:the )?(?:water|snow|ice|vegetation|floods?|floodwater)\b)")
    thresholds = _thresholds(t)
    quantities = _names(
        t, [(w, n) for n, e in words.indices.items() for w in e.words] + [(w, n) for n, b in words.bands.items() for w in b.words]
    )
    numbered = _numbered_band(t, question)
    if isinstance(numbered, Reading):
        return numbered
    if numbered:
        quantities.append(numbered)
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
        "mask": "clear" if is_clear else "",
    }
    if thresholds:
        guess |= {"threshold": thresholds[0].value, "side": thresholds[0].side}
    is_measured = roles.kind in ("measure", "distance")
    for word, hint in words.cannot.items():
        if t.has(rf"\b{re.escape(word)}\b"):
            return Reading(None, f"{hint} {CAN_DO}", guess=guess)
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
        read = measured_fields(t, roles, unit, bound, subject.noun if subject is not None else "", is_one=is_one)
        if isinstance(read, str):
            return Reading(None, read, guess=guess)
        if bound and read["what"] != "exists":
            return Reading(None, "A limit belongs to a question of yes or no here.", guess=guess)
        fields: dict[str, Any] | None = read
    elif roles.kind == "rows":
        told = _of_rows(t, quantity, targets, thresholds, unit, roles.rows_as)
        if isinstance(told, str):
            return Reading(None, told, guess=guess)
        fields = told
    elif roles.kind == "which":
        fields = _of_zones(t, quantity, targets, thresholds, unit)
    else:
        fields = _intent(t, question, quantity, targets, thresholds, spans, unit, is_compared=roles.kind == "compare")
    if fields is None:
        return Reading(None, "I cannot tell what is to be measured. " + CAN_DO, guess=guess)
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
    if roles.zones:
        fields |= {"zones": roles.zones, "buffer_m": roles.buffer_m, "is_outside": roles.is_outside}
        if roles.each:
            fields |= {"each": "zones", "by": roles.by}
        if fields["what"] == "zone":
            fields |= {"by": roles.by, "rank": roles.rank, "top": roles.top}
        loose = r"(?:the )?(?:ones?|both|either)" if roles.kind == "compare" else r"(?:the ones?|taken together|together)"
        t.take_all(rf"\b{loose}\b")
    left = t.left_over()
    if left:
        return Reading(
            None,
            f"I do not understand {_quoted(left)} here, and leaving it out could answer another question. {CAN_DO}",
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
    if is_clear:
        fields["mask"] = "clear"
    if is_measured:
        form = Form.model_validate(fields | {"scenes": tuple(scenes), "dates": tuple(span_said(s) for s in spans)})
        warnings += [words.targets[n].warning for n in narrow if n in words.targets and words.targets[n].warning]
        return Reading(form, warnings=tuple(dict.fromkeys(warnings)), guess=guess)
    form = _form(question, fields, quantity, targets, thresholds, spans, is_period, unit, scenes)
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


def _thresholds(t: Text) -> list[_Threshold]:
    """Comparisons with a number; in 'a drop in NDVI of more than 0.2' it is one of a change. 'between 0.2 and 0.4' is two."""
    out = []
    tail = rf"(?:\s*{_UNIT})?"
    number = rf"(?P<number>{_NUMBER})(?![\d.]|[-/]\d)"
    between = (
        rf"\b(?:between|from)\s+(?!{_YEAR}\b)(?P<low>{_NUMBER})(?![\d.]|[-/]\d)\s*%?\s*(?:and|to|-)\s*(?!{_YEAR}\b){number}{tail}"
    )
    for span in t.take_all(between):
        unit = unit_of(span["unit"] or "") or ""
        out.append(_Threshold(_value_of(span["low"]), "above", True, unit, "", span.start()))
        out.append(_Threshold(_value_of(span["number"]), "below", True, unit, "", span.start() + 1))
    first = rf"(?<!\w)(?P<op>{_ABOVE}|{_BELOW})(?P<mid>(?:\s+(?:an?|the|of|{_index_words()}))*)\s*{number}{tail}"
    second = (
        rf"(?<![\w.]){number}{tail}\s*(?P<mid>)(?P<op>or (?:more|above|higher|greater|over|less|below|lower|fewer)|"
        r"and (?:above|more|below|less))\b(?!\s*[\d.])"
    )
    for pattern, is_closed in ((second, True), (first, False)):
        while (m := t.find(pattern)) is not None:
            op = m["op"]
            # the index that stands between is left to be read as one
            t.mark(m.start(), m.start("mid"))
            t.mark(m.end("mid"), m.end())
            is_below = re.search(rf"{_BELOW}|\bless|\blower|\bfewer", op) and not re.search(r"no less|not less", op)
            side = "below" if is_below else "above"
            closed = is_closed or bool(_CLOSED.search(op))
            unit = unit_of(m["unit"] or "") or ""
            out.append(_Threshold(_value_of(m["number"]), side, closed, unit, _change_before(t, m.start()), m.start()))
    return sorted(out, key=lambda h: h.at)


def _value_of(number: str) -> float:
    """1,000 is a thousand; 0,4 is a decimal number."""
    if re.fullmatch(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", number):
        return float(number.replace(",", ""))
    return float(number.replace(",", "."))


@lru_cache(maxsize=1)
def _index_words() -> str:
    """A pattern of all words for indices and bands, longest first."""
    words = lexicon()
    named = [*(w for i in words.indices.values() for w in i.words), *(w for b in words.bands.values() for w in b.words)]
    return "|".join(re.escape(w) for w in sorted(named, key=len, reverse=True))


def _change_before(t: Text, at: int) -> str:
    """drop or rise where such a word governs the number at ``at``: nothing but small words and an index
    stand between.
    """
    m = re.search(rf"\b(?P<word>{_DROP}|{_RISE})(?P<tail>(?:\s+(?:in|of|by|the|its|a|mean|{_index_words()}))*\s*)$", t.rest[:at])
    if m is None:
        return ""
    t.mark(*m.span("word"))
    return "drop" if re.fullmatch(_DROP, m["word"]) else "rise"


def _names(t: Text, entries: Iterable[tuple[str, str]]) -> list[str]:
    """Names whose words stand in the text, longest words first, in the order of the text; each once."""
    found: list[tuple[int, str]] = []
    for word, name in sorted(entries, key=lambda e: (-len(e[0]), e[0])):
        for m in t.take_all(rf"(?<![\w\-]){re.escape(word)}(?:'s)?(?![\w\-])"):
            found.append((m.start(), name))
    return list(dict.fromkeys(name for _, name in sorted(found)))


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


def _targets(t: Text) -> tuple[list[str], list[str]]:
    """(targets in order, those among them that were named by a narrower word)."""
    words = lexicon()
    entries = [(w, n) for n, e in words.targets.items() for w in (*e.words, *e.narrower)]
    entries += [(w, n) for n, o in words.objects.items() for w in o.words]
    narrow = [n for n, e in words.targets.items() for w in e.narrower if t.has(rf"(?<![\w\-]){re.escape(w)}(?![\w\-])")]
    classes = [(m.start(), f"class {m[1]}") for m in t.take_all(r"\bclass (\d{1,5})\b")]
    named = _names(t, entries)
    return [*named, *(name for _, name in classes)], list(dict.fromkeys(n for n in narrow if n in named))


def _unit(t: Text, question: Question) -> str:
    """The unit asked for; of a multiple choice also the one that all its numbers have."""
    if t.take(r"\bper decade\b"):
        return "1/decade"
    m = (
        t.take(rf"\b(?:how many|what number of|number of)\s+{_UNIT}(?:\s+of\b)?")
        or t.take(rf"\b(?:expressed |given |measured )?(?:in|as)\s+(?:a\s+|an\s+)?{_UNIT}")
        or t.take(rf"\(\s*(?:in\s+)?{_UNIT}\s*\)")
        or t.take(r"\b(?:what|which)\s+(?P<unit>percentage|percent|per cent|%)(?!\w)")
        or t.take(r"\b(?P<unit>percentage)\b(?!\s+change)")
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
def _intent(
    t: Text,
    question: Question,
    quantity: str,
    targets: list[str],
    thresholds: list[_Threshold],
    spans: list[DateSpan],
    unit: str,
    *,
    is_compared: bool = False,
) -> dict[str, Any] | None:
    """The fields that the words of the question itself give; None where they give none. ``is_compared``: of several areas."""
    words = lexicon()
    statistic = _statistic(t) if quantity or not targets else ""
    is_object = bool(targets) and targets[0] in words.objects
    share = (
        t.take(r"\b(?:what |which )?(?:share|fraction|proportion|portion|percentage|percent|per cent|part)\b(?! change)|%")
        is not None
    )
    share = share or (unit == "%")
    of = _of(t, quantity, targets, thresholds, unit, share, statistic)

    # distance
    if t.take(
        r"\bhow (?:far|close)(?: apart)?\b|\b(?:the )?distances?\b|\bhow many (?:km|metres|meters|m|kilometres|kilometers)\b"
    ) or (dimension(unit) == "length" and len(targets) == 2):
        which = "minimum"
        if t.take(r"\b(?:shortest|closest|nearest|minimum|smallest|least)\b"):
            which = "minimum"
        elif t.take(r"\b(?:longest|largest|maximum|farthest|furthest|greatest)\b"):
            which = "maximum"
        elif statistic == "mean" or t.take(r"\b(?:mean|average)\b"):
            which = "mean"
        if statistic in ("min", "max"):
            which = "minimum" if statistic == "min" else "maximum"
        t.take_all(r"\b(?:away|apart|shortest|straight|line)\b")
        return {"what": "distance", "distance_statistic": which}
    # trend
    if t.take(
        r"\b(?:linear |temporal |annual |yearly )?(?:trends?|slope|rate of change)\b|\bper year\b|"
        r"\b(?:increasing or decreasing|decreasing or increasing)\b"
    ):
        t.take_all(r"\blinear\b|\bper year\b|\bannual\b|\bmean\b|\bannually\b")
        return {"what": "trend", "of": "statistic" if quantity else of, "statistic": statistic or "mean"}
    # area or share with a drop or rise by more than a number
    change = next((h.change for h in thresholds if h.change), "")
    is_yes_no = re.match(r"\W*(?:is|are|was|were|does|do|did|has|have)\b", t.text) is not None
    if change and is_yes_no and not share and dimension(unit) != "area" and not t.said(r"\b(?:area|areas|any|pixels?|land)\b"):
        t.take_all(r"\bby\b")
        return {"what": "difference", "of": "statistic", "statistic": statistic or "mean", "change": change}
    if change:
        t.take_all(r"\bby\b|\bwhere\b|\bhow large\b|\bhow big\b")
        return {"what": "share" if share else "area", "change": change}
    # date
    if t.take(
        r"\b(?:on |at |in )?(?:which|what) (?:date|day|time|month|acquisition)\b(?: of the year)?|^\W*when\b|"
        r"\b(?:what(?:'s| is| was)|give me|find) the (?:date|day)\b"
    ):
        pick = _pick(t, statistic)
        if pick is None:
            return None
        return {"what": "date", "of": of, "pick": pick, "statistic": statistic if statistic not in ("", "min", "max") else "mean"}
    if is_compared:
        return _of_areas(t, of, statistic)
    # yes or no: exactly a beginning of that kind
    compared = _comparison(t, question, quantity, targets, spans, of, statistic)
    if compared is not None:
        return compared
    # difference
    relative = t.take(
        r"\b(?:percentage|percent|per cent|relative|%) (?:change|difference|increase|decrease|growth|loss)\b|"
        r"\bby (?:what|how many) (?:percentage|percent|per cent|%)"
    )
    if relative or t.take(rf"\b(?:{_CHANGE})\b"):
        t.take_all(rf"\b(?:{_DROP}|{_RISE}|{_CHANGE})\b|\bby\b|\bhow\b")
        return {
            "what": "difference",
            "of": "share" if of == "share" and not relative else "area" if relative and of == "share" else of,
            "statistic": statistic or "mean",
            "is_relative": bool(relative),
        }
    if t.take(rf"\b(?:{_DROP}|{_RISE})\b"):
        t.take_all(r"\bby\b")
        return {"what": "difference", "of": of, "statistic": statistic or "mean"}
    # is there any
    if re.match(r"\W*(?:is|are|was|were|does|do|did|can|has|have)\b", t.text):
        t.take_all(r"\b(?:any|at all|some)\b")
        if (
            quantity
            and not targets
            and not t.said(r"\b(?:any|some|area|areas|pixels?|parts?|land|there|contain|contains|have|has)\b")
        ):
            of = "statistic"
        return {"what": "exists", "of": of if (targets or thresholds) else "statistic", "statistic": statistic or "mean"}
    # count, share, area, statistic
    if quantity and targets and statistic:
        return {"what": "statistic", "statistic": statistic}
    if is_object and (t.said(r"\bhow many\b|\bnumber of\b|\bcount\b") and not unit):
        t.take_all(r"\bcounts?\b|\bobjects?\b")
        return {"what": "count"}
    if t.said(r"\bhow many\b") and not unit and not is_object and not (targets or thresholds):
        return None
    if of == "share":
        t.take_all(r"\bhow much\b")
        return {"what": "share"}
    if of == "area" and (targets or thresholds):
        if t.said(r"\bhow many\b") and not unit:
            return {"what": "count"}
        is_named = t.take_all(r"\bhow (?:much|large|big|extensive|wide)\b|\bareas?\b|\bextent\b|\bsize\b|\bsurface\b")
        return {"what": "area"} if is_named or unit or t.said(r"\b(?:area|extent)\b") else None
    if quantity:
        return {"what": "statistic", "statistic": statistic or "mean"}
    return None


def _of_zones(
    t: Text, quantity: str, targets: list[str], thresholds: list[_Threshold], unit: str
) -> dict[str, Any] | None:
    """Which polygon of a file has the most or least of something; None where two words could pick it."""
    if len(re.findall(rf"\b(?:{_MOST}|{_LEAST}|min|max)\b", t.rest)) > 1:
        return None
    statistic = _statistic(t) if quantity or not targets else ""
    share = t.take(r"\b(?:share|fraction|proportion|portion|percentage|percent|per cent|part)\b|%") is not None or unit == "%"
    of = _of(t, quantity, targets, thresholds, unit, share, statistic)
    sign = "drop" if t.take_all(rf"\b(?:{_DROP})\b") else "rise" if t.take_all(rf"\b(?:{_RISE})\b") else ""
    is_change = bool(t.take_all(rf"\b(?:{_CHANGE})\b")) or bool(sign)
    pick = _pick(t, statistic)
    if pick is None or of == "count":
        return None
    if is_change:
        t.take_all(rf"\b(?:{_MOST}|{_LEAST}|in|of)\b")
        rest = statistic if statistic not in ("", "min", "max") else "mean"
        return {"what": "zone", "of": of, "pick": pick, "statistic": rest, "is_change": True, "change_sign": sign}
    # "the highest mean NDVI": one word picks, the other is the statistic
    rest = _statistic(t) if statistic in ("min", "max", "") else statistic
    t.take_all(rf"\b(?:{_MOST}|{_LEAST})\b")
    return {"what": "zone", "of": of, "pick": pick, "statistic": rest if rest not in ("", "min", "max") else "mean"}


def _of_rows(
    t: Text, quantity: str, targets: list[str], thresholds: list[_Threshold], unit: str, rows_as: str
) -> dict[str, Any] | str | None:
    """How many, or which, of a file's polygons have a figure of the image beyond a number: "have a mean NDVI above 0.5", "have
    more than 10 ha of water". A text says why there is none."""
    if len(thresholds) != 1 or thresholds[0].change:
        return "Beyond which number? Write, say, “how many fields have a mean NDVI above 0.5”." if not thresholds else None
    limit = thresholds[0]
    statistic = _statistic(t) if quantity and not targets else ""
    t.take_all(r"\b(?:an?|of|covered|cover|share|percentage|areas?|value)\b")
    value, of = limit.value, "statistic"
    if targets:
        if dimension(limit.unit) == "area":
            of, unit = "area", limit.unit
        elif limit.unit == "%":
            of, value = "share", limit.value / 100
        else:
            return "More of it by area or by share? Write “more than 10 ha of water”, or “more than 20 % water”."
    elif not quantity:
        return None
    thresholds.clear()
    op = (">" if limit.side == "above" else "<") + ("=" if limit.is_closed else "")
    out: dict[str, Any] = {"what": of, "limit": value, "limit_op": op, "rows_as": rows_as, "unit": unit if of == "area" else ""}
    return out | ({"statistic": statistic or "mean"} if of == "statistic" else {})


def _of_areas(t: Text, of: str, statistic: str) -> dict[str, Any] | None:
    """Which of several named areas has more of something, or by how much they differ."""
    if of == "count":
        return None
    if t.take_all(r"\b(?:differ(?:ence|ences|s)?|compared?|contrast)\b"):
        statistic = statistic if statistic not in ("", "min", "max") else "mean"
        return {"what": "difference", "of": of, "statistic": statistic}
    pick = _pick(t, statistic)
    t.take_all(rf"\b(?:{_MOST}|{_LEAST})\b|\bwhich(?: (?:one|area|polygon|zone|place|of (?:the )?(?:two|them)))?\b")
    statistic = statistic if statistic not in ("", "min", "max") else "mean"
    return {"what": "compare", "of": of, "pick": pick, "statistic": statistic} if pick else None


def _of(t: Text, quantity: str, targets: list[str], thresholds: list[_Threshold], unit: str, share: bool, statistic: str) -> str:
    """What is measured of one scene."""
    if not share and t.take(r"\bhow much of (?:the |this )?(?:image|scene|area|region|picture|land|surface|ground)\b"):
        share = True
    if targets and targets[0] in lexicon().objects:
        return "count"
    if dimension(unit) == "area":
        return "area"
    if share:
        return "share"
    if thresholds and t.said(r"\b(?:area|extent|surface)\b"):
        return "area"
    if quantity and not targets and (statistic or not thresholds):
        return "statistic"
    return "area" if targets or thresholds else "statistic"


def _statistic(t: Text) -> str:
    if t.take(r"\b(?:standard deviations?|std(?:dev)?|variability)\b"):
        return "std"
    if t.take(r"\b(?:mean|average|averaged)\b"):
        return "mean"
    if t.take(r"\bmedian\b"):
        return "median"
    if t.take(r"\b(?:minimum|minimal|min|lowest|smallest)\b"):
        return "min"
    if t.take(r"\b(?:maximum|maximal|max|highest|largest|peak)\b"):
        return "max"
    return ""


def _pick(t: Text, statistic: str) -> str | None:
    """max or min, by superlatives or comparatives; ``statistic`` may have read the word already."""
    if t.take(rf"\b(?:{_LEAST})\b"):
        return "min"
    if t.take(rf"\b(?:{_MOST})\b"):
        return "max"
    return {"min": "min", "max": "max"}.get(statistic)


def _comparison(
    t: Text, question: Question, quantity: str, targets: list[str], spans: list[DateSpan], of: str, statistic: str
) -> dict[str, Any] | None:
    """Which of two is larger, or is one larger than the other."""
    comparatives = r"larger|bigger|higher|greater|more|smaller|lower|less|fewer"
    is_main = not targets and not quantity and t.take(r"\b(?:main|dominant|prevailing|predominant|most common)\b") is not None
    is_what = len(targets) > 1 and t.has(r"\bwhat(?:'s| is| was)?\b") and t.has(rf"\b(?:{comparatives})\b")
    is_which = is_main or is_what or (t.has(r"\bwhich\b") and t.said(rf"\b(?:{_MOST}|{_LEAST})\b"))
    is_yes_no = (
        re.match(r"\W*(?:is|are|was|were|does|do|did|has|have)\b", t.text) is not None
        and t.has(rf"\b(?:{comparatives})\b")
        and (len(targets) > 1 or len(spans) > 1)
    )
    if not is_which and not is_yes_no:
        return None
    if is_which and t.has(r"\bwhich (?:of the following )?(?:statement|answer)\b"):
        return None
    pick = _pick(t, statistic) or ("max" if is_main else None)
    if len(targets) > 1:
        t.take_all(rf"\b(?:{_MOST if pick == 'max' else _LEAST})\b")
    if pick is None:
        return None
    t.take_all(
        r"\bwhich(?: of (?:the |these )?(?:two |three |following |\w+ )?(?:dates|days|times)?)?\b|\bland[ -]?cover\b|"
        r"\bclass(?:es)?\b|\b(?:type|target|object|surface type)s?\b"
    )
    if statistic in ("min", "max", "") or (of != "statistic"):
        statistic = "mean"
    out: dict[str, Any] = {"what": "compare", "pick": pick, "of": of, "statistic": statistic}
    if len(targets) > 1:
        out |= {"reference": targets[1], "others": targets[2:]}
    elif not targets and not quantity and question.choices:
        named = [
            _names(Text(text), [(w, n) for n, e in lexicon().targets.items() for w in (*e.words, *e.narrower)])
            for text in question.choices.values()
        ]
        if len(named) < 2 or any(len(n) != 1 for n in named):
            return None
        flat = list(dict.fromkeys(n[0] for n in named))
        if len(flat) < 2:
            return None
        out |= {"target": flat[0], "reference": flat[1], "others": flat[2:], "of": "share"}
    return out


def _form(
    question: Question,
    fields: dict[str, Any],
    quantity: str,
    targets: list[str],
    thresholds: list[_Threshold],
    spans: list[DateSpan],
    is_period: bool,
    unit: str,
    scenes: list[str],
) -> Form:
    out: dict[str, Any] = {"quantity": quantity, "target": targets[0] if targets else "", "scenes": tuple(scenes), "unit": unit}
    out.update(fields)
    what = out["what"]
    if what == "distance" and len(targets) > 1:
        out["reference"] = targets[1]
    is_pair = what in ("difference", "compare") or bool(out.get("change") or out.get("is_change"))
    if is_period and not is_pair:
        out["dates"] = (
            (span_said(DateSpan(spans[0].start, spans[1].end, (0, 0))),)
            if not (spans[0].month_only or spans[1].month_only)
            else tuple(span_said(s) for s in spans)
        )
    else:
        out["dates"] = tuple(span_said(s) for s in spans)
    if thresholds:
        limit = next((h for h in thresholds if h.side == "above"), thresholds[0]) if len(thresholds) > 1 else thresholds[0]
        value = limit.value / 100 if limit.unit == "%" else limit.value
        if what == "difference" and out.get("change"):
            falls = out.pop("change") == "drop"
            out |= {"limit": -value if falls else value, "limit_op": ("<" if falls else ">") + ("=" if limit.is_closed else "")}
        elif what == "exists" and (not quantity or (not targets and out.get("of") == "statistic")):
            out |= {"limit": value, "limit_op": (">" if limit.side == "above" else "<") + ("=" if limit.is_closed else "")}
            if limit.unit == "%" and out["of"] == "area":
                out["of"] = "share"
            if dimension(limit.unit) == "area":
                out |= {"limit": limit.value, "of": "area", "unit": limit.unit}
        else:
            out |= {"threshold": value, "side": limit.side, "is_closed": limit.is_closed}
        if len(thresholds) > 1:
            upper = next(h for h in thresholds if h.side == "below")
            out["upper"] = upper.value / 100 if upper.unit == "%" else upper.value
    if what == "exists" and out.get("of") == "area" and "limit" not in out:
        out["of"] = "share"
    if what in ("statistic", "area", "share", "count"):
        out.pop("of", None)
    # a statistic has the unit of its quantity: another one in the words is refused, one of the choices is theirs
    is_dropped = what in ("count", "exists") or (what == "statistic" and bool(question.choices))
    if is_dropped and not (what == "exists" and dimension(out["unit"]) == "area"):
        out["unit"] = ""
    return Form.model_validate(out)


def _quoted(words: list[str]) -> str:
    shown = ", ".join(f"“{w}”" for w in list(dict.fromkeys(words))[:5])
    return shown
