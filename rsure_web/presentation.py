"""How values look on the page: words, icons and numbers. Filters and tags are built in to every template.

One rule runs through all: a number never claims more than it is. A probability is never rounded to 0 or 1,
what is not finite is shown as missing, and a missing value is a dash and not a zero.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

from django import template
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import NoReverseMatch, reverse
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe

from apps.agent.planner.can_do import KINDS, WHERE_ALL
from apps.agent.units import true_minus, unit_sign, with_sign
from apps.core.evidence.decision import VERDICT_REASONS

register = template.Library()

_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_REASONS = dict(VERDICT_REASONS)
# values that are names of a program: change_vector, AnnualCrop
_CODE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
_CAMEL = re.compile(r"(?:[A-Z][a-z]+){2,}")
_CAMEL_JOINT = re.compile(r"(?<=[a-z])[A-Z]")
# rows whose name says little by itself
_NAMES = {"n_px": "pixels", "n_px_is": "what the pixels are", "n_passes": "passes over the data", "px_read": "pixels read"}
# units that the names of evidence end with
_SUFFIXES = {"m": "m", "m2": "m²", "px": "px", "s": "s", "ha": "ha"}
MINUS, DASH, THIN = "\N{MINUS SIGN}", "\N{EN DASH}", "\N{NARROW NO-BREAK SPACE}"

# value -> (CSS kind, word, icon): icon, word and colour, always all three
DECISIONS = {
    "accept": ("accept", "Accepted", ""),
    "request_evidence": ("ask", "Evidence asked", "q"),
    "reject": ("reject", "Rejected", "x"),
}
VERDICTS = {
    "accept": ("right", "Right", "check"),
    "reject": ("wrong", "Wrong", "x"),
    "unsure": ("unsure", "Unsure", "q"),
}
OUTCOMES = {
    "passed": ("pass", "Passed", "check"),
    "failed": ("fail", "Failed", "x"),
    "inconclusive": ("open", "Inconclusive", "q"),
    "not_applicable": ("na", "Not applicable", "dash"),
    "errored": ("err", "Errored", "warn"),
}
LIGHTS = {"ok": ("ok", "Good", "check"), "warn": ("warn", "Check", "warn"), "block": ("block", "Fix", "block")}
# failures first, passes last
OUTCOME_ORDER = ("errored", "failed", "inconclusive", "passed", "not_applicable")


def _field(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


@register.simple_tag
def icon(name: str, size: str = "") -> SafeString:
    """`{% icon "chip" %}` or `{% icon "chip" "s" %}`: decoration beside a word, so hidden from readers."""
    return format_html('<svg class="i {}" aria-hidden="true"><use href="{}#i-{}"/></svg>', size, icons_url(), name)


@cache
def icons_url() -> str:
    """Address of the sheet of icons, which a page names hundreds of times; looked up once a process."""
    return static("build/icons.svg")


@register.filter
def decision_kind(value: str) -> str:
    return DECISIONS[value][0]


@register.filter
def decision_word(value: str) -> str:
    return DECISIONS[value][1]


@register.filter
def decision_icon(value: str) -> str:
    return DECISIONS[value][2]


@register.filter
def verdict_kind(value: str | None) -> str:
    return VERDICTS[value][0] if value else "none"


@register.filter
def verdict_word(value: str | None) -> str:
    return VERDICTS[value][1] if value else "No person yet"


@register.filter
def verdict_icon(value: str | None) -> str:
    return VERDICTS[value][2] if value else ""


@register.filter
def outcome_kind(value: str) -> str:
    return OUTCOMES[value][0]


@register.filter
def outcome_word(value: str) -> str:
    return OUTCOMES[value][1]


@register.filter
def outcome_icon(value: str) -> str:
    return OUTCOMES[value][2]


@register.filter
def light_word(value: str) -> str:
    return LIGHTS[value][1]


@register.filter
def light_icon(value: str) -> str:
    return LIGHTS[value][2]


@register.filter
def failures_first(checks: Sequence[Any]) -> list[Any]:
    """Check results, what failed on top, blocking before warning; the order within is kept."""

    def place(check: Any) -> tuple[int, int]:
        return OUTCOME_ORDER.index(_field(check, "outcome")), 0 if _field(check, "severity") == "block" else 1

    return sorted(checks, key=place)


@register.filter
def with_outcome(checks: Any, outcome: str) -> list[Any]:
    """Checks of that outcome, in order; ``!passed`` takes all others."""
    wanted, is_same = outcome.removeprefix("!"), not outcome.startswith("!")
    return [c for c in checks or () if (_field(c, "outcome") == wanted) is is_same]


@register.filter
def applicable(checks: Sequence[Any]) -> list[Any]:
    """Results of the checks that had something to say."""
    return [check for check in checks if _field(check, "outcome") != "not_applicable"]


@register.filter
def not_applicable(checks: Sequence[Any]) -> list[Any]:
    return [check for check in checks if _field(check, "outcome") == "not_applicable"]


@register.filter
def outcome_counts(checks: Sequence[Any]) -> list[dict[str, Any]]:
    """[{outcome, n}] of what occurs, failures first."""
    outcomes = [_field(check, "outcome") for check in checks]
    return [{"outcome": name, "n": outcomes.count(name)} for name in OUTCOME_ORDER if name in outcomes]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def format_number(value: Any, digits: int | None = None) -> str:
    """A number for the page: grouped thousands, true minus; floats to `digits` decimals or 4 significant figures."""
    if value is None or not _is_number(value) or not math.isfinite(value):
        return DASH
    if digits is not None:
        text = f"{value:,.{digits}f}"
    elif isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        text = f"{int(value):,}"
    else:
        magnitude = math.floor(math.log10(abs(value)))
        if magnitude < -4 or magnitude >= 9:
            text = f"{value:.3e}"
        else:
            text = f"{value:,.{max(0, 3 - magnitude)}f}"
            # 0.5 stays 0.5: no digits that the number does not have
            exact = f"{value:,}"
            if "e" not in exact and len(exact) < len(text):
                text = exact
    # "-0.00" is a rounded nothing, not a negative number
    if text.startswith("-") and not any(sign in "123456789" for sign in text):
        text = text[1:]
    return text.replace("-", MINUS)


@register.filter
def number(value: Any, digits: int | None = None) -> str:
    return format_number(value, digits)


@register.filter
def share(value: Any) -> str:
    """A fraction as per cent with 3 significant figures: 0.0956 -> 9.56 %. Never rounded to 0 or 100."""
    if value is None or not _is_number(value) or not math.isfinite(value):
        return DASH
    percent = value * 100
    if 0 < percent < 0.01:
        return f"<{THIN}0.01{THIN}%"
    if 99.99 < percent < 100:
        return f">{THIN}99.99{THIN}%"
    digits = 2 if abs(percent) < 10 or percent > 99.9 else 1
    text = f"{percent:.{digits}f}"
    return text.rstrip("0").rstrip(".").replace("-", MINUS) + f"{THIN}%"


@register.filter
def probability(value: Any) -> str:
    """.86 with two places; never .00 or 1.00."""
    if value is None or not _is_number(value) or not math.isfinite(value):
        return DASH
    if value < 0.01:
        return "<.01"
    if value > 0.99:
        return ">.99"
    return f"{value:.2f}"[1:]


@register.filter
def r_hat(value: Any) -> str:
    return format_number(value, 2)


@register.filter
def seconds(value: Any) -> str:
    """0.0123 -> 12 ms; 3.21 -> 3.2 s; 95 -> 1 min 35 s."""
    if value is None or not _is_number(value) or not math.isfinite(value):
        return DASH
    if value < 0.9995:
        return f"{value * 1000:.0f}{THIN}ms"
    if value < 60:
        return f"{value:.1f}{THIN}s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes}{THIN}min {rest}{THIN}s"
    return f"{minutes // 60}{THIN}h {minutes % 60}{THIN}min"


@register.filter
def size(value: Any) -> str:
    """Bytes in binary-free units: 7,812 -> 7.8 kB."""
    if value is None or not _is_number(value):
        return DASH
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            return f"{amount:.0f}{THIN}{unit}" if unit == "B" else f"{amount:.1f}{THIN}{unit}"
        amount /= 1000
    raise AssertionError("unreachable")


@register.filter
def unit(value: Any) -> str:
    """Unit as written on the page; the dimensionless `1` is not shown."""
    if not value or value == "1":
        return ""
    return "%" if value == "percent" else unit_sign(str(value))


@register.filter
def in_unit(text: Any, value: Any) -> str:
    """A written figure with its unit behind: 302.4 ha, 14.68°; the figure alone where it has none."""
    return with_sign(str(text), {"percent": "%", "": "1", "None": "1"}.get(str(value), str(value)))


@register.filter
def utc(value: Any) -> str:
    """A time as 2026-11-30 14:02 UTC; takes aware datetimes and ISO text."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return str(value)
    if not isinstance(value, datetime):
        return DASH
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


@register.filter
def words(value: Any) -> str:
    """snake_case as words: object_counting -> object counting."""
    return str(value).replace("_", " ")


@register.filter
def reason_words(value: Any) -> str:
    """Why a person found an observation wrong, as the page offers it: missed -> Objects or area are missed."""
    return _REASONS.get(str(value), words(value))


def _summary(entries: Sequence[Mapping[str, Any]]) -> str:
    """A list of records in a word: how many, and their states where they have one."""
    states = [str(entry["status"]) for entry in entries if isinstance(entry.get("status"), str)]
    if len(states) == len(entries):
        return ", ".join(f"{states.count(state):,} {state}" for state in dict.fromkeys(states))
    return f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}"


def _is_range(value: Mapping[str, Any]) -> bool:
    return "low" in value and "high" in value and "counts" not in value


def _range(value: Mapping[str, Any]) -> str:
    """A range of plausible values: "−1 to 1", "0 to 10 km²", "at least 0 m"; with its reason where one is given."""
    low, high = value["low"], value["high"]
    if low is None and high is None:
        text = "any value"
    elif high is None:
        text = f"at least {_text(low)}"
    elif low is None:
        text = f"at most {_text(high)}"
    else:
        text = f"{_text(low)} to {_text(high)}"
    of = unit(value.get("unit"))
    why = value.get("why")
    # a number stays beside its unit, and an angle's sign at the number
    return ("" if of == "°" else "\N{NO-BREAK SPACE}").join(filter(None, [text, of])) + (f" ({why})" if why else "")


@register.filter
def minus(text: Any) -> str:
    """A true minus sign before a number below zero and between the parts of a formula; dates and names keep their hyphens."""
    return true_minus(str(text)).replace(" - ", f" {MINUS} ")


@register.filter
def prose(text: Any) -> SafeString:
    """A sentence of the record for reading: true minus signs, and no date broken at the end of a line."""
    said = conditional_escape(minus(text))
    return mark_safe(_DATE.sub(r'<span class="nowrap">\g<0></span>', said))


def _said(text: str) -> str:
    """A value of the record in words: ``change_vector`` and ``AnnualCrop`` are names of a program."""
    if _CODE.fullmatch(text):
        return words(text)
    return str(minus(_camel_words(text)))


def _camel_words(name: str) -> str:
    return _CAMEL_JOINT.sub(lambda m: f" {m[0].lower()}", name) if _CAMEL.fullmatch(name) else name


def _measured(name: str, value: Any) -> tuple[str, str]:
    """Name of a row and the unit of its figure: ``not_seen_m2`` is "not seen", in m²."""
    if name in _NAMES:
        return _NAMES[name], ""
    stem, _, last = name.rpartition("_")
    figures = value.values() if isinstance(value, Mapping) else [value]
    if stem and last in _SUFFIXES and all(map(_is_number, figures)):
        return stem.removeprefix("n_"), _SUFFIXES[last]
    return name.removeprefix("n_"), ""


def _text(value: Any) -> str:
    """One evidence value as text; long sequences are cut and say so."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if _is_number(value):
        return format_number(value)
    if isinstance(value, str):
        return _said(value) if value else "none"
    if isinstance(value, Mapping):
        if _is_range(value):
            return _range(value)
        return ", ".join(f"{words(name)} {_text(part)}" for name, part in value.items()) or "none"
    if isinstance(value, Sequence):
        if value and all(isinstance(part, Mapping) for part in value):
            return _summary(value)
        # positions and ranges stay together
        shown = ", ".join(f"({_text(part)})" if isinstance(part, list | tuple) else _text(part) for part in value[:8])
        return f"{shown} … {len(value):,} in all" if len(value) > 8 else shown or "none"
    return str(value)


def _leaves(value: Any) -> int:
    """How many single values a nested one holds."""
    if isinstance(value, Mapping):
        return sum(_leaves(part) for part in value.values())
    if isinstance(value, list | tuple):
        return sum(_leaves(part) for part in value)
    return 1


def _is_crowded(value: Any) -> bool:
    """Whether a value read out in a line would be a heap of numbers without names."""
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return any(isinstance(part, Mapping | list | tuple) for part in parts) and _leaves(value) > 16


def _degrees(value: Any) -> str:
    """Longitudes and latitudes to a metre: five decimals, pairs in brackets."""
    if isinstance(value, list | tuple):
        return ", ".join(f"({_degrees(part)})" if isinstance(part, list | tuple) else _degrees(part) for part in value)
    return f"{value:.5f}".replace("-", "−") if _is_number(value) else _text(value)


@register.filter
def as_text(value: Any) -> str:
    return _text(value)


@register.filter
def evidence_rows(part: Any) -> list[dict[str, Any]]:
    """Rows of one part of the evidence (a mapping or a pydantic model, extras included); records within it are indented."""
    data = part.model_dump(mode="json") if hasattr(part, "model_dump") else dict(part or {})
    rows: list[dict[str, Any]] = []
    for name, value in data.items():
        # a record of one record says nothing of its own: its name joins the other
        while isinstance(value, Mapping) and len(value) == 1 and isinstance(next(iter(value.values())), Mapping):
            ((inner, value),) = value.items()
            name = f"{name} · {inner}"
        if isinstance(value, Mapping) and value.get("given") is False:
            rows.append(_row(name, "the whole image"))
            continue
        if isinstance(value, Mapping) and not _is_range(value):
            # of what was not asked for nothing is said
            value = {k: part for k, part in value.items() if part is not None and part != "" and part != []} or None
        same = list(value.values()) if isinstance(value, Mapping) else []
        # figures by name are few and each is read; the same of a dozen scenes is said once
        if same and len(same) > (6 if _is_number(same[0]) else 3) and len({_text(part) for part in same}) == 1:
            row = _row(name, same[0])
            rows.append({**row, "text": f"{row['text']} (each of {len(same)})"})
        elif isinstance(value, Mapping) and len(value) > 1 and not _is_range(value):
            head, of = _measured(name, value)
            rows.append({"name": words(head), "text": "", "is_head": True, "is_part": False})
            rows += [{**_row(part, inner, of), "is_part": True} for part, inner in value.items()]
        else:
            rows.append(_row(name, value))
    return rows


def _quality_mask(entry: Mapping[str, Any]) -> str:
    """What a quality band hid of one image: flags, scheme and the share of the pixels that were asked for."""
    flags = entry.get("flags")
    named = f"{', '.join(str(f) for f in flags)} by {entry.get('scheme')}" if isinstance(flags, list | tuple) else "applied"
    share, n = entry.get("share"), entry.get("of_px")
    if isinstance(share, int | float) and isinstance(n, int):
        return f"{named}: {share:.1%} of {n:,} pixels hidden"
    return named


def _row(name: str, value: Any, of: str = "") -> dict[str, Any]:
    """``of``: the unit of a figure, where the name of the record that it is a part of told it."""
    is_records = isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
    is_crowded = not is_records and _is_crowded(value)
    if is_crowded:
        text = f"{len(value) if isinstance(value, list) else _leaves(value):,} values"
    elif "lonlat" in name and isinstance(value, list | tuple):
        text = _degrees(value)
    elif name == "quality_mask" and is_records:
        text = "; ".join(_quality_mask(v) for v in value)
    else:
        text = _text(value)
    name, own = _measured(name, value)
    if _is_number(value) and (own or of):
        text = f"{text}\N{NO-BREAK SPACE}{own or of}"
    return {
        "name": _camel_words(words(name)),
        "text": text,
        # told also where they are not so: to a template a key that is absent costs far more
        "is_head": False,
        "is_part": False,
        "is_missing": value is None,
        # a figure that is broken in two lines reads as another one
        "is_figure": _is_number(value) or (isinstance(value, Mapping) and _is_range(value) and not value.get("why")),
        # records and heaps of numbers are summed up in the row and shown whole on demand
        "whole": pretty_json(value) if is_records or is_crowded else "",
    }


@register.filter
def offered_apart(text: str) -> dict[str, Any]:
    """A refusal's words without the list of what can be answered, and that list (``offered``), which is long and folded away.

    On paper nothing is unfolded: a report prints the whole text.
    """
    nearest = text.partition(" I can answer, nearest to this: ")
    if nearest[1]:
        return {"text": f"{nearest[0]} {nearest[2].partition(WHERE_ALL)[2]}".strip(), "offered": [told for told, _ in KINDS]}
    why, sign, rest = text.partition(" I can answer: ")  # as runs of before say it
    if not sign:
        return {"text": text, "offered": []}
    listed, _, after = rest.partition(". ")
    return {"text": f"{why} {after}".strip(), "offered": [part.removeprefix("and ") for part in listed.rstrip(".").split("; ")]}


@register.filter
def layer_place(layer: Any) -> str:
    """What the coordinates of a stored layer are: "EPSG:32630", or "pixels of the picture" where they are no place."""
    grid = layer.grid
    if grid is not None and grid.is_georeferenced:
        return f"EPSG:{grid.epsg}" if grid.epsg else "a CRS without EPSG code"
    return "pixels of the picture" if grid is not None or layer.crs == "image" else str(layer.crs)


@register.filter
def pretty_json(value: Any) -> str:
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@register.filter
def map_json(config: Any) -> SafeString:
    """The map's configuration inside a script element: `<`, `>` and `&` are escaped as JSON, so it cannot be left."""
    text = json.dumps(config, ensure_ascii=False, default=str, allow_nan=False)
    return mark_safe(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


@register.inclusion_tag("components/prior_bar.html")
def prior_bar(prior: Any, parent: Any = None, low: float = 0.0) -> dict[str, Any]:
    """A prior as a bar from `low` to 1: interval, point and, dashed, the parent it leans on.

    `prior` has r_hat, interval and n (a PriorView or a mapping). Fewer than 20 labelled outcomes are drawn hollow.
    """

    def x(value: float) -> float:
        return round(min(1.0, max(0.0, (value - low) / (1 - low))) * 100, 2)

    r, (left, right), n = _field(prior, "r_hat"), _field(prior, "interval"), _field(prior, "n")
    return {
        "x": x(r),
        "left": x(left),
        "width": round(max(0.5, x(right) - x(left)), 2),
        "parent": x(parent) if _is_number(parent) else None,
        "is_thin": n < 20,
        "r_hat": r,
        "interval": (left, right),
        "n": n,
    }


@register.inclusion_tag("components/meter.html")
def meter(value: float, maximum: float = 1.0, label: str = "", kind: str = "") -> dict[str, Any]:
    """A progress or share bar; `label` names it for readers, `kind` is "quiet" or "thin" or both."""
    part = 0.0 if maximum <= 0 else min(1.0, max(0.0, value / maximum))
    return {"percent": round(part * 100, 1), "label": label, "kind": kind}


@register.inclusion_tag("components/gate.html")
def gate(p: float | None, reject_at: float, accept_at: float) -> dict[str, Any]:
    """Where p_correct lies against the two limits of the policy."""
    return {
        "p": p,
        "reject_at": reject_at,
        "accept_at": accept_at,
        "x": None if p is None else round(p * 100, 1),
        "rx": round(reject_at * 100, 1),
        "ax": round(accept_at * 100, 1),
        "mid": round((accept_at - reject_at) * 100, 1),
        "rest": round((1 - accept_at) * 100, 1),
    }


@register.filter
def contribution(value: Any) -> str:
    """A signed weight: +0.21 or −0.09."""
    text = format_number(value, 2)
    return text if text in (DASH,) or text.startswith(MINUS) else f"+{text}"


# (title, url name, path prefix): shown when the address exists
NAV = (
    ("Home", "home", "/"),
    ("Runs", "run_list", "/runs/"),
    ("Review", "review_list", "/review/"),
    ("Imagery", "scene_list", "/imagery/"),
    ("Priors", "prior_table", "/priors/"),
    ("Evaluation", "evaluation", "/evaluation/"),
)


@lru_cache
def _nav() -> tuple[tuple[str, str, str], ...]:
    found = []
    for title, name, prefix in NAV:
        try:
            found.append((title, reverse(name), prefix))
        except NoReverseMatch:
            continue
    return tuple(found)


def chosen_theme(request: HttpRequest) -> str:
    """light or dark as the person chose it; empty where the device decides."""
    theme = request.COOKIES.get("rsure_theme", "")
    return theme if theme in ("light", "dark") else ""


def page(request: HttpRequest) -> dict[str, Any]:
    """Context processor of base.html: theme, navigation, icons."""
    path = request.path
    return {
        "theme": chosen_theme(request),
        "icons_url": icons_url(),
        "nav": [
            {
                "title": title,
                "url": url,
                "prefix": prefix,
                "is_current": path == url if prefix == "/" else path.startswith(prefix),
            }
            for title, url, prefix in _nav()
        ],
    }
