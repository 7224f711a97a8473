"""The permission matrix: written out whole, so that a change of it is seen in review."""

from itertools import pairwise

import pytest

from apps.accounts.domain import ACTION_MEANING, ACTIONS, ROLES, actions_of, higher, initials, role_allows

MATRIX = {
    # action: viewer, analyst, reviewer, administrator
    "view": (True, True, True, True),
    "export": (True, True, True, True),
    "ask": (False, True, True, True),
    "ingest": (False, True, True, True),
    "verdict": (False, True, True, True),
    "review": (False, False, True, True),
    "adjudicate": (False, False, True, True),
    "prior_view": (False, False, True, True),
    "prior_manage": (False, False, False, True),
    "manage": (False, False, False, True),
}


def test_every_action_is_in_the_matrix_and_explained() -> None:
    assert set(MATRIX) == set(ACTIONS) == set(ACTION_MEANING)


@pytest.mark.parametrize("action", ACTIONS)
def test_roles_may_what_the_matrix_says(action: str) -> None:
    assert tuple(role_allows(role, action) for role in ROLES) == MATRIX[action]


def test_outsiders_may_nothing() -> None:
    assert not any(role_allows(None, action) for action in ACTIONS)


def test_unknown_actions_are_an_error_and_not_a_no() -> None:
    with pytest.raises(ValueError, match="unknown action"):
        role_allows("administrator", "fly")


def test_each_role_may_more_than_the_one_below() -> None:
    sets = [actions_of(role) for role in ROLES]
    assert all(lower < upper for lower, upper in pairwise(sets))


def test_higher_takes_the_role_that_may_more() -> None:
    assert higher("viewer", "reviewer") == "reviewer"
    assert higher("analyst", None) == "analyst"
    assert higher(None, None) is None


@pytest.mark.parametrize(
    ("name", "letters"),
    [
        ("Mara Lindqvist", "ML"),
        ("admin", "AD"),
        ("a", "A"),
        ("", "?"),
        ("jo.van_dyk", "JD"),
    ],
)
def test_initials(name: str, letters: str) -> None:
    assert initials(name) == letters
