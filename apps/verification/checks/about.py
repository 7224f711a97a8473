"""Contract of a call with its question: it is about the scenes, the dates, the region and the targets that were asked about."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from apps.verification import words
from apps.verification.calls import scenes_under
from apps.verification.case import Case, Finding, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check


@check(
    "scenes_as_asked", catches=("another scene's result", "one date for many"), reads=("/arguments", "/inputs"), family="contract"
)
def scenes_as_asked(case: Case) -> Finding:
    """The scenes that the call names are the ones that the tool read, all of them and no other."""
    asked = case.scene_ids
    used = [i.scene_id for i in case.observation.inputs if i.scene_id]
    if not asked or not case.observation.inputs:
        return not_applicable("the call names no scene, or no inputs are on record")
    if not used:
        return inconclusive("The inputs do not say which scenes they are.", at=("/inputs/0/scene_id",))
    missing, foreign = set(asked) - set(used), set(used) - set(asked)
    if missing or foreign:
        what = [f"{len(missing)} scenes that were asked for were not read"] if missing else []
        what += [f"{len(foreign)} scenes were read that were not asked for"] if foreign else []
        return failed(
            "; ".join(what).capitalize() + "; call again with the scenes of the plan.",
            measured=sorted(set(used)),
            expected=sorted(set(asked)),
            at=("/inputs", "/arguments"),
        )
    return passed("The scenes read are the scenes asked.", measured=len(set(used)), expected=len(set(asked)), at=("/inputs",))


def _references(case: Case) -> set[str]:
    """Scenes that serve an anomaly of the graph as its reference alone."""
    past: set[str] = set()
    now: set[str] = set()
    for node in case.nodes.values():
        if node["op"] == "raster.product.anomaly" and node["inputs"]:
            now |= scenes_under(case, node["inputs"][:1])
            past |= scenes_under(case, node["inputs"][1:])
    return past - now


def _beyond(text: str, year: int | None, month: int, day: date) -> bool:
    """Whether a day lies on that side of a single month with its year that "since" or "until" tells."""
    if year is None:
        return False
    here, there = (day.year, day.month), (year, month)
    is_later = re.search(r"\b(?:since|after|from)\b", text) is not None and here >= there
    return is_later or (re.search(r"\b(?:until|till|before|up to)\b", text) is not None and here <= there)


@check(
    "dates_as_asked",
    catches=("one date for many", "another scene's result", "day for night"),
    reads=("/inputs", "/task/question"),
    family="contract",
)
def dates_as_asked(case: Case) -> Finding:
    """Where the question names days, months or years, every dated input falls on one of them (or between two of them). What an
    anomaly is compared with is of other dates by its nature."""
    past = _references(case)
    dated = [(k, i.acquired_at.date()) for k, i in enumerate(case.observation.inputs) if i.acquired_at and i.scene_id not in past]
    days, months, years = words.days_named(case.text), words.months_named(case.text), words.years_named(case.text)
    if not dated or not (days or months or years):
        return not_applicable("no date in the question, or none in the inputs")
    spans = re.search(r"\b(between|from|since|until|till|through|during|after|before|over)\b", case.text) is not None
    for k, day in dated:
        if days:
            ok = day in days or (len(days) > 1 and spans and min(days) <= day <= max(days)) or (len(days) == 1 and spans)
        elif months:
            ok = any(m == day.month and (y is None or y == day.year) for y, m in months) or (spans and len(months) > 1)
            ok = ok or (len(months) == 1 and _beyond(case.text, *months[0], day))
        else:
            ok = day.year in years or (spans and (len(years) == 1 or min(years) <= day.year <= max(years)))
        if not ok:
            return failed(
                "An input was acquired at another time than the question names; use the scenes of the dates asked.",
                measured=day.isoformat(),
                expected=[d.isoformat() for d in days] or [f"{y or ''}-{m:02d}" for y, m in months] or sorted(years),
                at=(f"/inputs/{k}/acquired_at", "/task/question"),
            )
    return passed("The inputs are of the dates asked.", measured=[d.isoformat() for _, d in dated], at=("/inputs",))


@check(
    "region_as_asked",
    catches=("clipped region", "region left out"),
    reads=("/arguments/region", "/task/question"),
    family="contract",
)
def region_as_asked(case: Case) -> Finding:
    """Where the question is about a region, the call, or the layer that it uses, was limited to exactly that region."""
    if case.question is None or not case.question.region:
        mine = case.observation.arguments_passed.get("region") or case.observation.arguments.get("region")
        if case.question is not None and mine and case.kind != "catalog":
            return failed(
                "The question is about whole scenes, the call is limited to a region.",
                measured="a region",
                expected="none",
                at=("/arguments/region",),
                severity="warn",
            )
        return not_applicable("the question has no region")
    wanted = dict(case.question.region)
    for holder in (case.observation, *case.parents):
        given = holder.arguments_passed.get("region") or holder.arguments.get("region")
        sources = holder.arguments.get("sources")
        drawn = [s.get("geometry") for s in sources if isinstance(s, dict)] if isinstance(sources, list) else []
        for one in (given, *drawn):
            if one is None:
                continue
            if not isinstance(one, dict) or _coordinates(one) != _coordinates(wanted):
                return failed(
                    "The call is limited to another region than the question's; call again with the question's region.",
                    measured="another region",
                    expected="the question's region",
                    at=("/arguments/region",),
                )
            return passed("The call is limited to the question's region.", at=("/arguments/region",))
    if case.kind == "catalog":
        return not_applicable("a catalogue needs no region")
    return failed(
        "The question is about a region, but neither the call nor its inputs are limited to it.",
        measured="no region",
        expected="the question's region",
        at=("/arguments/region",),
    )


def _coordinates(geometry: dict[str, Any]) -> list[float]:
    out: list[float] = []
    todo: list[Any] = [
        geometry.get(
            "coordinates", geometry.get("geometry", {}).get("coordinates") if isinstance(geometry.get("geometry"), dict) else None
        )
    ]
    while todo:
        at = todo.pop(0)
        if isinstance(at, (list, tuple)):
            todo = list(at) + todo
        else:
            value = number_of(at)
            if value is not None:
                out.append(round(value, 9))
    return out


_STOP = frozenset({"the", "and", "of", "in", "all", "any", "area", "areas", "object", "objects", "region", "regions"})


_SYNONYMS: dict[str, tuple[str, ...]] = {
    "vehicle": ("car", "truck", "bus", "van", "vehicle"),
    "plane": ("plane", "aircraft", "airplane", "jet"),
    "airplane": ("plane", "aircraft", "airplane", "jet"),
    "ship": ("ship", "boat", "vessel"),
    "boat": ("boat", "ship", "vessel"),
    "tree": ("tree", "crown"),
    "building": ("building", "house", "roof", "built"),
    "water": ("water", "flood", "lake", "river", "sea", "pond", "inundat", "wet"),
    "vegetation": ("vegetat", "green", "plant", "crop", "forest", "tree", "grass", "ndvi"),
    "bare": ("bare", "soil", "sand"),
    "built": ("built", "urban", "impervious", "building", "city"),
    "built-up": ("built", "urban"),
}


# Kinds of things that none can be taken for another, by the words for them.
_THINGS: dict[str, re.Pattern[str]] = {
    name: re.compile(rf"\b(?:{words_})\b(?!-free)", re.I)
    for name, words_ in {
        "vehicles": r"cars?|trucks?|lorr(?:y|ies)|bus(?:es)?|vans?|vehicles?",
        "planes": r"planes?|aircraft|airplanes?|aeroplanes?|jets?",
        "ships": r"ships?|boats?|vessels?",
        "plants": r"trees?|crowns?|vegetat\w+|green(?:ery|spaces?)?|plants?|crops?|forests?|grass\w*|woods?|woodlands?|canop\w+",
        "water": r"waters?|floods?|flooded|lakes?|rivers?|seas?|ponds?|inundat\w+|wet|wetlands?|reservoirs?|oceans?",
        "snow": r"snow|snow[ -]covered|ice|glaciers?",
        "bare land": r"bare|soils?|sands?",
        "buildings": r"built|built[ -]up|urban|buildings?|houses?|roofs?|impervious|cit(?:y|ies)|towns?",
        "tanks": r"tanks?",
    }.items()
}


_ASKED_FOR = re.compile(
    r"\b(?:how many|how much|number of|count of|area of|share of|share is|density of|covered by|(?:are|is) there any)\s+"
    r"((?:[\w-]+\s*){1,3})",
    re.I,
)


def _things(text: str) -> set[str]:
    return {name for name, pattern in _THINGS.items() if pattern.search(text)}


def _other_thing(case: Case) -> tuple[list[str], list[str]] | None:
    """(kinds of things that are measured, kinds that the question asks for) where the question speaks of none of the former."""
    spec, sources = case.arguments.get("spec"), case.arguments.get("sources")
    if case.observation.tool == "measure" and isinstance(spec, dict) and isinstance(sources, list):
        names = [str(s.get("name")) for s in sources if isinstance(s, dict) and s.get("mode") in ("objects", "regions")]
        if not names or len(names) < len(sources):
            return None
    else:
        groups = case.arguments.get("target_groups")
        if case.observation.tool != "perceive" or not isinstance(groups, dict):
            return None
        names = [str(n) for n in groups]
    mine = [_things(n.replace("_", " ")) for n in names]
    asked = {t for m in _ASKED_FOR.finditer(case.text) for t in _things(m[1])}
    if not mine or not all(mine) or not asked or set().union(*mine) & _things(case.text):
        return None
    return sorted(set().union(*mine)), sorted(asked)


@check(
    "target_as_asked",
    catches=("wrong target",),
    reads=("/arguments/target_groups", "/arguments/sources", "/task/question"),
    family="contract",
)
def target_as_asked(case: Case) -> Finding:
    """The targets that the detector looks for are named in the question; things of one kind are no answer to a question about
    another."""
    other = _other_thing(case)
    if other is not None:
        return failed(
            f"The question asks for {', '.join(other[1])}, the call is about {', '.join(other[0])}; ask for what is meant.",
            measured=other[0],
            expected=other[1],
            at=("/arguments", "/task/question"),
        )
    groups = case.arguments.get("target_groups")
    if case.observation.tool != "perceive" or not isinstance(groups, dict) or not groups:
        return not_applicable("the call names no targets")
    method = case.arguments.get("regions_method")
    if isinstance(method, dict) and method.get("kind") == "prompt" and not any(_things(str(n)) for n in groups):
        return not_applicable("the thing was pointed at and not named")
    for name, prompts in groups.items():
        names = {str(name).lower(), *(str(p).lower() for p in (prompts if isinstance(prompts, list) else ()))}
        stems = {
            s
            for n in names
            for w in re.findall(r"[a-z\-]+", n)
            if w not in _STOP
            for s in (_SYNONYMS.get(w, ()) or (w.rstrip("s")[:6],))
        }
        if not any(s in case.text for s in stems):
            return failed(
                f"The question does not speak of {name!r}.",
                measured=sorted(names),
                expected="a target of the question",
                at=("/arguments/target_groups", "/task/question"),
                severity="warn",
            )
    return passed("The targets are the question's.", measured=sorted(map(str, groups)), at=("/arguments/target_groups",))
