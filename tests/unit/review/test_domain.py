"""Agreement and value of information against figures worked by hand."""

import pytest

from apps.review.domain import agreement, krippendorff_alpha, uncertainty, value_of_information


def test_kappa_of_a_worked_table() -> None:
    # Cohen's kappa of the 2 × 2 table 20, 5, 10, 15: observed 0.7, expected 0.5
    pairs = [("a", "a")] * 20 + [("a", "b")] * 5 + [("b", "a")] * 10 + [("b", "b")] * 15
    found = agreement(pairs)
    assert found["observed"] == pytest.approx(0.7)
    assert found["kappa"] == pytest.approx(0.4)


def test_alpha_of_the_published_example() -> None:
    """Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability": four observers, twelve units, nominal: 0.743."""
    rows = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")
    units = [[row[i] for row in rows if row[i] != "."] for i in range(12)]
    assert krippendorff_alpha(units) == pytest.approx(0.743, abs=5e-4)
    # two observers of one trait: alpha of a 2 × 2 table by hand, D_o = 15/50, D_e from 55 and 45 of 100
    pairs = [["a", "a"]] * 20 + [["a", "b"]] * 5 + [["b", "a"]] * 10 + [["b", "b"]] * 15
    assert krippendorff_alpha(pairs) == pytest.approx(1 - 99 * 30 / (2 * 55 * 45))
    assert krippendorff_alpha([["a", "a"], ["a"]]) is None
    assert krippendorff_alpha([]) is None


def test_agreement_of_nothing_is_unknown() -> None:
    assert agreement([]) == {"n": 0, "observed": None, "kappa": None}
    assert agreement([("a", "a")])["kappa"] is None


def test_uncertainty_is_greatest_at_one_half_and_without_a_probability() -> None:
    assert uncertainty(0.5) == uncertainty(None) == 1.0
    assert uncertainty(0.0) == uncertainty(1.0) == 0.0
    assert uncertainty(0.11) == pytest.approx(0.49991596, abs=1e-6)


def test_what_the_answer_waits_for_comes_first() -> None:
    waits = value_of_information(p_correct=0.6, is_under_answer=False, blocks_answer=True)
    idle = value_of_information(p_correct=0.5, is_under_answer=False, blocks_answer=False)
    assert waits > idle
