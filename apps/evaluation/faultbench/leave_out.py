"""Leave one family of faults out: a verifier fitted without the family and without the case judges both, in full runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from apps.evaluation.faultbench import calibrate
from apps.evaluation.faultbench.faults import Fault
from apps.evaluation.faultbench.figures import drop, figures, r_prop
from apps.evaluation.faultbench.runner import Outcome, Prepared, run_bench
from apps.verification.backends.calibrated import ModelWeights, load_weights

START = "calibrated-1"


def leave_one_family_out(
    prepared: Prepared,
    outcomes: Sequence[Outcome],
    faults: Sequence[Fault],
    *,
    limit: int | None = None,
    err: TextIO | None = None,
) -> dict[str, Any]:
    """Figures with held-out weights, and how far R_prop falls against the runs without verification in ``outcomes``.

    Rules have no weights: what they stop, they stop with and without the family.
    """
    samples = calibrate.collect(prepared, faults, limit=limit, err=err)
    start = load_weights(START)
    made: dict[tuple[str, int], ModelWeights] = {}

    def weights_for(case: Any, fault: Fault | None) -> ModelWeights:
        key = (fault.family if fault is not None else "", calibrate.fold_of(case.name))
        if key not in made:
            rows = calibrate.weighted(calibrate.without(samples, family=key[0], fold=key[1]))
            made[key] = calibrate.calibrated(rows, start, f"without {key[0] or 'none'}, fold {key[1]}")
        return made[key]

    after = run_bench(prepared, faults, configurations=["verification_prior"], limit=limit, weights_for=weights_for)
    before = [o for o in outcomes if o.configuration == "none"]
    return {
        "models": len(made),
        **figures(after),
        "drop": drop(before, after, 400, 7),
        "families": {
            f: {
                "none": r_prop([o for o in before if o.family == f]),
                "held_out": r_prop([o for o in after if o.family == f]),
                "runs": sum(o.is_incorrect for o in after if o.family == f),
            }
            for f in sorted({o.family for o in after if o.fault})
        },
    }
