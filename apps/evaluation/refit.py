"""The calibrated verifier fitted anew from labelled samples, scored by group: no question is in both fitting and scoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from apps.core.errors import UserError
from apps.evaluation.metrics import auroc, brier, confusion, ece, rounded
from apps.verification.backends import calibrated
from apps.verification.backends.calibrated import ModelWeights
from apps.verification.features import FEATURES
from apps.verification.policy import Policy

FOLDS, MIN_GROUPS, SEED = 5, 5, 7


def read_samples(path: Path) -> list[dict[str, Any]]:
    """UserError UNREADABLE or BAD_OBSERVATION with the line."""
    if not path.is_file():
        raise UserError("UNREADABLE", f"There is no file {path.name}.", "Nothing is at that path.", "Check the path.")
    try:
        return calibrated.read_samples(path)
    except ValueError as error:
        raise UserError("BAD_OBSERVATION", f"{path.name} is broken.", str(error)[:300], "Repair or remove that line.") from error


def fit_calibrated(samples: Sequence[Mapping[str, Any]], *, version: str, note: str = "") -> ModelWeights:
    """Weights with the report of their cross-validation. UserError BAD_ARGUMENT with too few questions, or one class only."""
    groups = sorted({str(s.get("group", "")) for s in samples})
    if len(groups) < MIN_GROUPS or len({s["label"] for s in samples}) < 2:
        raise UserError(
            "BAD_ARGUMENT",
            "There is too little to fit on.",
            f"{len(samples)} samples of {len(groups)} questions; {MIN_GROUPS} questions with right and wrong ones are needed.",
            "Gather more verdicts.",
        )
    order = np.random.default_rng(SEED).permutation(len(groups))
    fold_of = {groups[int(i)]: at % min(FOLDS, len(groups)) for at, i in enumerate(order)}
    p = np.zeros(len(samples))
    for fold in set(fold_of.values()):
        inside = [s for s in samples if fold_of[str(s.get("group", ""))] != fold]
        weights = calibrated.fit(inside, FEATURES, version=version)
        for at, sample in enumerate(samples):
            if fold_of[str(sample.get("group", ""))] == fold:
                p[at] = weights.probability(sample["features"])
    whole = calibrated.fit(samples, FEATURES, version=version, note=note)
    return whole.model_copy(update={"report": {"cross_validated": figures(p, samples), "questions": len(groups)}})


def figures(p: np.ndarray[Any, Any], samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Brier, ECE, AUROC of being right, and the confusion of ``reject`` at the policy's threshold."""
    y = np.array([bool(s["label"]) for s in samples])
    policy = Policy()
    return {
        "n": len(samples), "right": int(y.sum()), "brier": rounded(brier(p, y)), "ece": rounded(ece(p, y)),
        "auroc": rounded(auroc(p, y)), "reject": confusion(p <= policy.reject_at, ~y).as_json(),
        "accepted_wrong": int(((p >= policy.accept_at) & ~y).sum()), "policy": policy.label,
    }  # fmt: skip


def compare_calibrated(candidate: ModelWeights, in_use: ModelWeights, samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Both on the same samples; the candidate's cross-validated figures beside, since it may have been fitted on them."""
    out: dict[str, Any] = {}
    for name, weights in (("candidate", candidate), ("in_use", in_use)):
        p = np.array([weights.probability(s["features"]) for s in samples])
        out[name] = {"version": weights.version, **figures(p, samples)}
    out["candidate_cross_validated"] = candidate.report.get("cross_validated")
    return out
