"""Scale, offset, unit and fill of each sensor's products from the file through ingest to a figure: applied once, never twice.

Expected values are those of the product guides: physical = stored × scale + offset. A mean by a scale applied twice or not at all
differs from it by far more than the tolerance, which each case asserts of itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.transform import Affine

from apps.imagery.hints import SceneHints
from apps.imagery.ingest_convert import convert
from apps.imagery.inspect import inspect_file
from apps.imagery.readers import open_scene
from tests.unit.tools.rasters import Bench

RNG = np.random.default_rng(77)


@dataclass(frozen=True)
class Product:
    """A file as the product's maker writes it, and what its guide says. ``fill`` is the stored value of missing pixels."""

    name: str
    bands: tuple[str, ...]
    dtype: str
    low: float
    high: float
    role: str
    scale: float
    offset: float
    unit: str
    fill: float | None = None
    declares: bool = False
    hints: SceneHints | None = None


S2_BANDS = ("B2", "B3", "B4", "B8", "B8A")
PRODUCTS: dict[str, Product] = {
    "Sentinel-2 L2A before 2022": Product("S2A_MSIL2A_20210615T103021_N0300_R108_T32TQM.tif", S2_BANDS, "uint16", 300, 4000,
                                          "nir", 1e-4, 0.0, "reflectance", 0),
    "Sentinel-2 L2A since 2022": Product("S2A_MSIL2A_20230615T103021_N0509_R108_T32TQM.tif", S2_BANDS, "uint16", 1300, 5000,
                                         "nir", 1e-4, -0.1, "reflectance", 0),
    "Landsat 8 C2 reflectance": Product("LC08_L2SP_015032_20200720_20200911_02_T1_SR_B5.tif", ("SR_B5",), "uint16", 8000, 30000,
                                        "nir", 2.75e-5, -0.2, "reflectance", 0),
    "Landsat 5 C2 reflectance": Product("LT05_L2SP_015032_19990720_20200911_02_T1_SR_B4.tif", ("SR_B4",), "uint16", 8000, 30000,
                                        "nir", 2.75e-5, -0.2, "reflectance", 0),
    "Landsat 9 C2 temperature": Product("LC09_L2SP_015032_20220720_20230911_02_T1_ST_B10.tif", ("ST_B10",), "uint16", 38000,
                                        47000, "thermal1", 0.00341802, 149.0, "K", 0),
    "Landsat that declares its scale": Product("LC08_L2SP_015032_20200720_20200911_02_T1_SR_B5.tif", ("SR_B5",), "uint16", 8000,
                                               30000, "nir", 2.75e-5, -0.2, "reflectance", 0, declares=True),
    "MODIS reflectance": Product("MOD09GA.A2020200.h12v04.061.sur_refl_b02_1.tif", ("sur_refl_b02_1",), "int16", 500, 6000, "nir",
                                 1e-4, 0.0, "reflectance", -28672),
    "MODIS temperature": Product("MOD11A2.A2020200.h12v04.061.LST_Day_1km.tif", ("LST_Day_1km",), "uint16", 13500, 16000, "lst",
                                 0.02, 0.0, "K", 0),
    "MODIS NDVI": Product("TERRA_MODIS_012010_NDVI_2014-02-18.tif", ("",), "int16", 2000, 9000, "ndvi", 1e-4, 0.0, "1", -3000),
    "VIIRS reflectance": Product("VNP09GA.A2020200.h12v04.002.SurfReflect_I2_1.tif", ("SurfReflect_I2_1",), "int16", 500, 6000,
                                 "nir", 1e-4, 0.0, "reflectance", -28672),
    "VIIRS night lights": Product("VNP46A2.A2020200.h12v04.001.tif", ("DNB_BRDF-Corrected_NTL",), "uint16", 10, 900, "radiance",
                                  0.1, 0.0, "nW/cm2/sr", 65535),
    "a sensor that a person tells": Product("skysat_7.tif", ("red", "nir"), "uint16", 100, 9000, "nir", 2e-5, 0.01, "reflectance",
                                            0, hints=SceneHints(scale=2e-5, offset=0.01, unit="reflectance", nodata=0.0,
                                                                sensor="SkySat")),
}  # fmt: skip


def ingested(product: Product, folder: Path) -> tuple[Bench, Any, np.ndarray[Any, Any]]:
    stored = RNG.integers(int(product.low), int(product.high), (len(product.bands), 40, 50)).astype(product.dtype)
    if product.fill is not None:
        stored[:, :7] = product.fill
    path, cog = folder / product.name, folder / "cog.tif"
    with rasterio.open(path, "w", driver="GTiff", count=len(stored), height=40, width=50, dtype=product.dtype, crs="EPSG:32632",
                       transform=Affine(30, 0, 6e5, 0, -30, 5e6)) as out:
        out.write(stored)
        for i, name in enumerate(product.bands, 1):
            if name:
                out.set_band_description(i, name)
        if product.declares:
            out.scales, out.offsets = (product.scale,), (product.offset,)
    info = inspect_file(path, product.name, product.hints, scene_id="s", artifact="sha256:f").info
    convert(path, cog, product.name, product.hints or SceneHints())
    b = Bench((info, np.zeros((1, 1, 1))))
    b.box._open_scene = lambda held: open_scene(held, cog)
    return b, info, stored


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_mean_is_in_physical_units_once(name: str, tmp_path: Path) -> None:
    p = PRODUCTS[name]
    b, info, stored = ingested(p, tmp_path)
    band = next(x for x in info.bands if x.role == p.role)
    assert (band.scale, band.offset, band.unit) == (pytest.approx(p.scale), pytest.approx(p.offset), p.unit)
    o = b.execute([("s1", "asset.scene", (), {"scene": "s"}), ("i", "raster.product.band", ["s1"], {"role": p.role}),
                   ("out", "raster.summarize.statistic", ["i"], {})])
    assert o.status.state == "ok", o.status.reason
    plain = stored[band.index - 1][7:].astype(np.float64)
    once = float((plain * p.scale + p.offset).mean())
    assert o.result.value == pytest.approx(once, rel=1e-6) and o.result.unit == p.unit
    assert o.evidence.intermediate["valid_px"] == 33 * 50
    # fill counted, never scaled, scaled twice: all of them would be seen
    twice = float(((plain * p.scale + p.offset) * p.scale + p.offset).mean())
    with_fill = float((stored[band.index - 1].astype(np.float64) * p.scale + p.offset).mean())
    for wrong in (float(plain.mean()), twice, with_fill):
        assert abs(wrong - once) > 1e-3 * abs(once)


def test_decibels_are_not_scaled(tmp_path: Path) -> None:
    path, cog = tmp_path / "S1A_IW_GRDH_1SDV_20200720T054321.tif", tmp_path / "cog.tif"
    stored = RNG.normal(-12, 3, (2, 30, 30)).astype(np.float32)
    with rasterio.open(path, "w", driver="GTiff", count=2, height=30, width=30, dtype="float32", crs="EPSG:32632",
                       transform=Affine(10, 0, 6e5, 0, -10, 5e6)) as out:
        out.write(stored)
        out.descriptions = ("VV", "VH")
    info = inspect_file(path, path.name, None, scene_id="s", artifact="sha256:f").info
    convert(path, cog, path.name, SceneHints())
    b = Bench((info, stored))
    b.box._open_scene = lambda held: open_scene(held, cog)
    nodes = [("s1", "asset.scene", (), {"scene": "s"}), ("i", "raster.product.band", ["s1"], {"role": "vv"})]
    o = b.execute([*nodes, ("out", "raster.summarize.statistic", ["i"], {})])
    assert (o.result.unit, o.result.value) == ("dB", pytest.approx(float(stored[0].astype(float).mean()), rel=1e-9))
    # and they are not divided by one another
    o = b.execute([nodes[0], ("r", "raster.product.ratio", ["s1"], {"first": "vv", "second": "vh"})])
    assert o.status.state == "failed" and "dB" in o.status.reason
