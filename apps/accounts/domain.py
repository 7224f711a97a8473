"""Roles and what they may do: one matrix, read everywhere, pure."""

from __future__ import annotations

from typing import Literal, get_args

Role = Literal["viewer", "analyst", "reviewer", "administrator"]
ROLES: tuple[Role, ...] = get_args(Role)

Action = Literal["view", "export", "ask", "ingest", "verdict", "review", "adjudicate", "prior_view", "prior_manage", "manage"]
ACTIONS: tuple[Action, ...] = get_args(Action)

ACTION_MEANING: dict[Action, str] = {
    "view": "See imagery, runs, observations and answers",
    "export": "Download reports, layers and artifacts",
    "ask": "Ask questions, cancel own runs",
    "ingest": "Add imagery, set its CRS, GSD, bands and dates",
    "verdict": "Say right, wrong or unsure of an observation, and undo it",
    "review": "Work the review queue: claim, bulk verdicts",
    "adjudicate": "Settle where reviewers disagree",
    "prior_view": "See the reliability prior and its events",
    "prior_manage": "Freeze, roll back, import and export the prior",
    "manage": "Members, settings, deletion",
}

# Each role may all that the one before it may.
_ADDED: dict[Role, tuple[Action, ...]] = {
    "viewer": ("view", "export"),
    "analyst": ("ask", "ingest", "verdict"),
    "reviewer": ("review", "adjudicate", "prior_view"),
    "administrator": ("prior_manage", "manage"),
}

# Everybody who is signed in may work with the sample project as this.
SAMPLE_ROLE: Role = "analyst"


def actions_of(role: Role) -> frozenset[Action]:
    """Every action of a role, those of the roles below included."""
    upto = ROLES[: ROLES.index(role) + 1]
    return frozenset(action for name in upto for action in _ADDED[name])


def role_allows(role: Role | None, action: str) -> bool:
    """Whether a member with this role may do this; None is nobody. Unknown actions raise ValueError."""
    if action not in ACTIONS:
        raise ValueError(f"unknown action {action!r}")
    return role is not None and action in actions_of(role)


def higher(first: Role | None, second: Role | None) -> Role | None:
    """The role that may more."""
    known = [role for role in (first, second) if role is not None]
    return max(known, key=ROLES.index) if known else None


def initials(name: str) -> str:
    """Two letters of a name for the round mark in the top bar; "?" for an empty one."""
    parts = [part for part in name.replace(".", " ").replace("_", " ").split() if part]
    if not parts:
        return "?"
    letters = parts[0][0] + (parts[-1][0] if len(parts) > 1 else parts[0][1:2])
    return letters.upper()
