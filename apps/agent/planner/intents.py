"""What a question asks of an image: the words that ask, and the form that they fill."""

from __future__ import annotations

import re
from typing import Any

from apps.agent.dates import DateSpan
from apps.agent.planner.fields import Form
from apps.agent.planner.lexicon import lexicon
from apps.agent.planner.limits import CHANGE, DROP, LEAST, MOST, RISE, Threshold, names_in
from apps.agent.planner.stated import span_said
from apps.agent.planner.text import Text
from apps.agent.planner.thing_words import is_extreme_of_a_thing
from apps.agent.units import UNIT_PATTERN, dimension
from apps.core.evidence.plan import Question


def intent_of(
    t: Text,
    question: Question,
    quantity: str,
    targets: list[str],
    thresholds: list[Threshold],
    spans: list[DateSpan],
    unit: str,
    *,
    is_compared: bool = False,
) -> dict[str, Any] | str | None:
    """The fields that the words of the question itself give; None where they give none, a text where it says why there are none.
    ``is_compared``: of several areas."""
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
        if is_extreme_of_a_thing(t):
            return None
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
    if t.has(rf"\b(?:{DROP}|{RISE}|{CHANGE}|shrink(?:age|ing)?)\b"):
        is_relative = _is_relative(t, unit, is_surface=bool(targets or thresholds))
        if isinstance(is_relative, str):
            return is_relative
        t.take_all(r"\b(?:percentage |percent |per cent )?points?\b" if t.said(_POINTS) else r"\brelative\b")
        t.take_all(rf"\b(?:{DROP}|{RISE}|{CHANGE})\b|\bby\b|\bhow\b")
        out: dict[str, Any] = {"what": "difference", "of": of, "statistic": statistic or "mean", "is_relative": is_relative}
        if is_relative:
            t.take_all(rf"\b{_PERCENT}(?!\w)")
            of = "count" if is_object else "area" if targets or thresholds else "statistic"
            return out | {"of": of, "unit": ""}
        return out
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


_POINTS = r"\b(?:percentage|percent|per cent) points?\b"
_CHANGED = rf"(?:{DROP}|{RISE}|{CHANGE})"
_PERCENT = r"(?:percentage|percent|per cent|%)"
_PART = rf"(?:share|fraction|proportion|portion|part|{_PERCENT})"
_GROUND = r"(?:areas?|land|ground|surface|image|scene|region|picture|pixels?|map)"
# "the area that lost vegetation", "what share of the image gained water": some lose while others gain
_LOSERS = (
    rf"\b(?:what|which|how much|how many|how large an?|{_PART} of)\b(?: of)?(?: the| this)? (?:{_GROUND}|{UNIT_PATTERN})"
    r"(?: that| which)?(?: has| have| had)? (?:lost|lose|loses|gained|gain|gains|changed|changes)\b"
)
_OF_WHAT_WAS = (
    rf"\b(?:what|which|how large an?|how much|by what|by which) {_PART} of (?:the |all (?:of )?(?:the )?)?"
    rf"(?!{_GROUND}\b(?! (?:with|where|of)\b))[^?;]*?\b{_CHANGED}\b"
)


def _is_relative(t: Text, unit: str, *, is_surface: bool) -> bool | str:
    """Whether a change is asked for in per cent of what there was; a text where the words leave open which number is meant.
    ``is_surface``: the change is that of an area or share, not of a mean."""
    if is_surface and t.said(_LOSERS):
        return (
            "Where it was lost and where it was gained is not told apart: only the sum of both is known. Ask for the change of "
            "its area, or for the area where an index fell (or rose) by more than a number."
        )
    if t.said(_POINTS):
        return False
    nouns = r"(?:change|difference|increase|decrease|growth|loss|gain|drop|fall|rise|decline|reduction|shrinkage)"
    if t.said(rf"\b(?:{_PERCENT}|relative) {nouns}\b|\bby (?:what|which|how many|how much) (?:a )?(?:{_PERCENT})(?!\w)"):
        return True
    if is_surface and t.said(_OF_WHAT_WAS):
        return True
    if unit != "%" or not is_surface:
        return unit == "%"
    if t.said(rf"\b(?:share|fraction|proportion|portion)\b|\bthe {_PERCENT} of\b|\b{_PERCENT} (?:cover|coverage)\b"):
        return False
    return (
        "In per cent of what it was before, or in percentage points? Write “by what percentage did … change” for the one, “how "
        "did the share of … change” for the other."
    )


def of_zones(t: Text, quantity: str, targets: list[str], thresholds: list[Threshold], unit: str) -> dict[str, Any] | None:
    """Which polygon of a file has the most or least of something; None where two words could pick it."""
    if len(re.findall(rf"\b(?:{MOST}|{LEAST}|min|max)\b", t.rest)) > 1:
        return None
    statistic = _statistic(t) if quantity or not targets else ""
    share = t.take(r"\b(?:share|fraction|proportion|portion|percentage|percent|per cent|part)\b|%") is not None or unit == "%"
    of = _of(t, quantity, targets, thresholds, unit, share, statistic)
    sign = "drop" if t.take_all(rf"\b(?:{DROP})\b") else "rise" if t.take_all(rf"\b(?:{RISE})\b") else ""
    is_change = bool(t.take_all(rf"\b(?:{CHANGE})\b")) or bool(sign)
    pick = _pick(t, statistic)
    if pick is None or of == "count":
        return None
    if is_change:
        t.take_all(rf"\b(?:{MOST}|{LEAST}|in|of)\b")
        rest = statistic if statistic not in ("", "min", "max") else "mean"
        return {"what": "zone", "of": of, "pick": pick, "statistic": rest, "is_change": True, "change_sign": sign}
    # "the highest mean NDVI": one word picks, the other is the statistic
    rest = _statistic(t) if statistic in ("min", "max", "") else statistic
    t.take_all(rf"\b(?:{MOST}|{LEAST})\b")
    return {"what": "zone", "of": of, "pick": pick, "statistic": rest if rest not in ("", "min", "max") else "mean"}


def of_rows(
    t: Text, quantity: str, targets: list[str], thresholds: list[Threshold], unit: str, rows_as: str
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
    is_by = t.said(rf"\bhow much\b[^?]*\b(?:{MOST}|{LEAST})\b") and not t.said(r"\bwhich\b")
    if t.take_all(r"\b(?:differ(?:ence|ences|s)?|compared?|contrast)\b") or is_by:
        t.take_all(rf"\b(?:{MOST}|{LEAST})\b|\bhow much\b" if is_by else r"(?!)")
        statistic = statistic if statistic not in ("", "min", "max") else "mean"
        # "how much higher in A than in B" is A less B, "the difference between A and B" the second less the first
        return {"what": "difference", "of": of, "statistic": statistic, "is_turned": is_by}
    pick = _pick(t, statistic)
    t.take_all(rf"\b(?:{MOST}|{LEAST})\b|\bwhich(?: (?:one|area|polygon|zone|place|of (?:the )?(?:two|them)))?\b")
    statistic = statistic if statistic not in ("", "min", "max") else "mean"
    return {"what": "compare", "of": of, "pick": pick, "statistic": statistic} if pick else None


def _of(t: Text, quantity: str, targets: list[str], thresholds: list[Threshold], unit: str, share: bool, statistic: str) -> str:
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
    if t.take(rf"\b(?:{LEAST})\b"):
        return "min"
    if t.take(rf"\b(?:{MOST})\b"):
        return "max"
    return {"min": "min", "max": "max"}.get(statistic)


def _comparison(
    t: Text, question: Question, quantity: str, targets: list[str], spans: list[DateSpan], of: str, statistic: str
) -> dict[str, Any] | None:
    """Which of two is larger, or is one larger than the other."""
    comparatives = r"larger|bigger|higher|greater|more|smaller|lower|less|fewer"
    is_main = not targets and not quantity and t.take(r"\b(?:main|dominant|prevailing|predominant|most common)\b") is not None
    is_what = len(targets) > 1 and t.has(r"\bwhat(?:'s| is| was)?\b") and t.has(rf"\b(?:{comparatives})\b")
    is_which = is_main or is_what or (t.has(r"\bwhich\b") and t.said(rf"\b(?:{MOST}|{LEAST})\b"))
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
        t.take_all(rf"\b(?:{MOST if pick == 'max' else LEAST})\b")
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
            names_in(Text(text), [(w, n) for n, e in lexicon().targets.items() for w in (*e.words, *e.narrower)])
            for text in question.choices.values()
        ]
        if len(named) < 2 or any(len(n) != 1 for n in named):
            return None
        flat = list(dict.fromkeys(n[0] for n in named))
        if len(flat) < 2:
            return None
        out |= {"target": flat[0], "reference": flat[1], "others": flat[2:], "of": "share"}
    return out


def form_of(
    question: Question,
    fields: dict[str, Any],
    quantity: str,
    targets: list[str],
    thresholds: list[Threshold],
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
