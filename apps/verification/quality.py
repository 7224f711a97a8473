"""How quality bands are read, in the verifier's own words: by what a clear pixel looks like, not by the tools' table of bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.bands import Band

# The flags that a product takes out where it names none.
DEFAULT = {
    "sentinel2_scl": ("cloud", "shadow", "cirrus"),
    "landsat_c2": ("cloud", "dilated_cloud", "shadow"),
    "landsat_c1": ("cloud", "shadow"),
    "landsat_precollection": ("cloud",),
    "modis_state_1km": ("cloud", "shadow"),
    "mod13_reliability": ("cloud", "snow"),
    "sentinel2_qa60": ("cloud", "cirrus"),
}
# (mask, value): flagged where stored & mask == value, or ≥ value for two-bit confidences; classes as sets of values.
_BITS = {
    "landsat_c2": {
        "fill": (0x1, 0x1),
        "dilated_cloud": (0x2, 0x2),
        "cirrus": (0x4, 0x4),
        "cloud": (0x8, 0x8),
        "shadow": (0x10, 0x10),
        "snow": (0x20, 0x20),
        "clear": (0x40, 0x40),
        "water": (0x80, 0x80),
    },
    "landsat_c1": {
        "fill": (0x1, 0x1),
        "cloud": (0x10, 0x10),
        "shadow": (0x180, 0x180),
        "snow": (0x600, 0x600),
        "cirrus": (0x1800, 0x1800),
    },
    "landsat_precollection": {
        "cloud": (0xC000, 0xC000),
        "cirrus": (0x3000, 0x3000),
        "snow": (0xC00, 0xC00),
        "water": (0x30, 0x30),
    },
    "modis_state_1km": {"cloud": (0x3, 0x1), "shadow": (0x4, 0x4), "snow": (0x1000, 0x1000)},
    "sentinel2_qa60": {"cloud": (0x400, 0x400), "cirrus": (0x800, 0x800)},
}
_CLASSES = {
    "sentinel2_scl": {
        "fill": {0},
        "saturated": {1},
        "dark": {2},
        "shadow": {3},
        "vegetation": {4},
        "bare": {5},
        "water": {6},
        "unclassified": {7},
        "cloud": {8, 9},
        "cirrus": {10},
        "snow": {11},
    },
    "mod13_reliability": {"marginal": {1}, "snow": {2}, "cloud": {3}},
}
_ORDER = (
    *DEFAULT,
)


def flags_of(scheme: str) -> frozenset[str]:
    """The flags that bands of a scheme raise."""
    return frozenset({*_BITS.get(scheme, {}), *_CLASSES.get(scheme, {})})


def quality_band_of(bands: Sequence[Band]) -> Band | None:
    """The quality band that a product is masked by, or None."""
    held = [b for b in bands if b.role == "qa" and b.scheme in _ORDER]
    return min(held, key=lambda b: _ORDER.index(b.scheme), default=None)


def flagged(stored: NDArray[np.float64], scheme: str, flags: Sequence[str]) -> NDArray[np.bool_] | None:
    """Where the stored values raise one of the flags; None where the scheme has no such flag."""
    whole = np.where(np.isfinite(stored), stored, 0).astype(np.int64)
    out = np.zeros(whole.shape, dtype=bool)
    for flag in flags:
        if flag in _CLASSES.get(scheme, {}):
            out |= np.isin(whole, sorted(_CLASSES[scheme][flag]))
        elif flag in _BITS.get(scheme, {}):
            mask, value = _BITS[scheme][flag]
            out |= (whole & mask) == value
        else:
            return None
    return out
