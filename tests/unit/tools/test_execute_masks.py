"""Masks that are True everywhere: shared, never written to, and combined as any others."""

import numpy as np
import pytest

from apps.tools.execute.masks import all_true, both, is_whole, looked_at, n_true, whole


def test_a_whole_mask_is_known_without_a_look_and_so_are_its_parts() -> None:
    mask = whole((300, 400))
    assert mask.shape == (300, 400) and mask.all() and n_true(mask) == 120_000
    assert is_whole(mask) and is_whole(mask[256:, 10:20]) and all_true(mask[:, ::4])
    assert not is_whole(np.ones((300, 400), dtype=bool))
    with pytest.raises(ValueError, match="read-only"):
        mask[0, 0] = False
    # one that is too large to be shared is no less True
    assert whole((1025, 1024)).all() and not is_whole(whole((1025, 1024)))


def test_masks_are_combined_as_by_and() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.random((2, 60, 70)) > 0.3
    np.testing.assert_array_equal(both(one, other), one & other)
    for mask in (one, whole(one.shape)):
        np.testing.assert_array_equal(both(mask, whole(one.shape)), mask)
        np.testing.assert_array_equal(both(whole(one.shape), mask), mask)
        assert (n_true(mask), all_true(mask)) == (int(mask.sum()), bool(mask.all()))
    assert looked_at(one) is one and is_whole(looked_at(np.ones((60, 70), dtype=bool)))
