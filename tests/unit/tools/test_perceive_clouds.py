"""Clouds by three methods on a real cloudy scene (against its quality band) and on a real clear one; each says what it is."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray

from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from tests.unit.tools.rasters import Bench, from_file, scene

ROLES = ("blue", "green", "red", "nir", "swir1", "swir2")
needs_csmask = pytest.mark.skipif(find_spec("ukis_csmask") is None, reason="ukis-csmask is not installed (./rsure setup --ml)")


def look(held: Any, method: str = "auto", **more: Any) -> Any:
    b = Bench(held)
    asked = {"image_paths": ["s"], "objective": "clouds", "mode": "evidence", "options": {"clouds": method}}
    return b, b.call("perceive", asked | more)


def drawn(b: Bench, o: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(cloud, valid) of the class map."""
    classes, valid, names = b.layers.kept[o.result.layers[0].artifact]
    assert names == {0: "clear", 1: "cloud", 2: "shadow"}
    return (classes == 1) & valid, valid


def cloudy(shared_data: Path, *, with_quality: bool) -> tuple[SceneInfo, NDArray[Any]]:
    """Landsat 8 as top-of-atmosphere reflectance (the sun's height is not on record and is left out)."""
    folder = shared_data / "multispectral/landsat8_cloudy"
    names = ("B2", "B3", "B4", "B5", "B6", "B7") + (("BQA",) if with_quality else ())
    planes = []
    for name in names:
        with rasterio.open(folder / f"l8_{name}.tif") as src:
            planes.append(src.read(1))
    info, _ = from_file(folder / "l8_B4.tif", {"red": 1})
    bands = [info.bands[0].model_copy(update={"index": i + 1, "role": r, "unit": "reflectance", "scale": 2e-5, "offset": -0.1})
             for i, r in enumerate(ROLES)]
    if with_quality:
        bands.append(info.bands[0].model_copy(update={"index": 7, "role": "qa", "scheme": "landsat_precollection"}))
    return info.model_copy(update={"bands": tuple(bands), "sensor": "Landsat 8/9 OLI-TIRS"}), np.stack(planes)


def reference(shared_data: Path) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(cloud with high confidence, cloud or cirrus with medium or high confidence) of the scene's BQA."""
    with rasterio.open(shared_data / "multispectral/landsat8_cloudy/l8_BQA.tif") as src:
        bits = src.read(1).astype(int)
    cloud, cirrus = bits >> 14 & 3, bits >> 12 & 3
    return cloud == 3, (cloud >= 2) | (cirrus >= 2)


def scores(found: NDArray[np.bool_], truth: NDArray[np.bool_]) -> tuple[float, float, float]:
    hit = float((found & truth).sum())
    precision, recall = hit / found.sum(), hit / truth.sum()
    return precision, recall, 2 * precision * recall / (precision + recall)


@pytest.mark.shared_data
def test_the_quality_band_goes_first_and_is_read_bit_by_bit(shared_data: Path) -> None:
    b, o = look(cloudy(shared_data, with_quality=True))
    told = o.evidence.intermediate["clouds"]
    sure, _ = reference(shared_data)
    assert told["method"] == "qa" and told["cloud_px"] == int(sure.sum()) and told["scheme"] == "landsat_precollection"
    mask, valid = drawn(b, o)
    assert np.array_equal(mask, sure) and valid.all()
    assert any("cloud covers 6.0%" in f for f in o.evidence.intermediate["flags"])


@needs_csmask
@pytest.mark.shared_data
def test_the_network_finds_the_field_of_clouds(shared_data: Path) -> None:
    b, o = look(cloudy(shared_data, with_quality=False))
    told = o.evidence.intermediate["clouds"]
    assert told["method"] == "csmask" and told["weights"]["digest"].startswith("sha256:")
    assert "ukis-csmask" in o.provenance.packages
    mask, _ = drawn(b, o)
    precision, recall, f1 = scores(mask, reference(shared_data)[1])
    # cloud or cirrus: the network fills the gaps between small clouds, the bits do not
    assert precision > 0.54 and recall > 0.99 and f1 > 0.70, (precision, recall, f1)


@needs_csmask
@pytest.mark.shared_data
def test_the_network_leaves_a_clear_scene_clear(shared_data: Path) -> None:
    info, stored = from_file(shared_data / "multispectral/s2_l1c_crop512_13band_32618.tif",
                             dict(zip(ROLES, (2, 3, 4, 8, 12, 13), strict=True)), unit="reflectance", scale=1e-4)
    b, o = look((info, stored), "csmask")
    told = o.evidence.intermediate["clouds"]
    assert told["cloud_share"] < 0.01 and told["shadow_share"] < 0.05 and told["gsd_m"] == pytest.approx(20, abs=11)
    mask, _ = drawn(b, o)
    assert mask.shape == (512, 512)


@pytest.mark.shared_data
def test_spectral_tests_find_thick_clouds_and_little_else(shared_data: Path) -> None:
    b, o = look(cloudy(shared_data, with_quality=False), "tests")
    told = o.evidence.intermediate["clouds"]
    mask, _ = drawn(b, o)
    precision, recall, f1 = scores(mask, reference(shared_data)[0])
    assert told["method"] == "tests" and "misses thin clouds" in told["limits"]
    assert precision > 0.69 and recall > 0.70 and f1 > 0.70, (precision, recall, f1)
    info, stored = from_file(shared_data / "multispectral/s2_l1c_crop512_13band_32618.tif",
                             dict(zip(ROLES, (2, 3, 4, 8, 12, 13), strict=True)), unit="reflectance", scale=1e-4)
    clear = look((info, stored), "tests")[1].evidence.intermediate["clouds"]
    assert clear["cloud_share"] < 0.02 and "shadow_share" not in clear


@pytest.mark.shared_data
def test_a_region_has_its_own_share(shared_data: Path) -> None:
    sure, _ = reference(shared_data)
    ring = [[0, 200], [300, 200], [300, 400], [0, 400], [0, 200]]
    _, o = look(cloudy(shared_data, with_quality=True), region={"type": "Polygon", "coordinates": [ring]}, region_crs="image")
    told = o.evidence.intermediate["clouds"]
    assert told["cloud_px"] == int(sure[200:400, :300].sum()) and told["n_valid"] == 60_000


@needs_csmask
@pytest.mark.shared_data
def test_the_network_is_not_shown_pixels_that_it_does_not_know(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.tools.perceive import clouds

    monkeypatch.setattr(clouds, "LOOK_PX", 150_000)
    held = cloudy(shared_data, with_quality=False)
    # the scene has 378,081 pixels of 30 m: thinned to 100 m the network would find a sixth of the clouds
    told = look(held)[1].evidence.intermediate["clouds"]
    assert told["method"] == "tests"
    assert "too many for the network" in look(held, "csmask")[1].status.reason
    # a region is looked at as it is, and like in the whole
    ring = [[50, 150], [400, 150], [400, 450], [50, 450], [50, 150]]
    b, o = look(held, "csmask", region={"type": "Polygon", "coordinates": [ring]}, region_crs="image")
    told = o.evidence.intermediate["clouds"]
    mask, valid = drawn(b, o)
    assert told["n_valid"] == 105_000 and valid.sum() == 105_000 and not mask[:140].any()
    truth = reference(shared_data)[1][150:450, 50:400]
    assert scores(mask[150:450, 50:400], truth)[1] > 0.98
    rows, cols = held[0].grid.shape
    wide = Grid(crs="EPSG:32616", transform=(100.0, 0.0, 3e5, 0.0, -100.0, 3.5e6), width=cols, height=rows)
    coarse = held[0].model_copy(update={"grid": wide})
    assert "too coarse" in look((coarse, held[1]), "csmask")[1].status.reason


def test_what_cannot_be_told_is_not() -> None:
    rng = np.random.default_rng(2)
    digital = scene(rng.integers(1, 200, (4, 40, 40)).astype(np.uint8), ["blue", "green", "red", "nir"])
    _, o = look(digital)
    assert o.status.state == "ok" and o.evidence.intermediate["clouds"]["method"] is None
    assert "no reflectance" in o.evidence.intermediate["clouds"]["why"] and o.result.layers == ()
    for method in ("qa", "csmask", "tests"):
        _, o = look(digital, method)
        assert o.status.state == "failed" and f"by {method}" in o.status.reason
    assert look(digital, "guess")[1].status.needs["code"] == "BAD_ARGUMENT"
    assert look(digital, "none")[1].evidence.intermediate["clouds"]["why"] == "not asked for"


@pytest.mark.shared_data
def test_the_checks_accept_what_is_right(shared_data: Path) -> None:
    from tests.unit.verification.samples import Sample
    from tests.unit.verification.test_judge import judged

    b, o = look(cloudy(shared_data, with_quality=True))
    checks, _ = judged(Sample(o, b))
    assert [c.check for c in checks if c.outcome == "failed"] == []
