"""Signs of a whole run, for the question whether its answer will be wrong. A run without an answer is not judged here: that the
answer is missing would give it away."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from apps.verification.records.memory import Call, RecordMemory
from apps.verification.records.wording import KINDS, base_name, leaves, numbers_in

# Longer outputs are series and lists: their numbers meet some choice by chance.
MAX_VALUES = 60
_LAST = (
    "choice_distance", "choice_number_hit", "choice_hit", "choice_scale", "operands_seen", "covers_all", "covers_year",
    "magnitude", "hundred", "parent_doubtful", "tool_asked", "depth", "share_as_asked", "threshold_asked",
)  # fmt: skip
_GREATEST = (
    "choice_number_hit", "choice_hit", "impossible_temperature", "index_extreme", "one_raster_two_roles", "role_mismatch",
    "dates_mixed", "hundred", "parent_doubtful", "repeats",
)  # fmt: skip
_LEAST = ("choice_distance", "choice_scale")
_WORDS = (
    ("share", r"percentage|proportion|ratio|share|percent"), ("trend", r"trend|slope"), ("count", r"how many|count|number of"),
    ("mean", r"mean|average"), ("extreme", r"max|highest|peak|largest"), ("difference", r"difference|change|compare"),
    ("area", r"area"), ("month", r"month"), ("year", r"annual|yearly"), ("day", r"days|daily"), ("forecast", r"predict|forecast"),
    ("temperature", r"lst|temperature"), ("index", r"ndvi|ndwi|ndsi|ndti|nbr"), ("rank", r"rank"), ("image", r"image"),
    ("gsd", r"gsd"),
)  # fmt: skip
_WORD = tuple((name, re.compile(pattern)) for name, pattern in _WORDS)


def answer_signs(
    memory: RecordMemory, calls: Sequence[tuple[Call, Mapping[str, float]]], answer: str
) -> dict[str, float]:
    """Signs of one finished run. ``calls``: each with the signs read before it; ``answer``: the key of the choice taken."""
    out: dict[str, float] = {"calls": float(len(calls))}
    failed = sum(s["failed"] for _, s in calls)
    out |= {"failed": failed, "failed_share": failed / max(1, len(calls)), "silent": sum(s["silent_failure"] for _, s in calls)}
    well = [(c, s) for c, s in calls if not s["failed"] and not s["silent_failure"]]
    valued = [(c, s) for c, s in well if not s["writes"] and not s["kind_catalog"]]
    out |= {"well": float(len(well)), "valued": float(len(valued)), "has_value": float(bool(valued))}
    out["products"] = sum(s["writes"] for _, s in well)
    if valued:
        last = valued[-1][1]
        out |= {f"last_{n}": last[n] for n in _LAST if n in last}
        out["last_kind"] = float(next((i for i, kind in enumerate(KINDS) if last[f"kind_{kind}"]), len(KINDS)))
    for names, pick, word in ((_GREATEST, max, "greatest"), (_LEAST, min, "least")):
        for name in names:
            held = [s[name] for _, s in well if name in s]
            if held:
                out[f"{word}_{name}"] = pick(held)
    for kind in KINDS:
        out[f"well_{kind}"] = sum(s[f"kind_{kind}"] for _, s in well)
    used = {base_name(x) for c, _ in calls if not c.is_failed and c.kind != "catalog"
            for x in leaves(dict(c.arguments)) if isinstance(x, str)}  # fmt: skip
    if memory.listed:
        out["used"], out["listed"] = len(used & memory.listed) / len(memory.listed), float(len(memory.listed))
    for name, pattern in _WORD:
        out[f"asks_{name}"] = float(bool(pattern.search(memory.words)))
    out |= {"choices": float(len(memory.choices)), "question_length": float(len(memory.question))}
    out |= {"choice_is_number": float(bool(memory.choice_values)), "choice_is_percent": float(memory.is_percent)}
    if memory.choice_numbers:
        out["numbers_per_choice"] = float(np.mean([len(row) for row in memory.choice_numbers]))
    if len(memory.choice_values) > 1:
        spread = max(memory.choice_values) - min(memory.choice_values)
        out["choice_spread"] = math.log10(spread / (abs(float(np.mean(memory.choice_values))) + 1e-9) + 1e-4)
    outputs = [numbers_in(c.text) for c, s in valued if not s["kind_classifier"]]
    _support(out, memory, [v for v in outputs if len(v) <= MAX_VALUES], answer)
    return out


def _support(out: dict[str, float], memory: RecordMemory, outputs: Sequence[Sequence[float]], answer: str) -> None:
    """Whether what was observed speaks for the choice taken, and for another."""
    keys = list(memory.choices)
    if answer not in keys:
        return
    chosen, values = keys.index(answer), [v for row in outputs for v in row]
    shares: list[float] = []
    for row in memory.choice_numbers:
        met = [any(c.is_met(v) or (abs(v) <= 1.5 and c.is_met(v * 100)) for v in values) for c in row]
        shares.append(sum(met) / len(met) if met else math.nan)
    if not math.isnan(shares[chosen]):
        out["support_chosen"] = shares[chosen]
        others = [s for i, s in enumerate(shares) if i != chosen and not math.isnan(s)]
        if others:
            out["support_other"] = max(others)
            out["support_gap"] = shares[chosen] - max(others)
    out["chosen_at"] = float(chosen)
    text = memory.choices[answer].lower()
    out["chosen_negative"] = float("no " in text or "not" in text)
    singles = [row[0] for row in outputs if len(row) == 1 and math.isfinite(row[0])]
    if len(memory.choice_values) != len(keys) or not singles:
        return

    def away(v: float) -> list[float]:
        return [abs(abs(v) - abs(c)) / max(abs(c), 1e-9) for c in memory.choice_values]

    last = away(singles[-1])
    nearest = min(last)
    out["last_nearest"] = float(last.index(nearest) == chosen)
    out["last_to_chosen"], out["last_to_nearest"] = math.log10(last[chosen] + 1e-4), math.log10(nearest + 1e-4)
    out["last_gap"] = out["last_to_chosen"] - out["last_to_nearest"]
    if len(last) > 1:
        out["last_margin"] = math.log10(sorted(last)[1] + 1e-4) - out["last_to_nearest"]
    best = [min(away(v)[i] for v in singles) for i in range(len(keys))]
    out["any_nearest"] = float(best.index(min(best)) == chosen)
    out["any_to_chosen"] = math.log10(best[chosen] + 1e-4)
