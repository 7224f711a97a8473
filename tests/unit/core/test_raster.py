"""The one nodata policy."""

import numpy as np
import pytest

from apps.core.errors import FaultError
from apps.core.geo import Band, FillRule, Grid, MaskedRaster, valid_mask

BANDS = (Band(index=1, role="red"), Band(index=2, role="nir"))


def test_nan_nodata_alpha_and_fill_are_masked_and_nothing_else() -> None:
    stored = np.array([[[0, 5, np.nan, -9]], [[0, 0, 7, 4]]], dtype=np.float32)
    bands = (Band(index=1, role="red", nodata=-9), Band(index=2, role="nir"))
    valid = valid_mask(stored, bands, [FillRule(kind="all_bands_equal", value=0)], alpha=np.array([[1, 0, 1, 1]]))
    assert valid.tolist() == [[[False, False, False, False]], [[False, False, True, True]]]


def test_values_outside_the_valid_range_are_fill_only_under_a_rule() -> None:
    stored = np.array([[[-3000, 500, 10001]]], dtype=np.int16)
    band = (Band(index=1, role="ndvi", valid_range=(-2000, 10000)),)
    assert valid_mask(stored, band).all()
    assert valid_mask(stored, band, [FillRule(kind="outside_range")]).tolist() == [[[False, True, False]]]


def test_zero_in_one_band_alone_is_a_value() -> None:
    stored = np.array([[[0, 3]], [[4, 0]]], dtype=np.uint8)
    assert valid_mask(stored, BANDS, [FillRule(kind="all_bands_equal", value=0)]).all()


def test_fill_of_the_whole_scene_reaches_a_single_band() -> None:
    stored = np.zeros((1, 1, 2), dtype=np.uint8)
    valid = valid_mask(stored, BANDS[:1], [FillRule(kind="all_bands_equal", value=0)], all_bands_fill=np.array([[True, False]]))
    assert valid.tolist() == [[[False, True]]]


def test_shapes_that_disagree_are_a_fault() -> None:
    with pytest.raises(FaultError):
        MaskedRaster(np.zeros((2, 3, 3)), np.ones((2, 3, 3), bool), Grid(width=4, height=3), BANDS)


def test_plane_is_found_by_role_never_by_position() -> None:
    raster = MaskedRaster(
        np.stack([np.full((2, 2), 1), np.full((2, 2), 9)]), np.ones((2, 2, 2), bool), Grid(width=2, height=2), BANDS
    )
    assert raster.plane("nir").data.max() == 9
    with pytest.raises(KeyError, match="blue"):
        raster.plane("blue")
