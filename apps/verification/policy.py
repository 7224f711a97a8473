"""The decision's policy: what a wrong decision costs, the thresholds that follow, and how often evidence may be asked for."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Policy(BaseModel):
    """Frozen and versioned; every decision names the policy that made it.

    Costs are relative. With p the probability that the observation is right, accepting costs (1 − p)·``cost_false_accept``,
    rejecting costs p·``cost_false_reject``, and asking costs ``cost_request``. Asking is the cheapest between the two thresholds:
    accept where p ≥ 1 − cost_request/cost_false_accept, reject where p ≤ cost_request/cost_false_reject.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: str = Field(default="policy-1", max_length=40)
    cost_false_accept: float = Field(default=5.0, gt=0, description="a wrong observation enters the verified history")
    cost_false_reject: float = Field(default=4.0, gt=0, description="a right observation is thrown away and worked around")
    cost_request: float = Field(default=1.0, gt=0, description="one more tool call and its time")
    max_requests: int = Field(default=2, ge=0, le=10, description="answered evidence requests per observation")
    on_exhausted: Literal["reject", "human"] = Field(default="reject", description="what happens when requests are used up")
    allow_rules_alone: bool = Field(default=False, description="accept on passed rules when no verifier is set; off: unverified")
    max_same_calls: int = Field(default=3, ge=1, le=10, description="unsuccessful calls of one kind before the plan must change")
    verifier_timeout_s: float = Field(default=30.0, gt=0, description="a verifier that takes longer is unverified")

    @model_validator(mode="after")
    def _ordered(self) -> Policy:
        if self.accept_at <= self.reject_at:
            raise ValueError(f"the costs leave no room for requests: accept at {self.accept_at}, reject at {self.reject_at}")
        return self

    @property
    def accept_at(self) -> float:
        """Least probability of being right that is accepted."""
        return max(0.0, 1 - self.cost_request / self.cost_false_accept)

    @property
    def reject_at(self) -> float:
        """Greatest probability of being right that is rejected."""
        return min(1.0, self.cost_request / self.cost_false_reject)

    @property
    def label(self) -> str:
        """Version with its thresholds, as decisions store it."""
        return (
            f"{self.version} accept>={self.accept_at:.3f} reject<={self.reject_at:.3f} requests<={self.max_requests} "
            f"then {self.on_exhausted}"
        )
