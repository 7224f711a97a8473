"""Value of information and agreement, pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence


def uncertainty(p_correct: float | None) -> float:
    """Entropy of a Bernoulli, in bits (0 … 1); an observation without a probability is wholly uncertain."""
    if p_correct is None:
        return 1.0
    if p_correct <= 0 or p_correct >= 1:
        return 0.0
    return -(p_correct * math.log2(p_correct) + (1 - p_correct) * math.log2(1 - p_correct))


def value_of_information(*, p_correct: float | None, is_under_answer: bool, blocks_answer: bool) -> float:
    """Uncertainty × effect on the answer: 1 where the answer rests on it or waits for it, 0.3 otherwise."""
    return uncertainty(p_correct) * (1.0 if is_under_answer or blocks_answer else 0.3)


def krippendorff_alpha(units: Sequence[Sequence[str]]) -> float | None:
    """Krippendorff's alpha for nominal values (Krippendorff 2011): each unit holds the values that any number of people gave it.
    None with no unit of two, or with one value only."""
    paired = [unit for unit in units if len(unit) > 1]
    totals = Counter(v for unit in paired for v in unit)
    n = sum(totals.values())
    expected = n * n - sum(k * k for k in totals.values())
    if not expected:
        return None
    differ = sum((len(unit) ** 2 - sum(k * k for k in Counter(unit).values())) / (len(unit) - 1) for unit in paired)
    return 1 - (n - 1) * differ / expected


def agreement(pairs: Sequence[tuple[str, str]]) -> dict[str, float | int | None]:
    """Share of equal verdicts and Cohen's kappa (Cohen 1960) over (first, second) verdicts of two reviewers on one object."""
    n = len(pairs)
    if n == 0:
        return {"n": 0, "observed": None, "kappa": None}
    observed = sum(a == b for a, b in pairs) / n
    values = {v for pair in pairs for v in pair}
    expected = sum((sum(a == v for a, _ in pairs) / n) * (sum(b == v for _, b in pairs) / n) for v in values)
    kappa = None if expected >= 1 else (observed - expected) / (1 - expected)
    return {"n": n, "observed": observed, "kappa": kappa}
