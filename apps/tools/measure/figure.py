"""A figure on its way to an answer, and the interval that it gets from how exactly shapes were drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from apps.tools.contract import ToolContext
from apps.tools.measure.accuracy import NOT_TOLD, joint
from apps.tools.measure.layers import Measured


@dataclass(slots=True)
class Figure:
    """A figure on its way: value in the base unit, its bounds, and what it was made of."""

    value: float
    low: float | None = None
    high: float | None = None
    level: float | None = None
    evidence: dict[str, JsonValue] = field(default_factory=dict)
    numerator: float | int | None = None
    denominator: float | int | None = None
    n_px: int | None = None
    items: list[dict[str, JsonValue]] = field(default_factory=list)


def widen_by_accuracy(ctx: ToolContext, figure: Figure, sources: Sequence[Measured],
           slack: Callable[[float], tuple[float, float]], pixel_m: float = 0.0) -> None:
    """The interval of a figure of shapes that were drawn or read, from how exactly they follow the ground: ``slack`` gives by how
    much the figure may be less and more where points lie off by so many metres. Without any accuracy there is none, and the log
    says why. ``pixel_m``: what pixels of another source leave open."""
    drawn = [s for s in sources if s.is_drawn]
    if not drawn:
        return
    found = joint([(s.source.name, s.accuracy) for s in drawn])
    if found is None:
        for name in dict.fromkeys(s.source.name for s in drawn):
            ctx.log("info", f"How exactly {name} was drawn is not known: no accuracy is declared for it, and its coordinates "
                            "have as many digits as numbers have, or too few to tell one.")
        if not pixel_m:
            figure.evidence |= {"interval_from": NOT_TOLD}
            ctx.log("info", "So no interval is given: the figure is that of the shapes, not of the ground.")
            return
    off, is_floor, texts = found if found is not None else (0.0, True, [f"of {s.source.name} nothing is told" for s in drawn])
    less, more = slack(off + pixel_m)
    figure.low, figure.high = max(0.0, figure.value - less), figure.value + more
    texts = [*texts, *(["one pixel"] if pixel_m else [])]
    figure.evidence |= {"interval_from": "; ".join(texts), "interval_is": "floor" if is_floor else "declared",
                        "accuracy_m": off, "slack": [less, more]}
    if is_floor:
        ctx.log("info", f"The interval is the least there is, for the true one may be wider: {'; '.join(texts)}.")
