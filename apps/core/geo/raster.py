"""Pixels that travel with their mask, grid, bands and unit; and the one nodata policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.errors import FaultError
from apps.core.geo.bands import Band, FillRule
from apps.core.geo.grid import Grid

# Where an outline passes through a pixel's centre, the pixel belongs to the side that lies to the right of it, or below: as if
# centres lay this much further, in pixels. Of polygons that share an outline each such pixel is then in one, and in one alone.
CENTRE_NUDGE = (1e-6, 6.18e-7)


@dataclass(frozen=True, slots=True)
class MaskedRaster:
    """``data`` and ``valid`` are (bands, rows, columns); ``valid`` is True where a pixel means something.

    ``bands`` has one entry a plane, in order; ``unit`` is the unit of the values as they stand in ``data``.
    Raises FaultError where shapes disagree.
    """

    data: NDArray[Any]
    valid: NDArray[np.bool_]
    grid: Grid
    bands: tuple[Band, ...]
    unit: str = "DN"

    def __post_init__(self) -> None:
        if self.data.ndim != 3 or self.data.shape != self.valid.shape:
            raise FaultError(f"data {self.data.shape} and valid {self.valid.shape} must be equal and three-dimensional")
        if self.data.shape[1:] != self.grid.shape or self.data.shape[0] != len(self.bands):
            raise FaultError(f"data {self.data.shape} does not fit grid {self.grid.shape} and {len(self.bands)} bands")

    def plane(self, role: str) -> MaskedRaster:
        """The one band with that role; KeyError where there is none or more than one."""
        at = [i for i, b in enumerate(self.bands) if b.role == role]
        if len(at) != 1:
            raise KeyError(f"{len(at)} bands have the role {role!r}")
        i = at[0]
        return MaskedRaster(self.data[i : i + 1], self.valid[i : i + 1], self.grid, (self.bands[i],), self.bands[i].unit)

    @property
    def n_valid(self) -> int:
        """Valid samples over all planes."""
        return int(np.count_nonzero(self.valid))


def valid_mask(
    stored: NDArray[Any],
    bands: Sequence[Band],
    fill_rules: Sequence[FillRule] = (),
    alpha: NDArray[Any] | None = None,
    all_bands_fill: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """The one nodata policy: bool (bands, rows, columns), True where the stored value means something.

    Masked are: non-finite values; the band's declared nodata; values outside the band's ``valid_range`` where a rule of kind
    ``outside_range`` stands; pixels with alpha 0; pixels where *all* bands of the scene equal the fill value of an
    ``all_bands_equal`` rule. When only some bands were read, the caller computes the last over all bands and hands it in as
    ``all_bands_fill`` (rows, columns); else it is computed over ``stored``.
    """
    valid = np.isfinite(stored) if stored.dtype.kind in "fc" else np.ones(stored.shape, dtype=bool)
    for i, band in enumerate(bands):
        if band.nodata is not None and not np.isnan(band.nodata):
            valid[i] &= stored[i] != band.nodata
    for rule in fill_rules:
        if rule.kind == "outside_range":
            for i, band in enumerate(bands):
                if band.valid_range is not None:
                    low, high = band.valid_range
                    valid[i] &= (stored[i] >= low) & (stored[i] <= high)
        elif rule.kind == "all_bands_equal" and rule.value is not None and all_bands_fill is None:
            valid &= ~(stored == rule.value).all(axis=0)[None]
    if all_bands_fill is not None:
        valid &= ~all_bands_fill[None]
    if alpha is not None:
        valid &= (alpha != 0)[None]
    return valid
