"""What a question states beside its subject: dates, images by name or order, a region, pixels without clouds. Each is taken out
of the words as it is read."""

from __future__ import annotations

import re
from datetime import date
from typing import Literal

from apps.agent.dates import DateSpan, dates_in
from apps.agent.planner.text import Text
from apps.core.evidence.plan import Question

_CIRRUS = r"(?:thin )?cirrus(?: clouds?)?"
_SHADOWS = rf"(?:(?:,|,? (?:and|or)) (?:the |their |its )?(?:(?:cloud )?shadows?|{_CIRRUS}))*"
_PLACES = r"(?: (?:pixels?|areas?|parts?|places|ground|land|surface|observations?|data|sky))?"
# Words that ask for the scene's quality band to be used.
CLEAR = (
    rf"\b(?:(?:while |when |by )?(?:ignor(?:e|ing)|exclud(?:e|ing)|without(?: counting)?|not counting|leav(?:e|ing) out|"
    rf"mask(?:ing)?(?: out)?|remov(?:e|ing)|skip(?:ping)?|omit(?:ting)?|free of|outside(?: of)?|except(?: for)?|other than) "
    rf"(?:the |any |all )?(?:{_CIRRUS} (?:and|or) )?(?:clouds?|cloud(?:y|-covered|ed)|cloud cover){_SHADOWS}{_PLACES}"
    rf"|(?:over |in |on |of |for |using |with )?(?:the |only )?(?:cloud[- ]?free|cloudless|unclouded|clear[- ]sky|clear pixels?)"
    rf"{_PLACES}|(?:over |in |on |of |for )?(?:the )?(?:pixels? |areas? |parts? )?(?:that (?:are|is) )?"
    rf"not (?:cloudy|clouded|covered by clouds?)"
    rf"|(?:using|with|by|after|apply(?:ing)?|use|given) (?:the |its |a )?(?:(?:qa|bqa|qa_pixel|scl|fmask|quality|cloud|"
    rf"pixel quality|scene classification)(?: ?(?:band|mask|layer|flags?|bits?))*)(?: applied)?"
    rf"|with (?:the )?clouds{_SHADOWS} (?:masked|removed|excluded|left out)(?: out)?)(?: only)?(?![\w\-])"
)


def clear_said(t: Text) -> Literal["", "clear", "clear_cirrus"]:
    """Which pixels the question leaves out: none, those that a quality band flags as cloud or shadow, or cirrus too."""
    said = t.take_all(CLEAR)
    if not said:
        return ""
    return "clear_cirrus" if any("cirrus" in m[0] for m in said) else "clear"


# A region that the words point at: without one it is asked for, and the whole image is not taken in its place.
_SHAPE = r"(?:region|area|zone|polygon|shape|boundary|boundaries|borders?|outline|rectangle|box)"
IN_REGION = (
    rf"\b(?:not )?(?:inside|within|outside)(?: of)? (?:the |this |that |my |our )?{_SHAPE}\b"
    r"(?! (?:of|with|where|that|covered)\b)|"
    r"(?:\b(?:in|for|of|over|across|throughout) |\b)(?:the|this|that|my|our) region\b(?! of\b)"
)


def scenes_named(t: Text, question: Question) -> list[str]:
    """Scenes that the question calls by file name, or as first, second, before, after. Names are only
    compared.
    """
    found = []
    for s in question.scenes:
        name = s.name.lower()
        stem = name.rsplit(".", 1)[0]
        for candidate in (name, stem):
            if len(candidate) >= 4 and t.take(rf"(?<![\w.\-]){re.escape(candidate)}(?![\w\-])"):
                found.append(s.scene_id)
                break
    if found or len(question.scenes) < 2:
        return found
    ordered = list(question.scenes)
    if all(s.acquired_at for s in ordered):
        ordered.sort(key=lambda s: (s.acquired_at, s.scene_id))
    if len(ordered) == 2:
        places = (("first|earlier|before|pre-event", 0), ("second|later|after|post-event", 1))
    else:
        places = (("first|earliest", 0), ("last|latest|newest", len(ordered) - 1))
    for pattern, i in places:
        if t.take(rf"\b(?:the )?(?:{pattern})[ -](?:image|scene|picture|photo)\b"):
            found.append(ordered[i].scene_id)
    return found


def dates_said(t: Text) -> tuple[list[DateSpan], bool]:
    """(dates in order, True where two of them are the ends of one period)."""
    spans = dates_in(t.rest)
    rest = t.rest
    is_period = False
    for i, s in enumerate(spans):
        before = rest[: s.at[0]]
        lead = re.search(
            r"\b(since|after|before|until|till|up to|between|from|in|on|of|during|at|for|to|and|than|over|through)\s*$", before
        )
        word = lead[1] if lead else ""
        if i == 1 and len(spans) == 2:
            gap = rest[spans[0].at[1] : s.at[0]].strip()
            first_lead = re.search(r"\b(between|from|since)\s*$", rest[: spans[0].at[0]])
            is_period = gap in ("to", "until", "till", "-", "through", "up to") or (
                gap == "and" and first_lead is not None and first_lead[1] == "between"
            )
        if len(spans) == 1 and word in ("since", "after"):
            start = s.start if word == "since" else date.fromordinal(s.end.toordinal() + 1)
            spans[i] = DateSpan(start, date.max, s.at)
        elif len(spans) == 1 and word in ("before", "until", "till", "up to"):
            end = s.end if word != "before" else date.fromordinal(s.start.toordinal() - 1)
            spans[i] = DateSpan(date.min, end, s.at)
        t.mark(lead.start() if lead else s.at[0], s.at[1])
    if is_period:
        t.take(r"\b(?:between|from)\b(?=\s*\0)")
        t.take(r"(?<=\0)\s*-\s*(?=\0)")
    return spans, is_period


def span_said(s: DateSpan) -> str:
    """A span as the form writes it, and as it is read back."""
    if s.month_only or s.start == s.end:
        return s.text()
    return f"{'' if s.start == date.min else s.start.isoformat()}..{'' if s.end == date.max else s.end.isoformat()}"
