"""The outline of a mask: how far its area may be off when the outline moves by half a pixel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.grid import Grid
from apps.core.geo.measures import area_of_mask_m2


def outline_px(mask: NDArray[np.bool_], valid: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(inner, outer): pixels of the mask that touch a valid pixel outside it, and those outside that touch the mask; by sides."""
    def near(x: NDArray[np.bool_]) -> NDArray[np.bool_]:
        out = np.zeros_like(x)
        out[1:] |= x[:-1]
        out[:-1] |= x[1:]
        out[:, 1:] |= x[:, :-1]
        out[:, :-1] |= x[:, 1:]
        return out

    outside = valid & ~mask
    return mask & near(outside), outside & near(mask)


def outline_areas_m2(mask: NDArray[np.bool_], valid: NDArray[np.bool_], grid: Grid,
                     gsd_m: float | None) -> tuple[float, float, int, int]:
    """(inner m², outer m², inner pixels, outer pixels) of the outline."""
    inner, outer = outline_px(mask, valid)
    return (area_of_mask_m2(inner, grid, gsd_m).area_m2, area_of_mask_m2(outer, grid, gsd_m).area_m2, int(inner.sum()),
            int(outer.sum()))
