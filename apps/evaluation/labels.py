"""What counts as right and wrong among the labels of recorded calls. For scoring and fitting only.

``strict``: the label itself says that the observation is right or wrong. ``broad`` adds calls whose arguments the reference
never used and whose value is (not) one of the reference's values of the same tool: such a call may be right about what it was
asked and still not be what the question needs. Everything else (``off_reference``, ``off_reference_path``, ``disputed``,
ambiguous, listing, error) is not known and counts nowhere. Silent failures are wrong and trivial to see; they are counted apart.
"""

from __future__ import annotations

from typing import Literal

Scheme = Literal["strict", "broad"]
SCHEMES: tuple[Scheme, ...] = ("strict", "broad")
SILENT = "silent_failure"
RIGHT: dict[Scheme, frozenset[str]] = {
    "strict": frozenset({"correct_value", "correct_path", "xref_match"}),
    "broad": frozenset({"correct_value", "correct_path", "xref_match", "off_reference_value_match"}),
}
WRONG: dict[Scheme, frozenset[str]] = {
    "strict": frozenset({"incorrect_value", "systematic_wrong", "xref_mismatch"}),
    "broad": frozenset({"incorrect_value", "systematic_wrong", "xref_mismatch", "off_reference_value_mismatch"}),
}
# A path has no value of its own: it is right when it was made as the reference made it. Left out where only values are asked for.
PATHS = frozenset({"correct_path"})


def truth(label: str | None, scheme: Scheme, *, allow_silent: bool = False) -> bool | None:
    """True where the observation is wrong, False where it is right, None where that is not known."""
    if label == SILENT:
        return True if allow_silent else None
    if label in WRONG[scheme]:
        return True
    return False if label in RIGHT[scheme] else None
