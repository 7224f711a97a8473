"""The frame of a chart: its margins hold, and corners are where they must be."""

from __future__ import annotations

import random

from apps.core.chart import ChartFrame, polyline

FRAME = ChartFrame(width=720, height=96, left=40, right=8, top=8, bottom=20)


def test_ends_lie_on_the_margins_and_everything_between_them() -> None:
    assert FRAME.sides == {"width": 720, "height": 96, "left": 40, "right": 712, "bottom": 76}
    assert (FRAME.x(0), FRAME.x(1), FRAME.x(7, 7)) == (40.0, 712.0, 712.0)
    assert (FRAME.y(0), FRAME.y(1), FRAME.y(3, 3)) == (8.0, 76.0, 76.0)
    draw = random.Random(1)
    for _ in range(200):
        part = draw.random()
        assert abs(FRAME.x(part) - (40 + 672 * part)) <= 0.0501 and abs(FRAME.y(part) - (8 + 68 * part)) <= 0.0501
        assert 40 <= FRAME.x(part) <= 712 and 8 <= FRAME.y(part) <= 76


def test_points_of_a_polyline() -> None:
    assert polyline([(1.0, 2.5), (3.1, 4.0)]) == "1.0,2.5 3.1,4.0"
    assert polyline([]) == ""
