"""What bounds a run: evidence requests, repeated failures, tool calls and seconds."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from apps.core.digests import digest_json


class AgentPolicy(BaseModel):
    """Limits of one run (PROTOCOL.md section 5); frozen, and named in the run's header by ``version``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    max_requests: int = Field(default=2, ge=0, description="evidence requests executed for one observation")
    on_unresolved: Literal["reject", "person"] = Field(
        default="person", description="what becomes of an observation that evidence requests could not settle"
    )
    max_unsuccessful: int = Field(default=3, ge=1, description="unsuccessful calls of one kind before the plan must change")
    max_revisions: int = Field(default=2, ge=0, description="changed plans that the planner may propose in one run")
    max_tool_calls: int = Field(default=200, ge=1, description="calls of one run; after a verdict they are counted anew")
    max_seconds: float = Field(default=1800.0, gt=0, description="seconds of one run; after a verdict they are counted anew")
    progress_every_s: float = Field(default=1.0, ge=0, description="progress reports closer than this are dropped")

    @property
    def version(self) -> str:
        """A name for these limits: the first digits of their digest."""
        return "agent-1/" + digest_json(self.model_dump())[7:15]

    def budget(self) -> dict[str, Any]:
        return {
            "tool_calls": self.max_tool_calls,
            "seconds": self.max_seconds,
            "requests": self.max_requests,
            "revisions": self.max_revisions,
        }
