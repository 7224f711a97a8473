"""Masks that are True everywhere are most of all masks: they are one and the same memory, so that nobody has to look or to
combine them pixel by pixel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Pixels of the largest window of which a whole mask is shared.
_MOST_PX = 1 << 20
_TRUE: NDArray[np.bool_] = np.ones(_MOST_PX, dtype=bool)
_TRUE.flags.writeable = False


def whole(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """A mask that is True everywhere, not to be written to."""
    n = int(np.prod(shape))
    return _TRUE[:n].reshape(shape) if n <= _MOST_PX else np.ones(shape, dtype=bool)


def is_whole(mask: NDArray[np.bool_]) -> bool:
    """Whether a mask, or the mask that it is a view of, came from ``whole``; False tells nothing."""
    return mask.base is _TRUE


def looked_at(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask itself, or the shared one where it is True everywhere."""
    return mask if is_whole(mask) or not mask.all() else whole(mask.shape)


def both(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """True where both are, not to be written to; the shapes are equal."""
    return other if is_whole(one) else one if is_whole(other) else one & other


def n_true(mask: NDArray[np.bool_]) -> int:
    """How many are True."""
    return mask.size if is_whole(mask) else int(np.count_nonzero(mask))


def all_true(mask: NDArray[np.bool_]) -> bool:
    return is_whole(mask) or bool(mask.all())
