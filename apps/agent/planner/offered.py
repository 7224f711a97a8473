"""The form as a page shows it: its fields with the choices that these scenes and files allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps.agent.planner.attributes import some_parts
from apps.agent.planner.facts import methods_of
from apps.agent.planner.fields import RELATION_WORDS, TASK_TYPES, Form
from apps.agent.planner.lexicon import lexicon, missing_roles
from apps.core.evidence.plan import Question
from apps.core.geo.vector import POLYGONS
from apps.verification.quality import quality_band_of

# What a form on the page has no field for, and how it is told.
_BESIDE = {
    "where": "further conditions", "second": "the figure that it is compared with", "clip": "cut at the outline",
    "denominator": "the whole of the share", "length_of": "which length of polygons", "over": "the statistic over single things",
    "rank": "the rank", "top": "how many are named", "others": "further targets", "is_outside": "outside instead of inside",
    "buffer_m": "the distance about the polygons", "by": "the attribute", "nearest_k": "how many of the nearest",
    "is_not": "what is not it",
    "is_closed": "whether the limit itself counts", "is_change": "the change between two dates", "change_sign": "loss or gain",
    "is_relative": "in per cent of the first", "distance_statistic": "which distance", "limit": "the limit",
    "limit_op": "how the limit is compared", "rows_as": "how many of them", "is_named": "their names",
}  # fmt: skip


def beside_the_fields(form: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """(what of a filled form a page has no field for, how that is told); both empty where there is nothing. Put into a form again
    it keeps a question what it was."""
    default = Form.model_validate({"what": "statistic"}).model_dump(mode="json")
    rest = {k: v for k, v in form.items() if k in _BESIDE and v not in (None, "", default.get(k)) and v != []}
    zones = form.get("zones")
    if isinstance(zones, list | tuple) and len(zones) > 1:
        rest["zones"] = list(zones)
    words = [_BESIDE.get(k, "several areas") for k in rest]
    return rest, ", ".join(words)


def form_fields(question: Question) -> list[dict[str, Any]]:
    """The form for a page: one entry a field, with the choices that these scenes allow (name, label, kind, choices)."""
    words = lexicon()
    quantities = [n for n in (*words.indices, *words.bands) if any(not missing_roles(s, n) for s in question.scenes)]
    targets = [n for n, t in words.targets.items() if any(methods_of(s, t.methods) for s in question.scenes)]
    dates = sorted({s.acquired_at.date().isoformat() for s in question.scenes if s.acquired_at})

    can_clear = any(quality_band_of(s.bands) for s in question.scenes)
    parts = [p for v in question.vectors for p in some_parts(v)]
    files = [(f"vector:{v.vector_id}", v.name) for v in (*question.vectors, *parts)]
    areas = [(f"vector:{v.vector_id}", v.name) for v in question.vectors if v.count_of(POLYGONS)]
    areas += [(f"vector:{p.vector_id}", p.name) for p in parts if p.count_of(POLYGONS)]
    for v in question.vectors:
        areas += [(f"vector:{v.vector_id}:{n}", f"{n} in {v.name}") for n in v.names[:50] if v.count_of(POLYGONS)]

    def choices(names: Sequence[str], more: Sequence[tuple[str, str]] = ()) -> list[list[str]]:
        return [["", "–"], *([n, words.title(n)] for n in names), *([key, title] for key, title in more)]

    return [
        {"name": "what", "label": "What is asked", "kind": "choice", "choices": [[w, w] for w in TASK_TYPES]},
        {
            "name": "of",
            "label": "Of",
            "kind": "choice",
            "choices": [["", "–"], *([m, m] for m in ("statistic", "area", "share", "count", "length", "density", "distance"))],
        },
        {"name": "quantity", "label": "Index or band", "kind": "choice", "choices": choices(quantities)},
        {"name": "target", "label": "Target", "kind": "choice", "choices": choices([*targets, *words.objects], files)},
        {
            "name": "reference",
            "label": "Second target",
            "kind": "choice",
            "choices": choices([*targets, *words.objects], files),
        },
        {
            "name": "relation",
            "label": "Relation to it",
            "kind": "choice",
            "choices": [
                ["", "–"],
                ["within", "within a distance of"],
                *([k, w] for k, w in RELATION_WORDS.items() if k != "nearest"),
            ],
        },
        {
            "name": "each",
            "label": "One figure for each of",
            "kind": "choice",
            "choices": [
                ["", "–"],
                ["reference", "the second target’s features"],
                ["target", "the target’s own features"],
                ["zones", "the polygons of “Inside of”"],
            ],
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
            "choices": [
                ["", "left in"],
                *([["clear", "left out"], ["clear_cirrus", "left out, cirrus too"]] if can_clear else []),
            ],
        },
        {"name": "dates", "label": "Dates", "kind": "dates", "choices": [[d, d] for d in dates]},
        {"name": "region", "label": "Region", "kind": "region", "choices": []},
    ]
