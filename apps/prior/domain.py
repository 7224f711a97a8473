"""The reliability prior, pure: a hierarchical Beta posterior over labelled outcomes.

For task type τ and configuration c there are four levels, finest first: ``fine`` (τ, tool, coarse, fine), ``coarse`` (τ, tool,
coarse), ``tool`` (τ, tool) and ``global`` (everything). A level's posterior mean is the next finer level's prior mean, with a
concentration fitted by empirical Bayes, so that a thin cell leans on its parent and a rich one stands on its own. Under the
global level lies one flat Beta(1, 1): with that parent alone the mean is (s + 1)/(n + 2).

Outcomes that were drawn for audit with probability p < 1 weigh 1/p (Hájek 1971); successes and trials of a cell are then those of
the effective sample size (Kish 1965), so that weights correct the rate and never invent certainty.

Everything here is a function of a list of outcomes, exactly rounded and independent of their order: a version can be rebuilt bit
for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from apps.core.evidence.decision import PriorView

LEVELS = ("fine", "coarse", "tool", "global")
Key = tuple[str, ...]
# Concentration of a level while there is too little to fit it from.
DEFAULT_CONCENTRATION = 8.0
# A level's concentration is fitted once it has so many cells with at least two trials, and so many trials in them.
MIN_CELLS, MIN_TRIALS = 5, 30
_GRID = tuple(0.5 * 1.25**i for i in range(28))
INTERVAL = 0.90
# 1/p never weighs more than this: one lucky draw must not decide a cell.
MAX_WEIGHT = 25.0
DRIFT_WINDOW, DRIFT_ALARM = 20, 0.01
# Drift is not spoken of with fewer earlier and fewer recent outcomes than these.
MIN_BEFORE, MIN_RECENT = 8, 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """One labelled outcome. ``weight`` is the label's own (1 for a person's verdict); ``shown_probability`` is how likely it was
    to be looked at at all. ``source``: offline, verdict, import."""

    task_type: str
    tool: str
    coarse: str
    fine: str
    is_success: bool
    weight: float = 1.0
    shown_probability: float = 1.0
    source: str = "verdict"

    @property
    def total_weight(self) -> float:
        return min(self.weight / self.shown_probability, MAX_WEIGHT)

    def key(self, level: str) -> Key:
        """The cell of a level that this outcome belongs to."""
        return cell_key(level, self.task_type, self.tool, self.coarse, self.fine)


def cell_key(level: str, task_type: str, tool: str, coarse: str, fine: str) -> Key:
    """ValueError for an unknown level."""
    if level == "fine":
        return "fine", task_type, tool, coarse, fine
    if level == "coarse":
        return "coarse", task_type, tool, coarse
    if level == "tool":
        return "tool", task_type, tool
    if level == "global":
        return ("global",)
    raise ValueError(f"{level!r} is no level of the prior")


@dataclass(frozen=True, slots=True)
class Tally:
    """Effective successes and trials of a cell, and how many outcomes came from people and from offline feedback."""

    successes: float = 0.0
    trials: float = 0.0
    n_people: int = 0
    n_offline: int = 0

    @property
    def n(self) -> int:
        return self.n_people + self.n_offline


def tally(outcomes: Sequence[Outcome]) -> Tally:
    """Kish's effective sample size, and Hájek's rate on it; with equal weights of 1 the plain counts, exactly."""
    if not outcomes:
        return Tally()
    weights = [o.total_weight for o in outcomes]
    people = sum(o.source == "verdict" for o in outcomes)
    if all(w == 1.0 for w in weights):
        return Tally(float(sum(o.is_success for o in outcomes)), float(len(outcomes)), people, len(outcomes) - people)
    total = math.fsum(weights)
    square = math.fsum(w * w for w in weights)
    if total <= 0:
        return Tally(0.0, 0.0, people, len(outcomes) - people)
    # weights that are all alike and below 1 (weak offline labels) count as what they are, not as whole outcomes
    effective = min(total * total / square, total) if max(weights) <= 1.0 else total * total / square
    rate = math.fsum(w for w, o in zip(weights, outcomes, strict=True) if o.is_success) / total
    return Tally(effective * rate, effective, people, len(outcomes) - people)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell's posterior Beta(a, b)."""

    key: Key
    tally: Tally
    a: float
    b: float

    @property
    def mean(self) -> float:
        return self.a / (self.a + self.b)

    def interval(self, level: float = INTERVAL) -> tuple[float, float]:
        """Equal-tailed credible interval."""
        tail = (1 - level) / 2
        return beta_quantile(tail, self.a, self.b), beta_quantile(1 - tail, self.a, self.b)


@dataclass(frozen=True, slots=True)
class Table:
    """The whole prior of one version: cells by key, concentrations by level."""

    version: str
    cells: dict[Key, Cell]
    concentrations: dict[str, float]
    outcomes: tuple[Outcome, ...] = field(repr=False, default=())

    def posterior(self, level: str, task_type: str, tool: str, coarse: str, fine: str) -> Cell:
        """The cell's posterior; of a cell without outcomes, its prior."""
        key = cell_key(level, task_type, tool, coarse, fine)
        held = self.cells.get(key)
        if held is not None:
            return held
        if level == "global":
            return Cell(key, Tally(), 1.0, 1.0)
        parent = self.posterior(LEVELS[LEVELS.index(level) + 1], task_type, tool, coarse, fine)
        k = self.concentrations[level]
        return Cell(key, Tally(), k * parent.mean, k * (1 - parent.mean))

    def view(self, *, task_type: str, tool: str, coarse: str, fine: str) -> PriorView:
        """The finest level that has labelled outcomes; the global prior where none has."""
        level = next((lv for lv in LEVELS if cell_key(lv, task_type, tool, coarse, fine) in self.cells), "global")
        cell = self.posterior(level, task_type, tool, coarse, fine)
        return PriorView(
            r_hat=cell.mean,
            interval=cell.interval(),
            n=cell.tally.trials,
            level=level,  # type: ignore[arg-type]
            version=self.version,
            task_type=task_type,
            configuration=fine,
        )


def build(outcomes: Iterable[Outcome], version: str) -> Table:
    """The prior from labelled outcomes; the same for any order of them, to the last bit."""
    held = tuple(outcomes)
    by_level: dict[str, dict[Key, list[Outcome]]] = {lv: {} for lv in LEVELS}
    for outcome in held:
        for level in LEVELS:
            by_level[level].setdefault(outcome.key(level), []).append(outcome)
    cells: dict[Key, Cell] = {}
    concentrations: dict[str, float] = {"global": 2.0}
    for level in reversed(LEVELS):
        groups = {key: tally(members) for key, members in sorted(by_level[level].items())}
        if level == "global":
            for key, t in groups.items():
                cells[key] = Cell(key, t, t.successes + 1.0, t.trials - t.successes + 1.0)
            continue
        means = {key: cells[_parent(key)].mean for key in groups}
        k = fit_concentration([(t.successes, t.trials, means[key]) for key, t in groups.items()])
        concentrations[level] = k
        for key, t in groups.items():
            m = means[key]
            cells[key] = Cell(key, t, t.successes + k * m, t.trials - t.successes + k * (1 - m))
    for level in LEVELS:
        concentrations.setdefault(level, DEFAULT_CONCENTRATION)
    return Table(version, cells, concentrations, held)


def _parent(key: Key) -> Key:
    if key[0] == "fine":
        return ("coarse", *key[1:4])
    if key[0] == "coarse":
        return ("tool", *key[1:3])
    return ("global",)


def fit_concentration(groups: Sequence[tuple[float, float, float]]) -> float:
    """The concentration κ that makes (successes, trials, prior mean) of a level's cells most likely under the beta-binomial, on a
    fixed grid from 0.5 to about 200; DEFAULT_CONCENTRATION until MIN_CELLS and MIN_TRIALS are there. A weak log-normal pull to
    the default keeps few cells from running to the grid's ends."""
    rich = [g for g in groups if g[1] >= 2]
    if len(rich) < MIN_CELLS or math.fsum(n for _, n, _ in rich) < MIN_TRIALS:
        return DEFAULT_CONCENTRATION

    def likelihood(k: float) -> float:
        parts = [-0.5 * (math.log(k / DEFAULT_CONCENTRATION) / 1.5) ** 2]
        for s, n, m in rich:
            m = min(max(m, 1e-3), 1 - 1e-3)
            parts.append(_log_beta(s + k * m, n - s + k * (1 - m)) - _log_beta(k * m, k * (1 - m)))
        return math.fsum(parts)

    return max(_GRID, key=lambda k: (likelihood(k), -k))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


# --- beta distribution ------------------------------------------------------------------------------------------------------
def beta_cdf(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function I_x(a, b), by Lentz's continued fraction (Press et al., Numerical Recipes, 6.4)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    h = d
    for m in range(1, 500):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + step * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + step / c
            c = c if abs(c) > tiny else tiny
            h *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return h


@lru_cache(maxsize=4096)
def beta_quantile(q: float, a: float, b: float) -> float:
    """The q-quantile of Beta(a, b), by bisection to 1e-12."""
    low, high = 0.0, 1.0
    for _ in range(44):
        middle = (low + high) / 2
        if beta_cdf(middle, a, b) < q:
            low = middle
        else:
            high = middle
    return (low + high) / 2


# --- drift ------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Drift:
    """Recent outcomes of a cell against what came before: how unlikely so many successes are (two-sided)."""

    recent: int
    successes: int
    expected_rate: float
    tail: float

    @property
    def is_alarm(self) -> bool:
        return self.tail < DRIFT_ALARM

    @property
    def once_in(self) -> int:
        """So unlikely a count comes once in so many windows, rounded; a million at most."""
        return round(1 / max(self.tail, 1e-6))


def _parts(outcomes: Sequence[Outcome], window: int) -> tuple[Sequence[Outcome], Sequence[Outcome]]:
    """(earlier, recent): the last ``window``; of a short history its last third, five at least."""
    cut = window if len(outcomes) >= window + MIN_BEFORE else max(MIN_RECENT, len(outcomes) // 3)
    return outcomes[:-cut], outcomes[-cut:]


def _chances(n: int, a: float, b: float) -> list[float]:
    """Beta-binomial: how likely 0 … n successes are in n trials under Beta(a, b)."""
    return [
        math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + _log_beta(k + a, n - k + b) - _log_beta(a, b))
        for k in range(n + 1)
    ]


def drift_of(table: Table, key: Key, window: int = DRIFT_WINDOW) -> Drift | None:
    """Drift of a cell: its last ``window`` outcomes under the beta-binomial of its earlier ones. None with fewer than eight
    outcomes before and five recent ones."""
    before, recent = _parts([o for o in table.outcomes if o.key(key[0]) == key], window)
    if len(before) < MIN_BEFORE or len(recent) < MIN_RECENT:
        return None
    past = tally(before)
    a, b = past.successes + 1, past.trials - past.successes + 1
    n, s = len(recent), sum(o.is_success for o in recent)
    chances = _chances(n, a, b)
    tail = min(1.0, math.fsum(c for c in chances if c <= chances[s] * (1 + 1e-9)))
    return Drift(n, s, a / (a + b), tail)


@dataclass(frozen=True, slots=True)
class TrackPoint:
    """A cell after its ``place``-th outcome (from 1): the share right among its recent ones, and what was to be expected of so
    many, with the interval in which nine of ten such shares lie (INTERVAL)."""

    place: int
    recent: int
    share: float
    expected: float
    low: float
    high: float


def drift_track(outcomes: Sequence[Outcome], window: int = DRIFT_WINDOW, most: int = 120) -> list[TrackPoint]:
    """How a cell moved, outcome by outcome, by the rule of ``drift_of``; the last ``most`` points. [] while it is too young."""
    out = []
    for place in range(max(MIN_BEFORE + MIN_RECENT, len(outcomes) - most + 1), len(outcomes) + 1):
        before, recent = _parts(outcomes[:place], window)
        if len(before) < MIN_BEFORE:
            continue
        past = tally(before)
        a, b = past.successes + 1, past.trials - past.successes + 1
        n = len(recent)
        low, high = _middle(_chances(n, a, b))
        out.append(TrackPoint(place, n, sum(o.is_success for o in recent) / n, a / (a + b), low / n, high / n))
    return out


def _middle(chances: Sequence[float]) -> tuple[int, int]:
    """The counts between which the middle INTERVAL of a distribution over 0 … n lies, both ends included."""
    tail, total, low, high = (1 - INTERVAL) / 2, 0.0, 0, len(chances) - 1
    for k, chance in enumerate(chances):
        if total + chance > tail:
            low = k
            break
        total += chance
    total = 0.0
    for k in range(len(chances) - 1, -1, -1):
        if total + chances[k] > tail:
            high = k
            break
        total += chances[k]
    return low, high


# --- audit sampling ---------------------------------------------------------------------------------------------------------
def audit_weight(shown_probability: float) -> float:
    """Inverse-probability weight of a reviewed outcome. ValueError outside (0, 1]."""
    if not 0 < shown_probability <= 1:
        raise ValueError("the probability of being shown lies in (0, 1]")
    return min(1 / shown_probability, MAX_WEIGHT)
