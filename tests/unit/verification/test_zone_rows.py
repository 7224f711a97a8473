"""Rows of zones tell the pixels and the share on the raster of their own outlines."""

from __future__ import annotations

import pytest

from apps.verification.checks import CHECKS
from tests.unit.verification import samples as s


@pytest.mark.parametrize(("name", "value"), [("n_px", 640), ("n_px", 226 - 40), ("on_raster", 0.4)])
def test_a_false_row_is_refused(name: str, value: float) -> None:
    """The first zone is 15 columns by 15 rows, all of it on the raster."""
    check = CHECKS["consistency.zonal_matches_source"]
    right = s.zoned()
    item = right.observation.result.items[0]
    x0, y0, x1, y1 = s.ZONES[str(item["zone"])]
    assert item["n_px"] == (x1 - x0) * (y1 - y0)
    assert float(str(item["on_raster"])) == pytest.approx(1.0)
    assert check.look(right.case()).outcome == "passed"
    found = check.look(right.but({f"/result/items/0/{name}": value}).case())
    assert (found.outcome, found.measured) == ("failed", value)
