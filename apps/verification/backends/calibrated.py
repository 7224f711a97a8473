"""The default verifier: a regularised logistic model, monotone in every feature, offline and without a model call.

Its weights are a versioned file with the report of their fit. Missing features contribute nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from apps.verification.backends.contract import Opinion, Subject
from apps.verification.features import FEATURES
from apps.verification.requests import propose_requests

WEIGHTS = Path(__file__).resolve().parent.parent / "weights"
DEFAULT = "calibrated-3"
PRIOR = "prior_logit"


class FeatureWeight(BaseModel):
    """``weight`` has the sign of ``direction``: +1 speaks for the observation, −1 against. The contribution to the log-odds is
    weight × (feature − center); ``center`` is the value at which the feature says nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    weight: float
    center: float = 0.0
    direction: Literal[-1, 1] = 1


class ModelWeights(BaseModel):
    """A weights file. ``knots`` (raw probability, calibrated probability), increasing, interpolated; empty: the raw one."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: str
    made: Literal["by_hand", "fitted"]
    note: str = ""
    intercept: float = 0.0
    features: dict[str, FeatureWeight]
    knots: tuple[tuple[float, float], ...] = ()
    record_cap: float = Field(
        default=1.0, ge=0, le=1, description="most that is given, before the prior, where neither layers nor pixels could be read"
    )
    report: dict[str, JsonValue] = Field(default_factory=dict, description="fold-wise Brier, ECE, AUROC, confusion, sizes")

    def contributions(self, features: Mapping[str, float]) -> dict[str, float]:
        """Log-odds by feature, for features that are there; clipped to ±6 each so that none decides alone by an outlier."""
        return {
            name: max(-6.0, min(6.0, w.weight * (features[name] - w.center)))
            for name, w in self.features.items()
            if name in features
        }

    def probability(self, features: Mapping[str, float]) -> float:
        """Probability in [0, 1] that an observation with these features is right.

        Evidence first: its log-odds are calibrated and, where nothing but the record could be read, capped. The prior's log-odds
        are added to that, so that it neither bends the calibration nor is silenced by the cap.
        """
        held = self.contributions(features)
        beside = held.pop(PRIOR, 0.0)
        p = _sigmoid(self.intercept + sum(held.values()))
        if self.knots:
            xs, ys = zip(*self.knots, strict=True)
            p = float(np.interp(p, xs, ys))
        if features.get("sight") == 0.0:
            p = min(p, self.record_cap)
        if beside:
            p = min(max(p, 1e-9), 1 - 1e-9)
            p = _sigmoid(math.log(p / (1 - p)) + beside)
        return min(max(p, 0.0), 1.0)


def _sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, z))))


def read_weights(path: Path) -> ModelWeights:
    """Raises ValueError (pydantic) where the file is no weights file, or a weight has the wrong sign."""
    weights = ModelWeights.model_validate_json(path.read_text())
    for name, w in weights.features.items():
        if w.weight * w.direction < 0:
            raise ValueError(f"{path.name}: the weight of {name} contradicts its direction; the model must stay monotone")
    return weights


@lru_cache(maxsize=8)
def load_weights(name: str = DEFAULT) -> ModelWeights:
    """The shipped weights of that name (FileNotFoundError where there are none)."""
    return read_weights(WEIGHTS / f"{name}.json")


class CalibratedVerifier:
    """A probability from check results, evidence features, agreement with an independent second look, and the prior."""

    is_local = True

    def __init__(self, weights: ModelWeights | None = None):
        self.weights = weights or load_weights()
        self.name = self.weights.version

    def verify(self, subject: Subject) -> Opinion:
        contributions = self.weights.contributions(subject.features)
        p = self.weights.probability(subject.features)
        ordered = sorted(contributions.items(), key=lambda item: -abs(item[1]))
        reasons = []
        for name, log_odds in ordered[:6]:
            if abs(log_odds) < 0.05:
                continue
            spec = FEATURES.get(name)
            words = spec.words(subject.features[name]) if spec else f"{name} = {subject.features[name]:.3g}"
            reasons.append(f"{'For' if log_odds > 0 else 'Against'}: {words} ({log_odds:+.2f}).")
        requested = (
            ()
            if p >= subject.policy.accept_at or p <= subject.policy.reject_at
            else propose_requests(subject.case, subject.features, contributions)
        )
        return Opinion(p, tuple(reasons), tuple(requested), contributions)


# --- fitting ----------------------------------------------------------------------------------------------------------------
def read_samples(path: Path) -> list[dict[str, Any]]:
    """Lines of ``{"group": task, "label": 0|1, "features": {name: number}, "weight": 1}``. Raises ValueError with the line."""
    samples = []
    for at, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            sample = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path.name}:{at}: it is no JSON") from error
        if not isinstance(sample, dict) or sample.get("label") not in (0, 1) or not _are_numbers(sample.get("features")):
            raise ValueError(f"{path.name}:{at}: a sample needs label 0 or 1, and features with a number or null each")
        weight = sample.get("weight", 1.0)
        if not isinstance(weight, int | float) or not 0 < weight <= 1e9:
            raise ValueError(f"{path.name}:{at}: a weight is a number above 0")
        samples.append(sample)
    return samples


def _are_numbers(features: Any) -> bool:
    return isinstance(features, dict) and all(v is None or isinstance(v, int | float) for v in features.values())


def fit(
    samples: Sequence[Mapping[str, Any]],
    names: Iterable[str],
    *,
    ridge: float = 1.0,
    version: str = "fitted",
    centers: Mapping[str, float] | None = None,
    note: str = "",
    steps: int = 400,
    towards: ModelWeights | None = None,
    fixed: frozenset[str] = frozenset(),
) -> ModelWeights:
    """Weighted logistic regression with an L2 penalty ``ridge`` on standardised weights, each held to its direction's sign.

    The penalty draws towards the weights of ``towards`` (0 without): features that the samples do not move keep those, and
    ``fixed`` ones keep them whatever the samples say.
    Missing features stand at their center. Projected Newton steps with a diagonal bound on the curvature: deterministic.
    """
    names = [n for n in names if n in FEATURES]
    label = np.array([float(s["label"]) for s in samples])
    weight = np.array([float(s.get("weight", 1.0)) for s in samples])
    raw = np.full((len(samples), len(names)), np.nan)
    for i, sample in enumerate(samples):
        for j, name in enumerate(names):
            value = sample["features"].get(name)
            if value is not None:
                raw[i, j] = float(value)
    seen = np.isfinite(raw)
    total = np.maximum((seen * weight[:, None]).sum(axis=0), 1e-9)
    mean = np.where(seen, raw * weight[:, None], 0.0).sum(axis=0) / total
    center = np.array([(centers or {}).get(n, m) for n, m in zip(names, mean, strict=True)])
    x: NDArray[np.float64] = np.where(seen, raw - center, 0.0)
    spread = np.sqrt((weight[:, None] * x**2).sum(axis=0) / max(weight.sum(), 1e-9))
    spread = np.where(spread > 1e-9, spread, 1.0)
    x = x / spread
    sign = np.array([FEATURES[n].direction for n in names], dtype=float)
    held = towards.features if towards is not None else {}
    start = np.array([held[n].weight if n in held else 0.0 for n in names]) * spread
    is_fixed = np.array([n in fixed for n in names], dtype=bool)
    w, b = start.copy(), 0.0
    bound = (
        0.25 * (weight[:, None] * np.abs(x)).T @ (np.abs(x).sum(axis=1, keepdims=True) + 1.0) if len(names) else np.zeros((0, 1))
    )
    curvature = bound[:, 0] + ridge
    curvature_b = 0.25 * float((weight * (np.abs(x).sum(axis=1) + 1.0)).sum()) + 1e-9
    for _ in range(steps):
        p = 1 / (1 + np.exp(-np.clip(x @ w + b, -30, 30)))
        residual = weight * (label - p)
        w = w + (x.T @ residual - ridge * (w - start)) / curvature
        w = np.where(w * sign < 0, 0.0, w)
        w = np.where(is_fixed, start, w)
        b = b + float(residual.sum()) / curvature_b
    return ModelWeights(
        version=version,
        made="fitted",
        note=note,
        intercept=round(b, 6),
        features={
            n: FeatureWeight(
                weight=round(float(w[j] / spread[j]), 6), center=round(float(center[j]), 6), direction=1 if sign[j] > 0 else -1
            )
            for j, n in enumerate(names)
        },
    )
