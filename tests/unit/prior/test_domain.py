"""The posterior by hand-computed figures, by scipy's independent beta, and by simulation."""

import random

import pytest
from scipy import stats

from apps.prior.domain import (
    DEFAULT_CONCENTRATION,
    Outcome,
    audit_weight,
    beta_cdf,
    beta_quantile,
    build,
    cell_key,
    drift_of,
    drift_track,
    fit_concentration,
    tally,
)
from apps.prior.plots import track_plot


def outcomes(task: str, fine: str, successes: int, failures: int, **more: object) -> list[Outcome]:
    tool, coarse = "measure", fine.split("/")[0]
    return [Outcome(task, tool, coarse, fine, i < successes, **more) for i in range(successes + failures)]  # type: ignore[arg-type]


def test_one_flat_parent_gives_the_papers_form() -> None:
    table = build(outcomes("object_counting", "count/auto/objects", 38, 1), "v")
    cell = table.cells[("global",)]
    assert cell.mean == (38 + 1) / (39 + 2)
    assert round(cell.mean, 3) == 0.951


def test_a_thin_cell_leans_on_its_parent_and_a_rich_one_stands_alone() -> None:
    many = outcomes("t", "count/a", 90, 10)
    table = build(many + outcomes("t", "count/b", 0, 1) + outcomes("t", "count/c", 10, 90), "v")
    parent = table.cells[cell_key("coarse", "t", "measure", "count", "")].mean
    thin = table.cells[cell_key("fine", "t", "measure", "count", "count/b")]
    rich = table.cells[cell_key("fine", "t", "measure", "count", "count/a")]
    assert thin.mean == pytest.approx((0 + 8 * parent) / (1 + 8))
    assert abs(rich.mean - 0.9) < 0.04
    assert thin.interval()[1] - thin.interval()[0] > rich.interval()[1] - rich.interval()[0]


def test_view_names_the_finest_level_with_outcomes() -> None:
    table = build(outcomes("t", "count/a", 3, 1), "v7")
    same = table.view(task_type="t", tool="measure", coarse="count", fine="count/a")
    other = table.view(task_type="t", tool="measure", coarse="count", fine="count/z")
    stranger = table.view(task_type="u", tool="perceive", coarse="objects", fine="objects/x")
    assert (same.level, same.n, same.version) == ("fine", 4, "v7")
    assert (other.level, stranger.level) == ("coarse", "global")
    empty = build([], "log-0").view(task_type="t", tool="measure", coarse="count", fine="count/a")
    assert (empty.r_hat, empty.n, empty.level) == (0.5, 0, "global")
    assert empty.interval == pytest.approx((0.05, 0.95), abs=1e-9)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (0.7, 3.2), (39, 2), (200.5, 14.25), (5, 900)])
def test_beta_agrees_with_scipy(a: float, b: float) -> None:
    for q in (0.001, 0.05, 0.5, 0.95, 0.999):
        assert beta_quantile(q, a, b) == pytest.approx(stats.beta.ppf(q, a, b), abs=1e-9)
    for x in (0.01, 0.3, 0.77, 0.99):
        assert beta_cdf(x, a, b) == pytest.approx(stats.beta.cdf(x, a, b), abs=1e-10)


def test_order_does_not_matter_to_the_last_bit() -> None:
    rng = random.Random(3)
    held = [
        Outcome(
            f"t{rng.randrange(4)}",
            "execute",
            "raster.summarize",
            f"raster.summarize/{rng.randrange(6)}",
            rng.random() < 0.7,
            rng.choice([1.0, 0.5]),
            rng.choice([1.0, 0.1, 0.3]),
        )
        for _ in range(400)
    ]
    shuffled = held[:]
    rng.shuffle(shuffled)
    one, other = build(held, "v"), build(shuffled, "v")
    assert one.concentrations == other.concentrations
    assert {k: (c.a, c.b) for k, c in one.cells.items()} == {k: (c.a, c.b) for k, c in other.cells.items()}


def test_inverse_probability_undoes_the_selection_of_reviews() -> None:
    """1,000 observations, 80 % right; the rejected ones (mostly wrong) are all reviewed, of the accepted ones a tenth."""
    rng = random.Random(11)
    reviewed, truth = [], []
    for _ in range(1000):
        right = rng.random() < 0.8
        truth.append(right)
        rejected = rng.random() < (0.1 if right else 0.7)
        if rejected:
            reviewed.append(Outcome("t", "measure", "count", "count/a", right))
        elif rng.random() < 0.1:
            reviewed.append(Outcome("t", "measure", "count", "count/a", right, shown_probability=0.1))
    weighted = tally(reviewed)
    plain = sum(o.is_success for o in reviewed) / len(reviewed)
    rate = sum(truth) / len(truth)
    assert abs(weighted.successes / weighted.trials - rate) < 0.05
    assert abs(plain - rate) > 0.15
    assert weighted.trials < len(reviewed)  # weights cost certainty


def test_the_audits_estimator_has_no_bias_over_many_draws() -> None:
    """300 reviews of a population with known truth (Horvitz and Thompson 1952; as a ratio, Hájek 1971): every rejected one is
    shown, of the accepted ones a share that depends on their cell. The mean estimate is the truth; the plain share is far off."""
    rng = random.Random(5)
    population = []
    for _ in range(600):
        right = rng.random() < 0.8
        rejected = rng.random() < (0.1 if right else 0.7)
        population.append((right, 1.0 if rejected else rng.choice([0.1, 0.3])))
    rate = sum(right for right, _ in population) / len(population)
    weighted, totals, plain = [], [], []
    for _ in range(300):
        shown = [Outcome("t", "measure", "count", "c", right, shown_probability=p) for right, p in population if rng.random() < p]
        held = tally(shown)
        weighted.append(held.successes / held.trials)
        totals.append(sum(o.total_weight for o in shown if o.is_success) / len(population))
        plain.append(sum(o.is_success for o in shown) / len(shown))
    error = stats.sem(weighted)
    assert abs(sum(weighted) / 300 - rate) < 3 * error + 0.002, "a ratio's bias is of the order of 1/n"
    assert abs(sum(totals) / 300 - rate) < 3 * stats.sem(totals)
    assert abs(sum(plain) / 300 - rate) > 0.1


def test_concentration_is_fixed_until_there_is_enough_and_then_follows_the_spread() -> None:
    assert fit_concentration([(1, 2, 0.5)] * 4) == DEFAULT_CONCENTRATION
    alike = fit_concentration([(40, 50, 0.8)] * 12)
    unlike = fit_concentration([(49, 50, 0.5), (1, 50, 0.5)] * 6)
    assert unlike < DEFAULT_CONCENTRATION < alike


def test_drift_is_seen_and_steadiness_is_not() -> None:
    steady = build(
        outcomes("t", "count/a", 20, 2) + [Outcome("t", "measure", "count", "count/a", i != 5) for i in range(20)], "v"
    )
    fallen = build(outcomes("t", "count/a", 40, 2) + [Outcome("t", "measure", "count", "count/a", i < 8) for i in range(20)], "v")
    key = cell_key("fine", "t", "measure", "count", "count/a")
    calm, alarm = drift_of(steady, key), drift_of(fallen, key)
    assert calm is not None
    assert not calm.is_alarm
    assert alarm is not None
    assert alarm.is_alarm
    assert drift_of(build(outcomes("t", "count/a", 2, 0), "v"), key) is None


def test_audit_weight_is_bounded() -> None:
    assert audit_weight(0.5) == 2
    assert audit_weight(1e-6) == 25
    with pytest.raises(ValueError, match="probability"):
        audit_weight(0)


def test_the_track_of_a_cell_ends_where_the_alarm_is() -> None:
    held = outcomes("t", "count/a", 40, 2) + [Outcome("t", "measure", "count", "count/a", i < 8) for i in range(20)]
    track = drift_track(held)
    last, alarm = track[-1], drift_of(build(held, "v"), cell_key("fine", "t", "measure", "count", "count/a"))
    assert alarm is not None
    assert (last.place, last.recent, last.share, last.expected) == (62, 20, alarm.successes / 20, alarm.expected_rate)
    assert not last.low <= last.share <= last.high
    assert track[0].place == 13
    assert track[0].low <= track[0].share <= track[0].high
    assert drift_track(held[:12]) == []
    assert len(drift_track(held, most=5)) == 5


def test_the_plot_of_a_track_marks_what_lies_outside() -> None:
    held = outcomes("t", "count/a", 40, 2) + [Outcome("t", "measure", "count", "count/a", i < 8) for i in range(20)]
    plot = track_plot(drift_track(held))
    assert plot is not None
    assert [r["place"] for r in plot["outside"]][-1] == 62
    assert plot["rows"][0]["x"] == plot["left"]
    assert plot["rows"][-1]["x"] == plot["right"]
    assert len(plot["band"].split()) == 2 * len(plot["rows"])
    assert track_plot([]) is None
