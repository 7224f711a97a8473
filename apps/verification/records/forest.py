"""The fitted probability for records: boosted shallow trees kept as plain JSON, evaluated with the standard library alone.

A forest says how probable it is that what it looks at is wrong. Fitting is done elsewhere (``apps.evaluation.fitting``, with
scikit-learn); the file holds what inference needs, the calibration, the operating point and the report of the fit. Trees are
histogram gradient boosting (Friedman 2001, doi:10.1214/aos/1013203451); contributions follow the path of each tree and sum to the
log-odds (Saabas 2014).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

WEIGHTS = Path(__file__).resolve().parent.parent / "weights"
TOOL_RATE = "tool_rate"


class Tree(BaseModel):
    """Nodes in one array each. ``feature`` −1 marks a leaf. A sign that is absent goes where ``missing_left`` says; values at or
    below ``threshold`` go left. ``value`` of an inner node is what it would say as a leaf."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    missing_left: tuple[bool, ...]
    value: tuple[float, ...]

    @model_validator(mode="after")
    def _whole(self) -> Tree:
        n = len(self.feature)
        if not n or any(len(a) != n for a in (self.threshold, self.left, self.right, self.missing_left, self.value)):
            raise ValueError("the node arrays of a tree differ in length")
        for at, feature in enumerate(self.feature):
            if feature >= 0 and not (at < self.left[at] < n and at < self.right[at] < n):
                raise ValueError("a node's children must follow it")
        return self


class ToolRates(BaseModel):
    """How often a native tool's observations were wrong on the tasks fitted on, shrunk to the base rate: a per-tool prior."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    base: float
    concentration: float
    cells: dict[str, tuple[float, float]] = Field(description="native tool → (wrong, trials), tasks capped")

    def rate(self, tool: str) -> float:
        wrong, trials = self.cells.get(tool, (0.0, 0.0))
        return (wrong + self.concentration * self.base) / (trials + self.concentration)


class Forest(BaseModel):
    """One fitted model. ``knots``: (raw probability, calibrated probability), increasing; empty: the raw one. ``flag_at``: the
    calibrated probability of being wrong at which it flags, chosen on the tasks fitted on."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    names: tuple[str, ...]
    baseline: float
    trees: tuple[Tree, ...]
    tool_rates: ToolRates | None = None
    knots: tuple[tuple[float, float], ...] = ()
    flag_at: float = 0.5

    def _row(self, signs: Mapping[str, float], tool: str) -> list[float]:
        row = [signs.get(name, math.nan) for name in self.names]
        if self.tool_rates is not None:
            row.append(self.tool_rates.rate(tool))
        return row

    def probability(self, signs: Mapping[str, float], tool: str = "") -> float:
        """Calibrated probability of being wrong, in [0, 1]."""
        row = self._row(signs, tool)
        z = self.baseline
        for tree in self.trees:
            z += tree.value[_leaf(tree, row)]
        return self.calibrated(1 / (1 + math.exp(-max(-30.0, min(30.0, z)))))

    def calibrated(self, raw: float) -> float:
        """Piecewise linear through the knots."""
        if not self.knots:
            return raw
        xs = [x for x, _ in self.knots]
        at = bisect_right(xs, raw)
        if at == 0 or at == len(xs):
            return self.knots[min(at, len(xs) - 1)][1]
        (x0, y0), (x1, y1) = self.knots[at - 1], self.knots[at]
        return y0 + (y1 - y0) * (raw - x0) / (x1 - x0)

    def contributions(self, signs: Mapping[str, float], tool: str = "") -> dict[str, float]:
        """Log-odds of being wrong by sign."""
        row = self._row(signs, tool)
        out: dict[str, float] = {}
        labels = (*self.names, TOOL_RATE)
        for tree in self.trees:
            at = 0
            while tree.feature[at] >= 0:
                child = _child(tree, at, row)
                label = labels[tree.feature[at]]
                out[label] = out.get(label, 0.0) + tree.value[child] - tree.value[at]
                at = child
        return out


def _child(tree: Tree, at: int, row: Sequence[float]) -> int:
    x = row[tree.feature[at]]
    goes_left = tree.missing_left[at] if x != x else x <= tree.threshold[at]
    return tree.left[at] if goes_left else tree.right[at]


def _leaf(tree: Tree, row: Sequence[float]) -> int:
    at = 0
    while tree.feature[at] >= 0:
        at = _child(tree, at, row)
    return at


class RecordModel(BaseModel):
    """A weights file for records: the judge of calls, the judge of answers, what is known before the output, the judge under
    strict labels, and the report of the fit."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: str
    note: str = ""
    calls: Forest
    answers: Forest
    before: Forest | None = None
    strict: Forest | None = Field(default=None, description="judges whether a value is wrong about what the call itself asked")
    report: dict[str, JsonValue] = Field(default_factory=dict)


DEFAULT = "records-2"


@lru_cache(maxsize=4)
def load_record_model(path: Path | None = None) -> RecordModel:
    """The shipped model, or the one in ``path``. FileNotFoundError or ValueError (pydantic)."""
    return RecordModel.model_validate_json((path or WEIGHTS / f"{DEFAULT}.json").read_text())
