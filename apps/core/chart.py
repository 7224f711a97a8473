"""The frame of a small chart: where values lie between its margins. Every floor may draw one; the drawing is a page's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChartFrame:
    """Width and height of a picture and its margins, all in its own units (pixels of an SVG), y downwards."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int

    def x(self, part: float, whole: float = 1.0) -> float:
        """Where ``part`` of ``whole`` lies from the left margin on, to a tenth."""
        return round(self.left + (self.width - self.left - self.right) * part / whole, 1)

    def y(self, part: float, whole: float = 1.0) -> float:
        """Where ``part`` of ``whole`` lies from the top margin down, to a tenth."""
        return round(self.top + (self.height - self.top - self.bottom) * part / whole, 1)

    @property
    def sides(self) -> dict[str, int]:
        """Size of the picture, and the x and y of the lines that bound what is drawn."""
        return {
            "width": self.width,
            "height": self.height,
            "left": self.left,
            "right": self.width - self.right,
            "bottom": self.height - self.bottom,
        }


def polyline(points: Iterable[tuple[float, float]]) -> str:
    """The ``points`` of an SVG polyline or polygon."""
    return " ".join(f"{x},{y}" for x, y in points)
