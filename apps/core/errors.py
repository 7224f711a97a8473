"""Three kinds of failure, kept apart: for the model, for the user, for us.

``UserError`` carries a code, what happened, why and what to do; it becomes a 4xx or exit status 2.
``ModelError`` is told to the planner, which may retry or adapt; it never reaches a person as a traceback.
``FaultError`` is ours: it is raised, logged with its traceback and becomes a 500 or exit status 1.
"""

from __future__ import annotations

from typing import Any

# The codes a page or a command may show; UX.md lists the states that must exist for them.
ERROR_CODES = frozenset(
    {
        "NEEDS_CRS",
        "NEEDS_GSD",
        "NEEDS_BANDS",
        "NEEDS_DATES",
        "NEEDS_REGION",
        "NEEDS_LANDMARKS",
        "NEEDS_PROMPTS",
        "UNREADABLE",
        "TOO_LARGE",
        "UNSAFE_FILE",
        "UPLOAD_STALLED",
        "TILE_TIMEOUT",
        "TOOL_FAILED",
        "RULE_FAILED",
        "VERIFIER_UNAVAILABLE",
        "MODEL_UNREACHABLE",
        "MODEL_MISSING",
        "BUDGET_REACHED",
        "NO_ANSWER",
        "LIVE_OFF",
        "CONFLICT",
        "SESSION_EXPIRED",
        "WORKER_DOWN",
        "BAD_ARGUMENT",
        "BAD_REGION",
        "BAD_LANDMARKS",
        "BAD_PROMPTS",
        "BAD_OBSERVATION",
        "BAD_PLAN",
        "BAD_QUESTION",
        "NOT_FOUND",
        "FORBIDDEN",
        "OVER_QUOTA",
    }
)


class RSureError(Exception):
    """Root of our own errors."""


class UserError(RSureError):
    """Bad input or a need that only the person can fill.

    ``code`` is one of ERROR_CODES (ValueError otherwise); ``status`` is the HTTP status (4xx).
    """

    def __init__(self, code: str, what: str, why: str, fix: str, *, status: int = 400, detail: dict[str, Any] | None = None):
        if code not in ERROR_CODES:
            raise ValueError(f"unknown error code {code!r}")
        self.code, self.what, self.why, self.fix, self.status = code, what, why, fix, status
        self.detail = detail or {}
        super().__init__(f"{code}: {what} {why} {fix}")

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "what": self.what, "why": self.why, "fix": self.fix, "detail": self.detail}


class NotFoundError(UserError):
    """The object is absent or belongs to others; both read the same."""

    def __init__(self, thing: str):
        super().__init__(
            "NOT_FOUND",
            f"No such {thing}.",
            "It does not exist, or it is not yours.",
            "Check the address, or ask a member of its project.",
            status=404,
        )


class ModelError(RSureError):
    """Told to the planner: the call was wrong or could not be served; it may retry with other arguments or adapt."""

    def __init__(self, message: str, *, code: str = "TOOL_FAILED", needs: dict[str, Any] | None = None, place: str = ""):
        self.code, self.needs, self.place = code, needs or {}, place
        super().__init__(message)

    @property
    def placed(self) -> str:
        """The message with its place in the call, for the log and for planners; people are told the message alone."""
        return f"{self.place}: {self}" if self.place else str(self)


class ToolAbstainedError(ModelError):
    """The tool cannot know the answer (no model for the class, no GSD, …) and says so instead of guessing."""


class FaultError(RSureError):
    """A fault of ours: an invariant broke."""
