"""The answer, made from the plan's recipe and the verified history alone.

Every number of an answer is a result of accepted observations whose ancestors are all accepted; what is
missing is named as open and the answer abstains. The value is kept exact; only the text is rounded.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from apps.agent.dates import dates_in
from apps.agent.findings import (
    LISTED,
    Finding,
    NoAnswerError,
    claim_of,
    list_of,
    noun_of,
    overlaps,
    phrase_of,
    unique,
    with_ancestors,
)
from apps.agent.moves import Open, Stopped
from apps.agent.readings import READINGS, ReadingError
from apps.agent.tables_told import change_table_told, change_zone_told, rows_told, table_told, zone_told
from apps.agent.units import (
    ALIASES,
    UNIT_PATTERN,
    carried_text,
    convert,
    dimension,
    number_text,
    valid_pixels,
    with_sign,
)
from apps.core.errors import ERROR_CODES
from apps.core.evidence.fold import ObservationState, RunState
from apps.core.evidence.observation import Observation
from apps.core.evidence.plan import Answer, AnswerRecipe, Plan, Question
from apps.core.geo.quality_words import flags_text, quality_text

# A numeric option is taken where it is the nearest and no farther than this share of itself; a recipe may
# state another.
CHOICE_TOLERANCE = 0.1
_NEEDS_CODES = (
    ("roles", "NEEDS_BANDS"),
    ("gsd_m", "NEEDS_GSD"),
    ("crs", "NEEDS_CRS"),
    ("dates", "NEEDS_DATES"),
    ("region", "NEEDS_REGION"),
    ("landmarks", "NEEDS_LANDMARKS"),
    ("prompts", "NEEDS_PROMPTS"),
    ("model", "MODEL_MISSING"),
)


def abstain(
    reason: str,
    code: str = "NO_ANSWER",
    *,
    needs: Mapping[str, Any] | None = None,
    based_on: Iterable[str] = (),
    warnings: Iterable[str] = (),
) -> Answer:
    """An answer that says why there is none."""
    return Answer(
        text=f"I can't tell. {reason}"[:4000],
        abstained=True,
        reason=reason[:2000],
        code=code,
        needs=dict(needs or {}),
        based_on=tuple(based_on),
        warnings=tuple(warnings),
    )


def answer_from(state: RunState, plan: Plan, question: Question, stopped: Stopped) -> Answer:
    """The answer of a plan that has come to its end. Abstains where a step that it rests on is open."""
    recipe = plan.answer
    if recipe is None or not recipe.steps:
        return abstain("The plan does not say how an answer is made.", "NO_ANSWER")
    held: dict[int, ObservationState] = {}
    for n in recipe.steps:
        at = stopped.chosen.get(n)
        if at is None or not state.is_in_history(at):
            return _abstain_open(state, plan, stopped)
        held[n] = state.observations[at]
    under = with_ancestors(state, [o.id for o in held.values()])
    warnings = _warnings(plan, under)
    based_on = tuple(o.id for o in under)
    try:
        finding = _find(state, recipe, held)
        choice = _choose(finding, recipe, question) if question.choices else None
    except NoAnswerError as e:
        return abstain(str(e), "NO_ANSWER", based_on=based_on, warnings=warnings)
    text = finding.text if choice is None else f"{choice}: {question.choices[choice]}. {finding.text}"
    return Answer(
        text=text[:4000],
        value=finding.value,
        unit=finding.unit,
        choice=choice,
        interval=finding.interval,
        based_on=based_on,
        claims=finding.claims,
        warnings=unique((*warnings, *finding.warnings)),
    )


# --- what is open -----------------------------------------------------------------------------------------
def _abstain_open(state: RunState, plan: Plan, stopped: Stopped) -> Answer:
    """Names what is open, why, and what the person can do about it."""
    sentences: list[str] = []
    needs: dict[str, Any] = {}
    code = ""
    waiting: list[str] = []
    why = {s.step: s.why for s in plan.steps}
    causes = [o for o in stopped.open if o.observation_ids] or list(stopped.open)
    for o in causes:
        held = [state.observations[i] for i in o.observation_ids]
        for h in held:
            needs.update({k: v for k, v in h.observation.status.needs.items() if k not in ("code", "abstained")})
        code = code or _open_code(held)
        head = f"Step {o.step} ({why.get(o.step, '').rstrip('.')})" if why.get(o.step) else f"Step {o.step}"
        sentences.append(f"{head} is open: {_open_reason(o, held)}")
        if o.state == "waiting":
            waiting.extend(o.observation_ids)
    if waiting:
        needs["verdict"] = list(waiting)
        sentences.append("Look at its evidence and say whether it is right; the answer then follows.")
    elif code in ("RULE_FAILED", "NO_ANSWER", "VERIFIER_UNAVAILABLE"):
        sentences.append("If you find it right, say so on the observation; else ask with another method, region or date.")
    return abstain(
        " ".join(sentences) or "No observation was accepted.",
        code or "NO_ANSWER",
        needs=needs,
        based_on=tuple(o.id for o in with_ancestors(state, list(stopped.chosen.values())) if state.is_in_history(o.id)),
        warnings=plan.warnings,
    )


_CHECK_NAME = re.compile(r"^[a-z]+\.[a-z_]+: ")


def _open_reason(o: Open, held: list[ObservationState]) -> str:
    last = held[-1] if held else None
    if last is None:
        return o.message
    if last.verdict is not None:
        return {
            "reject": "a person said that its observation is wrong.",
            "unsure": "a person was unsure of its observation.",
            "accept": o.message,
        }[last.verdict.value]
    if last.observation.status.state == "failed" and last.observation.status.reason:
        return last.observation.status.reason
    reasons = last.decision.reasons if last.decision else ()
    if last.decision is not None and last.decision.stage == "policy" and len(reasons) > 1:
        reasons = reasons[1:]  # the first says only that the requests are used up
    # the name of the check stands on the observation's page; a sentence of the answer needs its words alone
    text = " ".join(_CHECK_NAME.sub("", reason) for reason in reasons[:2]) or o.message
    others = f" ({len(held)} observations were tried.)" if len(held) > 1 else ""
    return text + others


def _open_code(held: list[ObservationState]) -> str:
    """The code of the first observation that names a need, else of the stage at which all of them fell."""
    for h in held:
        needs = h.observation.status.needs
        if needs.get("code") in ERROR_CODES and needs["code"] not in ("TOOL_FAILED", "BAD_ARGUMENT", "BAD_PLAN"):
            return str(needs["code"])
        for key, code in _NEEDS_CODES:
            if key in needs:
                return code
    stages = {h.decision.stage for h in held if h.decision is not None and h.verdict is None}
    if stages == {"status"}:
        return "TOOL_FAILED"
    if stages == {"rules"}:
        return "RULE_FAILED"
    if "unverified" in {d.stage for h in held for d in h.decisions}:
        return "VERIFIER_UNAVAILABLE"
    return "NO_ANSWER"


# --- what was found ---------------------------------------------------------------------------------------
def _find(state: RunState, recipe: AnswerRecipe, held: Mapping[int, ObservationState]) -> Finding:
    kind = str(recipe.options.get("of", "value")) if recipe.kind == "choice" else recipe.kind
    parts = [held[n].observation for n in recipe.steps]
    match kind:
        case "value":
            finding = _value(recipe, parts[0])
        case "compare":
            finding = _compare(state, recipe, parts)
        case "difference":
            finding = _difference(state, recipe, parts)
        case "date":
            finding = _date(recipe, parts[0])
        case "zone" if len(parts) > 1 or recipe.options.get("signed"):
            finding = change_zone_told(state, recipe, parts)
        case "zone":
            finding = zone_told(recipe, parts[0])
        case "rows_beyond":
            finding = rows_told(recipe, parts[0])
        case "table" if len(parts) > 1:
            finding = change_table_told(state, recipe, parts)
        case "table":
            finding = table_told(state, recipe, parts[0])
        case "boolean":
            finding = _boolean(recipe, parts[0])
        case "text":
            finding = _text(parts[0])
        case _ if kind in READINGS:
            try:
                read = READINGS[kind](recipe, parts)
            except ReadingError as error:
                raise NoAnswerError(str(error)) from None
            finding = Finding(read.text, read.value, read.unit, warnings=read.warnings)
        case _:
            raise NoAnswerError(f"The plan asks for an answer of the unknown kind {kind!r}.")
    note = _method_note(state, recipe, parts) + _quality_note(state, parts) + _person_note(state, held)
    text = f"{finding.text.rstrip('.')}{note}."
    claims = finding.claims or (claim_of(state, text, parts),)
    return Finding(text, finding.value, finding.unit, finding.interval, claims, finding.warnings)


def _number(recipe: AnswerRecipe, o: Observation) -> tuple[float | int, str]:
    """(value, unit) of a numeric result in the recipe's unit."""
    r = o.result
    if r.value is None:
        raise NoAnswerError(f"The observation of step {o.step} has no value. {o.status.reason}".strip())
    if isinstance(r.value, bool | str):
        raise NoAnswerError(f"The observation of step {o.step} is {r.value!r}, not a number.")
    to = recipe.unit
    if to in ("", "1") and dimension(r.unit) != "number":
        to = r.unit  # the recipe does not ask for a unit: the tool's own stands
    try:
        return convert(r.value, r.unit, to), to
    except ValueError:
        raise NoAnswerError(f"The observation of step {o.step} is in {r.unit!r}, which cannot be given in {to!r}.") from None


def _interval(recipe: AnswerRecipe, o: Observation, unit: str) -> tuple[float, float] | None:
    if o.result.interval is None:
        return None
    low, high = (convert(x, o.result.unit, unit) for x in o.result.interval)
    return low, high


def _value(recipe: AnswerRecipe, o: Observation) -> Finding:
    value, unit = _number(recipe, o)
    is_count = o.result.kind == "count"
    is_signed = bool(recipe.options.get("signed"))
    if is_count and float(value).is_integer():
        value = int(value)
    shown, span = _told(o, value, unit, is_count=is_count, is_signed=is_signed)
    if is_count and recipe.options.get("noun"):
        text = f"{shown} {noun_of(recipe, value)}"
    else:
        text = f"{phrase_of(recipe, o)} is {shown}"
        if unit == "1" and o.result.kind == "ratio":
            text += f" ({_told(o, value * 100, '%')[0]})"
    interval = _interval(recipe, o, unit)
    kind = o.evidence.intermediate.get("interval_is")
    if span:
        level = f"{o.result.interval_level:.0%} ".replace("%", " %") if o.result.interval_level else ""
        text += f", {level}interval {span}"
        if kind == "bounds":
            text += f" (from {o.evidence.intermediate.get('interval_by')})"
        if kind == "floor":
            text += " at least, for nobody says how exactly it was drawn"
    p = o.evidence.intermediate.get("p_value") or _node_value(o, "p_value")
    if o.result.kind == "trend" and isinstance(p, int | float):
        text += f", p = {p:.3g}"
    text += _support_note(o)
    return Finding(text, value, unit, interval)


def _told(o: Observation, value: float, unit: str, *, is_count: bool = False, is_signed: bool = False) -> tuple[str, str]:
    """(a value of an observation, its interval) in ``unit`` to the digits that the interval carries; '' where there is none."""
    interval = o.result.interval
    if interval is None or o.evidence.intermediate.get("interval_is") == "exact":
        return number_text(value, unit, is_count=is_count, is_signed=is_signed), ""
    low, high = (convert(x, o.result.unit, unit) for x in interval)
    shown, span = carried_text(value, (low, high), unit, is_count=is_count, is_signed=is_signed, is_short=True)
    return shown, " to ".join(with_sign(end, "1" if is_count else unit) for end in span.split(" to ")) if span else ""


def _node_value(o: Observation, key: str) -> Any:
    """What the output node of a graph holds under ``key``, or None."""
    nodes = o.evidence.intermediate.get("nodes")
    output = o.arguments.get("output")
    found = [n for n in nodes if isinstance(n, dict) and n.get("id") == output] if isinstance(nodes, list) else []
    return found[0].get(key) if found else None


def _apart(one: Observation, other: Observation) -> list[tuple[float, float] | None]:
    """The intervals by which two figures are told apart. The outline of one region is the same on both dates: what it leaves open
    moves both figures alike, and only what each did not see counts."""
    both = (one, other)
    are_bounds = all(o.evidence.intermediate.get("interval_is") == "bounds" for o in both)
    if not are_bounds or one.arguments_passed.get("region") != other.arguments_passed.get("region"):
        return [o.result.interval for o in both]
    found: list[tuple[float, float] | None] = []
    for o in both:
        ends, value = o.evidence.intermediate.get("interval_missing"), o.result.value
        if isinstance(ends, list):
            low, high = (float(str(end)) for end in ends)
            found.append((low, high))
        else:
            found.append((float(value), float(value)) if isinstance(value, int | float) else None)
    return found


def _compare(state: RunState, recipe: AnswerRecipe, parts: list[Observation]) -> Finding:
    if len(parts) < 2:
        raise NoAnswerError("A comparison needs two observations.")
    labels = [str(x) for x in list_of(recipe.options.get("labels"))] or [f"step {o.step}" for o in parts]
    numbers = [_number(recipe, o) for o in parts]
    if len(labels) != len(parts) or len({u for _, u in numbers}) != 1:
        raise NoAnswerError("The observations to be compared are in different units.")
    unit = numbers[0][1]
    pick = max if recipe.options.get("pick", "max") == "max" else min
    best = pick(v for v, _ in numbers)
    winners = [i for i, (v, _) in enumerate(numbers) if v == best]
    is_count = parts[0].result.kind == "count"
    figures = [_told(o, v, unit, is_count=is_count)[0] for o, (v, _) in zip(parts, numbers, strict=True)]
    if len(set(figures)) < len({v for v, _ in numbers}):
        # figures that differ are not written alike
        figures = [number_text(v, unit, is_count=is_count) for v, _ in numbers]
    listed = "; ".join(f"{label}: {figure}" for label, figure in zip(labels, figures, strict=True))
    if len(numbers) > LISTED:
        order = sorted(zip(labels, numbers, figures, strict=True), key=lambda x: x[1][0], reverse=pick is max)[:2]
        listed = "; then ".join(f"{label}: {figure}" for label, _, figure in order)
        listed += f"; {len(numbers)} in all"
    word = str(recipe.options.get("word", "larger" if pick is max else "smaller"))
    claims = tuple(claim_of(state, f"{label}: {figure}", [o]) for label, figure, o in zip(labels, figures, parts, strict=True))
    if len(winners) > 1:
        who = "They" if len(winners) == len(parts) else " and ".join(labels[i] for i in winners)
        return Finding(f"{who} are equal ({listed})", "equal", None, claims=claims)
    at = winners[0]
    warnings = tuple(
        f"The intervals of {labels[at]} and {labels[i]} overlap; which one is {word} is not certain."
        for i, o in enumerate(parts)
        if i != at and overlaps(*_apart(parts[at], o))
    )
    phrase = str(recipe.options.get("phrase", ""))
    return Finding(
        f"{labels[at][:1].upper()}{labels[at][1:]} is {word}{f' in {phrase}' if phrase else ''} ({listed})",
        labels[at],
        None,
        claims=claims,
        warnings=warnings,
    )


def _difference(state: RunState, recipe: AnswerRecipe, parts: list[Observation]) -> Finding:
    if len(parts) != 2:
        raise NoAnswerError("A difference needs two observations.")
    is_relative = bool(recipe.options.get("relative"))
    plain = recipe.model_copy(update={"unit": parts[1].result.unit}) if is_relative else recipe
    (first, unit), (second, unit_2) = _number(plain, parts[0]), _number(plain, parts[1])
    if unit != unit_2:
        raise NoAnswerError(f"The two observations are in different units ({unit}, {unit_2}).")
    is_count = all(o.result.kind == "count" for o in parts)
    value: float | int = second - first
    out_unit = unit
    if is_relative:
        if first == 0:
            raise NoAnswerError("The first value is 0, so a relative change has no meaning.")
        value, out_unit, is_count = 100 * (second - first) / first, "%", False
    labels = [str(x) for x in list_of(recipe.options.get("labels"))] or ["first", "second"]
    count = all(o.result.kind == "count" for o in parts)
    # as fine as their difference, so that a reader may subtract them
    figures = [number_text(v, unit, is_count=count) for v in (first, second)]
    listed = "; ".join(f"{label}: {figure}" for label, figure in zip(labels, figures, strict=True))
    claims = tuple(claim_of(state, f"{label}: {figure}", [o]) for label, figure, o in zip(labels, figures, parts, strict=True))
    shown = number_text(value, out_unit, is_count=is_count, is_signed=True)
    if not is_relative and unit == "%":
        shown = f"{shown.removesuffix(' %')} percentage points"
    return Finding(f"{phrase_of(recipe, parts[1])} is {shown} ({listed})", value, out_unit, claims=claims)


def _date(recipe: AnswerRecipe, o: Observation) -> Finding:
    if not isinstance(o.result.value, str):
        raise NoAnswerError(f"The observation of step {o.step} names no date.")
    item = next((i for i in o.result.items if i.get("date") == o.result.value), None)
    lowest = item.get("value") if item is not None else None
    at = f" ({number_text(float(lowest), o.result.unit)})" if isinstance(lowest, int | float) else ""
    n = len(o.result.items)
    among = f", among {n} dates" if n else ""
    phrase = str(recipe.options.get("phrase", "")) or f"The date of {o.result.quantity}"
    return Finding(f"{phrase} is {o.result.value}{at}{among}", o.result.value)


def _boolean(recipe: AnswerRecipe, o: Observation) -> Finding:
    r = o.result
    noun = str(recipe.options.get("noun", ""))
    if isinstance(r.value, bool):
        return Finding(f"{'Yes' if r.value else 'No'}{f': {noun}' if noun else ''}", r.value)
    value, unit = _number(recipe, o)
    limit = recipe.options.get("value", 0)
    op = str(recipe.options.get("op", ">"))
    if not isinstance(limit, int | float) or op not in (">", ">=", "<", "<="):
        raise NoAnswerError("The plan's comparison cannot be carried out.")
    compare = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}[op]
    holds = compare(value, limit)
    shown = number_text(value, unit, is_count=r.kind == "count")
    what = f"{shown} {noun_of(recipe, value)}" if r.kind == "count" and noun else f"{phrase_of(recipe, o)} is {shown}"
    warnings: tuple[str, ...] = ()
    ends = _interval(recipe, o, unit)
    if ends is not None and any(compare(end, limit) != holds for end in ends):
        span = _told(o, value, unit, is_count=r.kind == "count")[1]
        warnings = (f"The interval{f' {span}' if span else ''} lies on both sides of the limit, so this is not certain.",)
    return Finding(f"{'Yes' if holds else 'No'}: {what}{_support_note(o)}", holds, warnings=warnings)


def _text(o: Observation) -> Finding:
    if o.result.value is None:
        raise NoAnswerError(f"The observation of step {o.step} says nothing. {o.status.reason}".strip())
    value = str(o.result.value)
    top = next((i for i in o.result.items if i.get("class") == value), {}) if o.result.kind == "class" else {}
    told = []
    if isinstance(p := top.get("p"), int | float):
        told.append("probability " + ("over 99 %" if p > 0.99 else f"{p:.0%}".replace("%", " %")))
    n = o.evidence.intermediate.get("windows")
    if isinstance(k := top.get("windows"), int) and isinstance(n, int):
        told.append(f"the likeliest in {k} of {n} windows")
    return Finding(f"{value} ({', '.join(told)})" if told else value, value)


# --- multiple choice --------------------------------------------------------------------------------------
_NUMBER = r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
_NUMBER_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_QUANTITY = re.compile(rf"({_NUMBER})\s*({UNIT_PATTERN})?(?![\w²])", re.IGNORECASE)


def _choose(finding: Finding, recipe: AnswerRecipe, question: Question) -> str:
    """The key of the option that the finding supports; NoAnswerError where none or more than one fits."""
    if isinstance(finding.value, bool):
        return _one(finding, question, lambda text: _yes_no(text) is finding.value)
    if isinstance(finding.value, str):
        wanted = _plain(finding.value)
        exact = [k for k, text in question.choices.items() if _plain(text) == wanted]
        if len(exact) == 1:
            return exact[0]
        return _one(
            finding,
            question,
            lambda text: (
                _same_date(text, str(finding.value))
                or re.search(rf"\b{re.escape(wanted)}\b", _plain(text)) is not None
                or (len(_plain(text)) > 1 and re.search(rf"\b{re.escape(_plain(text))}\b", wanted) is not None)
            ),
        )
    return _nearest(finding, recipe, question)


def _one(finding: Finding, question: Question, fits: Any) -> str:
    found = [k for k, text in question.choices.items() if fits(text)]
    if len(found) != 1:
        raise NoAnswerError(f"{finding.text} {'No option says this.' if not found else 'More than one option says this.'}")
    return found[0]


def _nearest(finding: Finding, recipe: AnswerRecipe, question: Question) -> str:
    value, unit = float(finding.value), finding.unit or "1"
    stated = recipe.options.get("tolerance", CHOICE_TOLERANCE)
    tolerance = float(stated) if isinstance(stated, int | float) else CHOICE_TOLERANCE
    inside: list[str] = []
    distances: list[tuple[float, float, str]] = []
    for key, text in question.choices.items():
        span = _range(text, unit)
        if span is not None:
            if span[0] <= value <= span[1]:
                inside.append(key)
            continue
        option = _quantity(text, unit)
        if option is not None:
            distances.append((abs(option - value), abs(option), key))
    if len(inside) == 1 and not distances:
        return inside[0]
    if len(inside) > 1:
        raise NoAnswerError(f"{finding.text} More than one option covers it.")
    distances.sort()
    if not inside and distances:
        distance, size, key = distances[0]
        is_tied = len(distances) > 1 and distances[1][0] == distance
        if distance <= tolerance * max(size, 1e-12) and not is_tied:
            return key
    elif inside and (not distances or distances[0][0] > 0):
        return inside[0]
    raise NoAnswerError(
        f"{finding.text} No option lies within {tolerance:.0%} of it.".replace("%", " %", 1)
        if "%" not in finding.text
        else f"{finding.text} No option lies near enough."
    )


def _quantity(text: str, unit: str) -> float | None:
    """The one number of an option in ``unit`` (its own unit where it names one of the same dimension)."""
    word = _plain(text)
    if word in _NUMBER_WORDS:
        return float(_NUMBER_WORDS.index(word))
    found = _QUANTITY.findall(text)
    if len(found) != 1:
        return None
    return _in_unit(found[0][0], found[0][1], unit)


def _in_unit(number: str, own: str, unit: str) -> float | None:
    value = float(number.replace(",", "").replace("−", "-"))
    named = next((u for pattern, u in ALIASES if own and re.fullmatch(pattern, own.strip(), re.IGNORECASE)), None)
    try:
        return convert(value, named or unit, unit)
    except ValueError:
        return None


def _range(text: str, unit: str) -> tuple[float, float] | None:
    """(low, high) of an option such as '10 to 20 %', 'more than 50', 'less than 10'."""
    two = re.search(
        rf"({_NUMBER})\s*({UNIT_PATTERN})?\s*(?:-|–|to|and)\s*(\d[\d,.]*)\s*({UNIT_PATTERN})?(?![\w²])",
        text,
        re.IGNORECASE,
    )
    if two:
        low, high = (
            _in_unit(two[1], two[2] or two[4] or "", unit),
            _in_unit(two[3].rstrip(".,"), two[4] or two[2] or "", unit),
        )
        return (low, high) if low is not None and high is not None and low <= high else None
    one = re.search(
        rf"(more than|over|above|at least|greater than|>=?|less than|under|below|at most|fewer than|<=?)\s*"
        rf"({_NUMBER})\s*({UNIT_PATTERN})?(?![\w²])",
        text,
        re.IGNORECASE,
    )
    if one:
        at = _in_unit(one[2], one[3] or "", unit)
        if at is None:
            return None
        is_above = one[1].casefold() in ("more than", "over", "above", "at least", "greater than", ">", ">=")
        return (at, float("inf")) if is_above else (float("-inf"), at)
    return None


def _yes_no(text: str) -> bool | None:
    first = re.match(r"\W*(\w+)", text)
    word = first[1].casefold() if first else ""
    return True if word in ("yes", "true", "present") else False if word in ("no", "false", "absent", "none") else None


def _same_date(text: str, iso: str) -> bool:
    try:
        wanted = date.fromisoformat(iso[:10])
    except ValueError:
        return False
    spans = dates_in(text)
    return len(spans) == 1 and spans[0].covers(wanted)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[\w.\-]+", text.casefold()))


# --- pieces of text ---------------------------------------------------------------------------------------


def _support_note(o: Observation) -> str:
    """How many pixels or dates the number rests on."""
    if o.result.kind in ("series", "trend") and o.result.items:
        return f" (over {len(o.result.items)} dates)"
    middle = o.evidence.intermediate
    numerator, denominator = middle.get("numerator"), middle.get("denominator")
    by_area, by_pixels = middle.get("by_area"), middle.get("by_pixels")
    if o.result.kind in ("ratio", "statistic", "table") and isinstance(by_area, float) and isinstance(by_pixels, float):
        is_share = o.result.unit == "1" and o.result.kind == "ratio"
        one, other = (
            number_text(x * 100, "%") if is_share else number_text(x, o.result.unit)
            for x in ((by_area, by_pixels) if middle.get("weights") == "pixels" else (by_pixels, by_area))
        )
        if middle.get("weights") == "area":
            return f" (by area; {one} with each pixel alike, though pixels differ in area)"
        if one != other:
            return f" (each pixel counts alike; {one} by area)"
    if o.result.kind == "ratio" and o.tool != "measure" and isinstance(numerator, int) and isinstance(denominator, int):
        return f" ({numerator:,} of {valid_pixels(denominator)})"
    n = middle.get("valid_px")
    if o.result.kind in ("statistic", "area", "table") and isinstance(n, int) and not isinstance(n, bool):
        return f" ({valid_pixels(n)})"
    return ""


def _method_note(state: RunState, recipe: AnswerRecipe, parts: list[Observation]) -> str:
    """Names how perceived layers were made, as the tool really made them; nothing where none was
    perceived.
    """
    notes = []
    for o in with_ancestors(state, [p.id for p in parts]):
        note = _method(o.observation)
        if note:
            notes.append(note)
    return f"; {'; '.join(unique(notes))}" if notes else ""


def _person_note(state: RunState, held: Mapping[int, ObservationState]) -> str:
    """Who gave the values that are not the machine's, or changed what they were made from; '' where all is the machine's."""
    direct = {o.id for o in held.values()}
    notes = [
        f"the value is {o.verdict.author}’s, not the machine’s"
        if o.id in direct
        else f"{o.verdict.author} changed what observation {o.observation.step} found"
        for o in with_ancestors(state, list(direct))
        if o.corrects and o.verdict is not None
    ]
    return f"; {'; '.join(unique(notes))}" if notes else ""


def _quality_note(state: RunState, parts: list[Observation]) -> str:
    """What share of the pixels the quality bands took out, of the observations and of what they rest on together; '' where none
    was used."""
    under = [o.observation for o in with_ancestors(state, [p.id for p in parts])]
    masked = [(o, q) for o in under if isinstance(q := o.evidence.intermediate.get("quality_masked"), dict)]
    n, of = (sum(int(x) for _, q in masked if isinstance(x := q.get(k), int)) for k in ("n_px", "of_px"))
    if not of:
        return ""
    named = unique(_quality_name(x) for o, _ in masked for x in list_of(o.evidence.validity.get("quality_mask")))
    return f"; {n:,} of {of:,} pixels ({number_text(100 * n / of, '%')}) were left out as {' and '.join(named)}"


def _quality_name(entry: Any) -> str:
    """An entry of ``validity.quality_mask`` in words: perceive tells band and flags, execute 'flags by scheme'."""
    if isinstance(entry, dict):
        return flags_text([str(f) for f in list_of(entry.get("flags"))], str(entry.get("scheme")))
    return quality_text(str(entry))


def _method(o: Observation) -> str:
    if o.tool != "perceive":
        return ""
    passed: dict[str, Any] = {**o.arguments, **o.arguments_passed}
    targets = ", ".join(passed["target_groups"]) if isinstance(passed.get("target_groups"), dict) else ""
    if passed.get("mode") == "regions" and isinstance(passed.get("regions_method"), dict):
        method: dict[str, Any] = passed["regions_method"]
        name = str(method.get("index") or method.get("band") or "")
        used = o.evidence.source.get("thresholds")
        number = next((v for v in used.values() if isinstance(v, int | float)), None) if isinstance(used, dict) else None
        stated = method.get("threshold")
        limit = stated if isinstance(stated, int | float) else number
        how = " (Otsu's threshold)" if stated == "otsu" or o.configuration.fine.endswith("/otsu") else ""
        if method.get("kind") == "class_value":
            values = ", ".join(str(v) for v in list_of(method.get("values")))
            return f"{targets} by the class map's values {values}"
        if method.get("kind") == "prompt":
            models = [str(w.get("name", "")) for w in list_of(o.evidence.source.get("weights")) if isinstance(w, dict)]
            return f"outlined from the marks by {', '.join(models) or 'a random walker'}"
        if name and limit is not None:
            side = "<" if method.get("side") == "below" else ">"
            return f"{targets} by {name.upper()} {side} {limit:.4g}{how}"
        return f"{targets} by {o.configuration.fine}"
    if passed.get("mode") == "objects":
        weights = o.evidence.source.get("weights")
        held = weights if isinstance(weights, list) else [weights]
        name = ", ".join(str(w.get("name", "")) if isinstance(w, dict) else str(w) for w in held if w)
        return f"found by {name}" if name else f"found by {o.configuration.fine}"
    return ""


def _warnings(plan: Plan, under: list[ObservationState]) -> tuple[str, ...]:
    """Warnings of the plan, and those that the tools wrote to the logs of what the answer rests on."""
    out = list(plan.warnings)
    for o in under:
        status = o.observation.status
        if status.state == "partial" and status.reason:
            out.append(f"Step {o.observation.step} is partial: {status.reason}")
        out.extend(line.message for line in status.log if line.level in ("warning", "error"))
        # warnings about how the call fits the question's words stand with the check, not in the answer
        out.extend(c.message for c in o.checks if (c.severity, c.outcome) == ("warn", "failed") and c.family != "contract")
    return unique(out)
