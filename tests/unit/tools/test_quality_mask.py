"""The option ``quality_mask`` of products, and the verifier's request for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from apps.core.geo.scene import SceneInfo
from tests.unit.tools.rasters import Bench, from_file, node_of, scene

S = ("s1", "asset.scene", (), {"scene": "s"})
OUT: tuple[Any, ...] = ("out", "raster.summarize.statistic", ["i"], {})


def ndvi(**params: Any) -> list[tuple[Any, ...]]:
    return [S, ("i", "raster.product.index", ["s1"], {"index": "ndvi", **params}), OUT]


def with_scheme(held: tuple[SceneInfo, Any], scheme: str) -> tuple[SceneInfo, Any]:
    info, stored = held
    bands = tuple(b.model_copy(update={"scheme": scheme}) if b.role == "qa" else b for b in info.bands)
    return info.model_copy(update={"bands": bands}), stored


def test_flagged_pixels_are_taken_out_and_counted() -> None:
    # clear, cloud (bit 3), shadow (bit 4), dilated cloud (bit 1)
    stored = np.array([[[100, 100, 100, 100]], [[300, 900, 100, 500]], [[64, 8, 16, 2]]], dtype=np.uint16)
    b = Bench(with_scheme(scene(stored, ["red", "nir", "qa"]), "landsat_c2"))
    plain, masked = b.execute(ndvi()), b.execute(ndvi(quality_mask="auto"))
    assert plain.result.value == pytest.approx((0.5 + 0.8 + 0.0 + 4 / 6) / 4) and plain.evidence.validity["quality_mask"] is None
    assert masked.result.value == pytest.approx(0.5) and masked.evidence.intermediate["valid_px"] == 1
    assert masked.evidence.validity["quality_mask"] == ["cloud, dilated_cloud, shadow by landsat_c2"]
    assert node_of(masked, "i_qa")["n_true"] == 3 and masked.evidence.intermediate["masked"]["masked_out"] == 3
    assert masked.configuration == plain.configuration
    one = b.execute(ndvi(quality_mask="auto", quality_flags=["cloud"]))
    assert one.evidence.intermediate["valid_px"] == 3


def test_no_quality_band_or_one_that_cannot_be_read_is_said() -> None:
    stored = np.ones((3, 2, 2), dtype=np.uint16)
    o = Bench(scene(stored, ["red", "nir", "qa"])).execute(ndvi(quality_mask="auto"))
    assert o.status.state == "failed" and "how its bits are read is not known" in o.status.reason
    o = Bench(scene(stored[:2], ["red", "nir"])).execute(ndvi(quality_mask="auto"))
    assert o.status.needs["roles"] == ["qa"]


def test_bits_are_not_read_by_another_scheme() -> None:
    stored = np.ones((1, 2, 2), dtype=np.uint16)
    b = Bench(with_scheme(scene(stored, ["qa"]), "landsat_c2"))
    o = b.execute([S, ("m", "raster.product.qa_mask", ["s1"], {"scheme": "landsat_precollection", "flags": ["cloud"]})])
    assert "read by landsat_c2" in o.status.reason


@pytest.mark.shared_data
def test_real_clouds_of_landsat8(shared_data: Path) -> None:
    folder = shared_data / "multispectral/landsat8_cloudy"
    planes = []
    for name in ("B4", "B5", "BQA"):
        with rasterio.open(folder / f"l8_{name}.tif") as src:
            planes.append(src.read(1))
    info, _ = from_file(folder / "l8_B4.tif", {"red": 1}, nodata=0)
    stored = np.stack(planes)
    bands = tuple(info.bands[0].model_copy(update={"index": i + 1, "role": r, "nodata": 0 if r != "qa" else None})
                  for i, r in enumerate(("red", "nir", "qa")))
    b = Bench(with_scheme((info.model_copy(update={"bands": bands}), stored), "landsat_precollection"))
    o = b.execute(ndvi(quality_mask="auto"))
    red, nir, qa = (p.astype(float) for p in planes)
    keep = (red > 0) & (nir > 0) & ((qa.astype(int) >> 14 & 3) != 3)
    assert o.result.value == pytest.approx(((nir - red) / (nir + red))[keep].mean(), rel=1e-12)
    assert o.evidence.intermediate["valid_px"] == int(keep.sum())
