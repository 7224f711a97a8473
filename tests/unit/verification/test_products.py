"""The verifier's own formulas of products, against figures by hand, scipy and scikit-image: neither its code nor the tools'."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import constants, ndimage, stats
from skimage.filters import threshold_otsu

from apps.core.geo.grid import Grid
from apps.tools.execute.retrievals import RETRIEVALS
from apps.verification.inversions import INVERSIONS
from apps.verification.products import (
    NotFollowedError,
    best_between,
    best_cut,
    between_of,
    classes_of,
    component_of,
    composite_of,
    cover_of,
    focal_of,
    math_of,
    pixel_trend_of,
    terrain_of,
)
from apps.verification.regrid import gathered, places_in, sampled

RNG = np.random.default_rng(3)


def whole(data: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.asarray(data, dtype=float), np.ones(np.shape(data), dtype=bool)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a - b / 2 ^ 2", 2.5), ("-a ^ 2", -9.0), ("b ^ 3 ^ 2", 512.0), ("where(a > b, a, b) * 10", 30.0),
        ("min(a, b) + max(a, b)", 5.0), ("(a == 3) + (b != 2)", 1.0), ("log10(100) * sqrt(a + 1)", 4.0), ("floor(a / b)", 1.0),
    ],
)  # fmt: skip
def test_band_math_by_hand(text: str, value: float) -> None:
    data, valid = math_of(text, {"a": whole([[3.0]]), "b": whole([[2.0]])})
    assert valid.all() and data[0, 0] == pytest.approx(value)


@pytest.mark.parametrize("text", ["__import__('os')", "a.real", "a if a else b", "a < b < 3", "[a]", "abs(a, b)", "a +", "1 + 2"])
def test_what_is_no_band_math_is_not_followed(text: str) -> None:
    with pytest.raises(NotFollowedError):
        math_of(text, {"a": whole([[3.0]]), "b": whole([[2.0]])})


def test_undefined_math_is_masked() -> None:
    data, valid = math_of("a / b", {"a": whole([[1.0, 1.0]]), "b": whole([[0.0, 4.0]])})
    assert valid.tolist() == [[False, True]] and data[0, 1] == 0.25


def test_otsu_against_skimage() -> None:
    values = np.concatenate((RNG.normal(0.1, 0.05, 4000), RNG.normal(0.6, 0.1, 2500)))
    cut, theirs = best_cut(values), float(threshold_otsu(values, nbins=4096))
    assert cut == pytest.approx(theirs, abs=0.01)
    assert between_of(values, theirs) == pytest.approx(best_between(values), rel=1e-3)
    assert between_of(values, cut) == pytest.approx(best_between(values), rel=1e-9)
    assert between_of(values, 0.1) < 0.7 * best_between(values)


def test_a_tilted_plane_has_its_slope_and_falls_its_way() -> None:
    rows, cols = np.mgrid[:9, :9].astype(float)
    # 3 m up a pixel of 10 m towards the east, 4 m down a pixel towards the south
    plane = whole(100 + 3 * cols - 4 * rows)
    slope, valid = terrain_of(plane, {}, 10.0, 10.0)
    assert valid.all() and slope == pytest.approx(np.degrees(np.arctan(0.5)))
    # it rises to the north-east, so it falls to the south-west: 180 + atan(3 / 4)
    assert terrain_of(plane, {"product": "aspect"}, 10.0, 10.0)[0] == pytest.approx(180 + np.degrees(np.arctan2(3, 4)))
    normal, sun = np.array([-0.3, -0.4, 1]) / np.sqrt(1.25), np.array([-0.5, 0.5, np.sqrt(0.5)])
    shade = terrain_of(plane, {"product": "hillshade"}, 10.0, 10.0)[0]
    assert shade == pytest.approx(max(0.0, float(normal @ sun)))
    assert terrain_of(plane, {"product": "roughness"}, 1.0, 1.0)[0] == pytest.approx(14.0)
    assert terrain_of(plane, {"product": "tpi"}, 1.0, 1.0)[0] == pytest.approx(0.0, abs=1e-9)
    assert terrain_of(plane, {"product": "tri"}, 1.0, 1.0)[0] == pytest.approx((3 + 3 + 4 + 4 + 7 + 7 + 1 + 1) / 8)
    assert terrain_of(plane, {"product": "relief", "window": 5}, 1.0, 1.0)[0] == pytest.approx(28.0)


def test_moving_windows_against_scipy() -> None:
    data = RNG.random((12, 14))
    for name, theirs in (("median", ndimage.median_filter(data, 5)), ("max", ndimage.maximum_filter(data, 5)),
                         ("mean", ndimage.uniform_filter(data, 5))):
        found, valid = focal_of(whole(data), {"statistic": name, "size": 5})
        assert valid.all() and found == pytest.approx(theirs[2:-2, 2:-2])


def test_many_dates_against_numpy_and_scipy() -> None:
    held = RNG.random((7, 5, 6))
    known = RNG.random(held.shape) > 0.2
    planes = [(d, v) for d, v in zip(held, known, strict=True)]
    holes = np.where(known, held, np.nan)
    for params, theirs in (({"method": "median"}, np.nanmedian(holes, axis=0)), ({"method": "std"}, np.nanstd(holes, axis=0)),
                           ({"method": "percentile", "percentile": 30}, np.nanpercentile(holes, 30, axis=0))):
        assert composite_of(planes, params)[0] == pytest.approx(theirs)
    years = [0.0, 0.4, 1.1, 1.5, 2.2, 2.9, 3.3]
    slope, p, r2 = (pixel_trend_of(planes, years, {"output": o})[0] for o in ("slope", "p_value", "r2"))
    for i in range(5):
        for j in range(6):
            at = known[:, i, j]
            if at.sum() >= 3:
                fit = stats.linregress(np.array(years)[at], held[at, i, j])
                assert (slope[i, j], p[i, j], r2[i, j]) == pytest.approx((fit.slope, fit.pvalue, fit.rvalue**2))


def test_the_first_component_lies_along_the_spread() -> None:
    along = RNG.normal(0, 5, (20, 20))
    planes = [whole(along + 1), whole(2 * along - 3)]
    found, _ = component_of(planes, planes, {})
    assert np.abs(found) == pytest.approx(np.sqrt(5) * np.abs(along - along.mean()), rel=1e-9)


def test_classes_and_cover_by_hand() -> None:
    plane = whole([[-0.3, -0.25, 0.0, 0.27, 0.7]])
    assert classes_of(plane, {"preset": "burn_severity"})[0].tolist() == [[1, 2, 3, 5, 7]]
    assert cover_of(plane, 0.05, 0.55)[0].tolist() == [[0.0, 0.0, 0.0, pytest.approx(0.44), 1.0]]


def test_retrievals_by_hand() -> None:
    def of(name: str, values: dict[str, float], **numbers: float) -> float:
        found = INVERSIONS[name]
        return float(found.compute({k: np.array([v]) for k, v in values.items()}, {**found.usual, **numbers})[0])

    assert of("brightness_temperature", {"radiance": 9.0}) == pytest.approx(1321.0789 / np.log(774.8853 / 9.0 + 1))
    assert of("albedo_landsat", dict.fromkeys(("blue", "red", "nir", "swir1", "swir2"), 0.2)) == pytest.approx(0.2014)
    assert of("emissivity_ndvi", {"ndvi": 0.35}) == pytest.approx(0.973 + 0.017 / 4)
    # 300 K through an emissivity of 0.98 at 10.895 µm: 300 / (1 + 0.22717 ln 0.98)
    assert of("lst_emissivity", {"bt": 300.0, "emissivity": 0.98}) == pytest.approx(301.3832, abs=2e-4)
    assert of("turbidity", {"red": 0.05}) == pytest.approx(228.1 * 0.05 / (1 - 0.05 / 0.1641))
    assert of("snow_depth_chang", {"t18h": 250.0, "t37h": 230.0}) == pytest.approx(31.8)
    assert of("fire_radiative_power", {"t4": 400.0}, background=300.0) == pytest.approx(4.34e-19 * (400.0**8 - 300.0**8))
    # 400 K shines with 13.891 W m⁻² sr⁻¹ µm⁻¹ at 3.96 µm, 300 K with 0.673
    assert of("fire_radiative_power_radiance", {"t4": 400.0, "background": 300.0}) == pytest.approx(
        5.670374e-8 / 3e-9 * (13.891 - 0.673), rel=1e-4)
    # NSIDC's tie points of open water and first-year ice, and as much of both
    assert of("sea_ice_nasa_team", {"t19v": 183.4, "t19h": 113.2, "t37v": 204.0}) == pytest.approx(0, abs=1e-12)
    assert of("sea_ice_nasa_team", {"t19v": 251.5, "t19h": 235.5, "t37v": 242.0}) == pytest.approx(1)
    assert of("sea_ice_nasa_team", {"t19v": 217.45, "t19h": 174.35, "t37v": 223.0}) == pytest.approx(0.5)
    # a grey body of 300 K; the first guess of 0.99 is what parts it from the truth
    grey = {f"l{10 + i}": 0.994 * planck(um, 300.0) for i, um in enumerate((8.291, 8.634, 9.075, 10.657, 11.318))}
    assert of("lst_separation", grey) == pytest.approx(300.0, abs=0.5)


def planck(um: float, kelvin: float) -> float:
    return float(2e-6 * constants.h * constants.c**2 / (um * 1e-6) ** 5
                 / np.expm1(constants.h * constants.c / (um * 1e-6 * constants.k * kelvin)))


def test_every_retrieval_of_the_tools_is_followed() -> None:
    assert set(INVERSIONS) == set(RETRIEVALS)
    for name, found in INVERSIONS.items():
        assert set(found.variables) == set(RETRIEVALS[name].inputs), name
        theirs = {k: v for k, v in RETRIEVALS[name].coefficients.items() if v is not None}
        assert dict(found.usual) == theirs, name


def test_a_coarser_grid_gathers_and_a_finer_one_samples() -> None:
    fine = Grid(crs="EPSG:32630", transform=(10, 0, 6e5, 0, -10, 5.6e6), width=8, height=8)
    coarse = Grid(crs="EPSG:32630", transform=(40, 0, 6e5, 0, -40, 5.6e6), width=2, height=2)
    data = np.arange(64.0).reshape(8, 8)

    def read(window: tuple[int, int, int, int]) -> tuple[NDArray[Any], NDArray[Any]]:
        c, r, w, h = window
        return whole(data[r : r + h, c : c + w])

    found = gathered(read, fine, coarse, (0, 0, 2, 2), "average", 0.5)
    assert found.sure.all() and found.data == pytest.approx(data.reshape(2, 4, 2, 4).mean(axis=(1, 3)))
    middle = sampled(read, fine, *places_in(fine, coarse, (0, 0, 2, 2)), "bilinear")
    # the middle of a coarse pixel is a corner of four fine ones
    corners = [[[1.5, 1.5], [5.5, 5.5]], [[1.5, 5.5], [1.5, 5.5]]]
    assert middle.data == pytest.approx(ndimage.map_coordinates(data, corners, order=1))
