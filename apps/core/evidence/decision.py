"""Check results, the machine's decision, evidence requests, and what a person says of an observation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, JsonValue

from apps.core.evidence.observation import Frozen, JsonMap

Family = Literal["contract", "geometry", "radiometry", "completeness", "consistency", "plausibility", "provenance"]
FAMILIES: tuple[Family, ...] = ("contract", "geometry", "radiometry", "completeness", "consistency", "plausibility", "provenance")
Outcome = Literal["passed", "failed", "inconclusive", "not_applicable", "errored"]
Severity = Literal["block", "warn"]


class CheckResult(Frozen):
    """What one rule check found. ``errored`` counts as inconclusive, never as passed."""

    check: str = Field(max_length=80)
    family: Family
    severity: Severity
    outcome: Outcome
    measured: JsonValue = None
    expected: JsonValue = None
    unit: str = ""
    message: str = Field(max_length=1000, description="a sentence for a person; for failures also what to change")
    pointers: tuple[str, ...] = Field(default=(), description="JSON pointers of the evidence that was read")


class PriorView(Frozen):
    """What was known of the configuration's past success before the observation was looked at; always shown together."""

    r_hat: float = Field(ge=0, le=1)
    interval: tuple[float, float] = Field(description="90 % credible interval")
    n: float = Field(ge=0, description="labelled trials at the level shown")
    level: Literal["fine", "coarse", "tool", "global"]
    version: str
    task_type: str = ""
    configuration: str = ""


RequestKind = Literal[
    "missing_evidence",
    "second_method",
    "second_detector",
    "other_scale",
    "refined_mask",
    "closer_look",
    "quality_mask",
    "other_date",
    "recompute",
    "complete_series",
    "band_roles",
    "gsd",
    "human",
]


class EvidenceRequest(Frozen):
    """What would settle the matter, machine-readable: the loop executes it, at most ``max_requests`` times."""

    kind: RequestKind
    reason: str = Field(max_length=500)
    field: str = Field(default="", max_length=200, description="JSON pointer of the missing field, for missing_evidence")
    arguments: JsonMap = Field(default_factory=dict, description="changes to the call's arguments, or windows, dates, …")


class Decision(Frozen):
    """The machine's decision on one observation; never overwritten by a verdict."""

    decision: Literal["accept", "request_evidence", "reject"]
    stage: Literal["status", "rules", "verifier", "unverified", "policy"]
    p_correct: float | None = Field(default=None, ge=0, le=1)
    reasons: tuple[str, ...] = ()
    requested: tuple[EvidenceRequest, ...] = ()
    prior: PriorView | None = None
    verifier: str = Field(default="", description="back end and version that judged, or why none did")
    policy: str = Field(default="", description="policy version with its thresholds")
    features: dict[str, float] = Field(default_factory=dict, description="what the verifier saw, by name")
    contributions: dict[str, float] = Field(default_factory=dict, description="log-odds by feature, for the page")
    elapsed_s: float = Field(default=0.0, ge=0)


VERDICT_REASONS: tuple[tuple[str, str], ...] = (
    ("wrong_place", "Mask or boxes lie on something else"),
    ("missed", "Objects or area are missed"),
    ("double", "Counted twice or merged"),
    ("wrong_value", "Number, unit or scale is wrong"),
    ("wrong_data", "Wrong bands, date, scene or region"),
    ("other", "Something else"),
)
VerdictValue = Literal["accept", "reject", "unsure"]


class Verdict(Frozen):
    """What a person says of an observation; stands beside the decision."""

    id: str
    observation_id: str
    value: VerdictValue
    reason: str = Field(default="", max_length=40)
    note: str = Field(default="", max_length=2000)
    author: str = Field(max_length=150)
    given_at: AwareDatetime
    shown_probability: float = Field(default=1.0, gt=0, le=1, description="probability of being shown, for unbiased estimates")
    blind: bool = False


Score = Annotated[float, Field(ge=0, le=1)]
