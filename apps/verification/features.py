"""Features of an observation, for the calibrated verifier: few, bounded, each with a direction and words for a person."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apps.core.evidence.decision import CheckResult, PriorView
from apps.core.evidence.observation import REQUIRED_EVIDENCE
from apps.verification.case import Case, number_of
from apps.verification.support import support_agreement

# Checks that compare the call with the question's words, scenes, dates and region.
QUESTION_CHECKS = frozenset(
    {
        "contract.threshold_as_asked",
        "contract.index_as_asked",
        "contract.statistic_as_asked",
        "contract.region_as_asked",
        "contract.dates_as_asked",
        "contract.metric_as_asked",
        "contract.target_as_asked",
        "contract.arguments_passed_as_asked",
        "contract.scenes_as_asked",
    }
)
# How much each passed recomputation is worth as independent support.
SUPPORT: dict[str, float] = {
    "consistency.value_matches_source": 1.0,
    "consistency.mask_matches_source": 1.0,
    "consistency.raster_matches_source": 0.9,
    "consistency.series_matches_source": 0.95,
    "consistency.zonal_matches_source": 1.0,
    "consistency.vector_recomputes": 0.9,
    "consistency.relation_recomputes": 0.9,
    "geometry.landmarks_measured_again": 0.9,
    "consistency.cut_recomputes": 0.9,
    "consistency.rows_recompute": 0.9,
    "consistency.instances_recompute": 0.9,
    "consistency.area_recomputes": 0.6,
    "consistency.statistic_recomputes": 0.6,
    "consistency.share_recomputes": 0.6,
    "consistency.density_recomputes": 0.6,
    "consistency.distance_recomputes": 0.6,
    "consistency.length_recomputes": 0.6,
    "consistency.moran_recomputes": 0.6,
    "consistency.classes_recount": 0.6,
    "consistency.bands_match_source": 0.95,
    "consistency.shift_matches_source": 0.9,
    "consistency.place_matches_scene": 0.9,
    "consistency.catalog_matches_scenes": 0.9,
    "consistency.kind_matches_look": 0.6,
    "consistency.count_equals_kept": 0.55,
    "consistency.series_recomputes": 0.4,
    "consistency.trend_recomputes": 0.4,
    "consistency.ratio_recomputes": 0.35,
    "consistency.boolean_follows": 0.35,
}


# A measure rests on a layer that is verified already: recomputing it from that layer is as good as the layer itself.
MEASURE_SUPPORT = 0.9
MEASURE_CHECKS = frozenset(
    {
        "consistency.area_recomputes",
        "consistency.share_recomputes",
        "consistency.density_recomputes",
        "consistency.distance_recomputes",
        "consistency.length_recomputes",
        "consistency.count_equals_kept",
        "consistency.pieces_recount",
        "consistency.boolean_recomputes",
        "consistency.relation_recomputes",
        "consistency.cut_recomputes",
        "consistency.rows_recompute",
        "consistency.instances_recompute",
    }
)


# Checks that read the source's own pixels, and checks that read the result's layers: how far the verifier could look.
PIXEL_CHECKS = frozenset(
    {
        "consistency.value_matches_source",
        "consistency.mask_matches_source",
        "consistency.raster_matches_source",
        "consistency.series_matches_source",
        "consistency.zonal_matches_source",
        "consistency.bands_match_source",
        "consistency.shift_matches_source",
        "consistency.kind_matches_look",
    }
)
# What is given on the map has no pixels: these read all of it.
THINGS_CHECKS = frozenset(
    {
        "consistency.vector_recomputes",
        "consistency.relation_recomputes",
        "consistency.cut_recomputes",
        "consistency.rows_recompute",
        "consistency.instances_recompute",
    }
)
# Of scenes themselves, which have a place and a date before any pixel is read: these look at all of them.
SCENES_CHECKS = frozenset({"consistency.place_matches_scene", "consistency.catalog_matches_scenes"})
# Of landmarks that a person marked too; where a detector found them, it reads the detector's boxes.
LANDMARKS_CHECK = "geometry.landmarks_measured_again"
LAYER_CHECKS = frozenset(
    {
        LANDMARKS_CHECK,
        "consistency.area_recomputes",
        "consistency.statistic_recomputes",
        "consistency.share_recomputes",
        "consistency.density_recomputes",
        "consistency.mask_count_on_record",
        "consistency.valid_count_recomputes",
        "consistency.count_equals_kept",
        "consistency.pieces_recount",
        "consistency.boolean_recomputes",
        "consistency.distance_recomputes",
        "consistency.length_recomputes",
        "consistency.moran_recomputes",
        "consistency.classes_recount",
        "consistency.relation_recomputes",
        "consistency.cut_recomputes",
        "consistency.rows_recompute",
        "consistency.instances_recompute",
    }
)


# Share of right observations, before any rule, at which the shipped weights were calibrated.
BASE_RATE = 0.65
_BASE_LOGIT = math.log(BASE_RATE / (1 - BASE_RATE))


# beyond so many, warnings and open checks weigh no more
MOST_WARNINGS, MOST_OPEN = 4, 6


@dataclass(frozen=True, slots=True)
class Feature:
    """``direction``: +1 where more of it speaks for the observation. ``phrase`` holds one ``{}`` for the value.

    ``cap``: of a count, the most that is told apart. ``one``: the phrase of a count of one.
    """

    direction: int
    phrase: str
    cap: int = 0
    one: str = ""

    def words(self, value: float) -> str:
        """The phrase with the value: a share to two digits, a count whole, at its cap as "4 or more"."""
        if not self.cap or not float(value).is_integer():
            return self.phrase.format(f"{value:.2f}")
        if value == 1:
            return self.one
        return self.phrase.format(f"{self.cap} or more" if value >= self.cap else f"{value:.0f}")


FEATURES: dict[str, Feature] = {
    "support": Feature(1, "independent recomputation, {} of 1"),
    "sight": Feature(
        1, "how far the verifier could look, {} (0 the record alone, 0.5 the result's layers, 1 the source's pixels)"
    ),
    "look_agreement": Feature(1, "agreement with a second look at the pixels, {}"),
    "question_agreement": Feature(1, "share of question checks that pass, {}"),
    "evidence_share": Feature(1, "share of the required evidence that is there, {}"),
    "valid_share": Feature(1, "share of valid pixels, {}"),
    "warnings": Feature(-1, "{} warnings of the rules", cap=MOST_WARNINGS, one="1 warning of the rules"),
    "open_checks": Feature(-1, "{} checks without an answer", cap=MOST_OPEN, one="1 check without an answer"),
    "score_level": Feature(1, "median detection score above the threshold, {}"),
    "score_doubt": Feature(-1, "share of detections close to the threshold, {}"),
    "candidate_loss": Feature(-1, "share of candidates that were dropped, {}"),
    "separation": Feature(1, "contrast of the mask against what is outside, {} standard deviations"),
    "near_threshold": Feature(-1, "share of pixels close to the threshold, {}"),
    "series_complete": Feature(1, "share of the series that is there, {}"),
    "degenerate": Feature(-1, "degenerate result (nothing or everything), {}"),
    "partial": Feature(-1, "partial status, {}"),
    "support_agreement": Feature(1, "agreement with supporting observations, {}"),
    "support_conflict": Feature(-1, "conflict with supporting observations, {}"),
    "prior_logit": Feature(1, "log-odds of past success of this configuration against those of any observation, {}"),
}


def features_of(case: Case, checks: Sequence[CheckResult], scores: dict[str, float], prior: PriorView | None) -> dict[str, float]:
    """Features by name; what cannot be known is absent, not zero."""
    obs = case.observation
    out: dict[str, float] = {}
    by_name = {c.check: c for c in checks}
    good = {c.check for c in checks if c.outcome == "passed"}
    if "layer_counted" not in scores:
        # numbers on record that agree with each other support nothing: the layer itself was not counted
        good.discard("consistency.count_equals_kept")
    if obs.tool == "perceive" and obs.result.kind == "class":
        # the layer of windows repeats the classifier's own word: that both agree supports nothing
        good.discard("consistency.count_equals_kept")
    worth = [w for name, w in SUPPORT.items() if name in good]
    if obs.tool == "measure" and case.parents and good & MEASURE_CHECKS:
        worth.append(MEASURE_SUPPORT)
    out["support"] = max(worth, default=0.0)
    is_given = bool(good & THINGS_CHECKS) if obs.tool == "measure" else LANDMARKS_CHECK in good
    is_of_things = (is_given and not obs.parents) or bool(good & SCENES_CHECKS)
    out["sight"] = 1.0 if is_of_things or good & PIXEL_CHECKS else 0.5 if good & LAYER_CHECKS else 0.0
    asked = [c for c in checks if c.check in QUESTION_CHECKS and c.outcome in ("passed", "failed", "inconclusive")]
    if asked:
        out["question_agreement"] = sum(c.outcome == "passed" for c in asked) / len(asked)
    out["warnings"] = float(min(MOST_WARNINGS, sum(c.severity == "warn" and c.outcome == "failed" for c in checks)))
    out["open_checks"] = float(min(MOST_OPEN, sum(c.outcome in ("inconclusive", "errored") for c in checks)))
    out["evidence_share"] = _evidence_share(case)
    for name in ("look_agreement", "valid_share", "separation", "near_threshold", "series_complete"):
        if name in scores and math.isfinite(scores[name]):
            out[name] = float(scores[name])
    out["degenerate"] = (
        float(by_name["plausibility.not_degenerate"].outcome == "failed") if "plausibility.not_degenerate" in by_name else 0.0
    )
    out["partial"] = float(obs.status.state == "partial")
    raw_scores = [s for s in (number_of(v) for v in _list(case.evidence("intermediate", "scores"))) if s is not None]
    if raw_scores:
        threshold = _score_threshold(case)
        out["score_level"] = float(np.clip((np.median(raw_scores) - threshold) / max(1 - threshold, 1e-6), 0, 1))
        out["score_doubt"] = float(np.mean([s < threshold + 0.1 for s in raw_scores]))
    candidates, kept = case.evidence_number("intermediate", "candidates"), case.evidence_number("intermediate", "kept")
    if candidates and kept is not None and 0 <= kept <= candidates and obs.tool == "perceive":
        out["candidate_loss"] = 1 - kept / candidates
    agreement = support_agreement(case)
    if agreement is not None:
        out["support_agreement"] = agreement
        out["support_conflict"] = 1 - agreement
    if prior is not None:
        r = min(max(prior.r_hat, 0.01), 0.99)
        # Evidence is calibrated where BASE_RATE of the observations are right; a record takes the place of that rate. A thin cell
        # says little: what it adds shrinks with n / (n + 4).
        out["prior_logit"] = (math.log(r / (1 - r)) - _BASE_LOGIT) * (prior.n / (prior.n + 4.0))
    return out


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _score_threshold(case: Case) -> float:
    for held in (case.observation.arguments_passed, case.observation.arguments):
        method = held.get("objects_method")
        found = number_of(method.get("score_threshold")) if isinstance(method, dict) else None
        if found is not None and 0 <= found < 1:
            return found
    return 0.25


def _evidence_share(case: Case) -> float:
    wanted = REQUIRED_EVIDENCE[case.observation.tool]
    there = total = 0
    for part, keys in wanted.items():
        held = getattr(case.observation.evidence, part)
        for key in keys:
            total += 1
            there += any(k in held for k in ((key,) if isinstance(key, str) else key))
    return there / total if total else 1.0
