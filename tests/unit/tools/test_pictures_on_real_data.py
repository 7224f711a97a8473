"""Figures of quality, shifts, drawings, bounds and ingested files of real pictures, against scipy, rasterio, pyproj and the
pictures' own pixels."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import rasterio
import shapely
from PIL import Image
from pyproj import Geod, Transformer
from scipy import ndimage, signal
from shapely.geometry import mapping

from apps.imagery.hints import SceneHints
from apps.imagery.ingest_convert import convert
from apps.imagery.inspect import inspect_file
from apps.imagery.readers import open_scene
from apps.tools.registration import estimated_shift
from tests.unit.tools.rasters import Bench, from_file, node_of
from tests.unit.tools.test_execute_images import bench as bench_of_files

pytestmark = pytest.mark.shared_data

GEOD = Geod(ellps="WGS84")
S = ("s1", "asset.scene", (), {"scene": "s"})


# --- quality ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "nodata"),
    [
        ("multispectral/rasterio_RGB.byte.tif", 0.0),
        ("trees/OSBS_029.tif", None),
        ("multispectral/solaris_rotterdam_ms1_32631.tif", None),
    ],
)
def test_quality_figures_of_real_pictures(shared_data: Path, name: str, nodata: float | None) -> None:
    """Statistics by numpy; noise by Immerkær's formula and sharpness by the Laplacian, with scipy's other convolution."""
    path = shared_data / name
    with rasterio.open(path) as src:
        stored = src.read().astype(float)
        kind = np.dtype(src.dtypes[0])
    roles = dict(zip(("red", "green", "blue"), (1, 2, 3), strict=True))
    o = Bench(from_file(path, roles, nodata=nodata)).call(
        "perceive", {"image_paths": ["s"], "objective": "quality", "mode": "evidence"}
    )
    assert o.status.state == "ok", o.status.reason
    for band, item in zip(stored, o.result.items, strict=True):
        valid = np.ones(band.shape, dtype=bool) if nodata is None else band != nodata
        values = band[valid]
        for key, wanted in {
            "n_valid": values.size,
            "mean": values.mean(),
            "std": values.std(),
            "min": values.min(),
            "max": values.max(),
            "median": np.median(values),
            "p2": np.percentile(values, 2),
            "p98": np.percentile(values, 98),
            "unique": len(np.unique(values)),
            "zero_share": (values == 0).mean(),
        }.items():
            assert item[key] == pytest.approx(wanted, rel=1e-9), key
        if kind.kind == "u":
            assert item["saturated_share"] == pytest.approx((values == np.iinfo(kind).max).mean())
        inner = ndimage.minimum_filter(valid, 3, mode="constant", cval=0) == 1
        filled = np.pad(np.where(valid, band, values.mean()), 1, mode="symmetric")
        response = signal.convolve2d(filled, [[1, -2, 1], [-2, 4, -2], [1, -2, 1]], mode="valid")
        assert item["noise"] == pytest.approx(math.sqrt(math.pi / 2) / 6 * np.abs(response)[inner].mean(), rel=1e-9)
        bends = signal.convolve2d(filled, [[0, 1, 0], [1, -4, 1], [0, 1, 0]], mode="valid")
        assert item["sharpness"] == pytest.approx(bends[inner].var() / values.var(), rel=1e-9)
    assert o.result.value == pytest.approx(1.0 if nodata is None else float((stored != nodata).all(axis=0).mean()), rel=1e-9)


def test_a_blurred_copy_of_a_real_picture_is_less_sharp_and_less_noisy(shared_data: Path) -> None:
    info, stored = from_file(shared_data / "trees/OSBS_029.tif", {"red": 1, "green": 2, "blue": 3})

    def figures(picture: Any) -> Any:
        return (
            Bench((info, picture))
            .call("perceive", {"image_paths": ["s"], "objective": "quality", "mode": "evidence"})
            .result.items
        )

    blurred = np.stack([ndimage.gaussian_filter(p, 2) for p in stored])
    noisy = np.clip(stored + np.random.default_rng(1).normal(0, 20, stored.shape), 0, 255).astype(np.uint8)
    for plain, soft, rough in zip(figures(stored), figures(blurred), figures(noisy), strict=True):
        assert soft["sharpness"] < 0.2 * plain["sharpness"] and soft["noise"] < 0.2 * plain["noise"]
        # 20 of noise is added to what there is, less what is cut at black and white
        assert rough["noise"] == pytest.approx(math.hypot(plain["noise"], 20), rel=0.15)


@pytest.mark.parametrize("every", [2, 4, 10, 16])
@pytest.mark.parametrize("along", ["row", "column"])
def test_stripes_laid_over_a_real_picture_are_found_as_large_as_they_are(shared_data: Path, along: str, every: int) -> None:
    """One line in 10 of MODIS and in 16 of Landsat is a detector's own: the jumps of such lines are known by arithmetic."""
    info, stored = from_file(shared_data / "change/landsat7_p15r32_2002-07-20.tif", {"red": 3, "nir": 4})
    pattern = (np.arange(300) % every == 0) * 5.0
    striped = stored + (pattern[:, None] if along == "row" else pattern[None, :])
    jumps = pattern[1:-1] - (pattern[:-2] + pattern[2:]) / 2

    def figures(picture: Any) -> Any:
        held = info.model_copy(update={"dtype": str(picture.dtype)})
        return Bench((held, picture)).call("perceive", {"image_paths": ["s"], "objective": "quality", "mode": "evidence"})

    plain, seen = figures(stored), figures(striped)
    other = {"row": "column", "column": "row"}[along]
    for before, item in zip(plain.result.items, seen.result.items, strict=True):
        assert before[f"{along}_stripes"] < 0.1 and item[f"{other}_stripes"] < 0.1
        assert item[f"{along}_stripes"] > 0.25
        assert item[f"{along}_stripes_size"] == pytest.approx(jumps.std(), rel=0.1)
    assert not any("stripes" in f for f in plain.evidence.intermediate["flags"])
    assert sum(f"has stripes along its {along}s" in f for f in seen.evidence.intermediate["flags"]) == len(stored)


def test_neighbours_of_a_large_picture_are_looked_at_at_full_resolution(shared_data: Path) -> None:
    """Thinned, pixels that are no neighbours would be taken for noise: a picture laid side by side has the noise of its tile."""
    info, stored = from_file(shared_data / "trees/OSBS_029.tif", {"red": 1, "green": 2, "blue": 3})

    def figures(picture: Any) -> Any:
        held = info.model_copy(
            update={"grid": info.grid.model_copy(update={"width": picture.shape[2], "height": picture.shape[1]})}
        )
        return Bench((held, picture)).call("perceive", {"image_paths": ["s"], "objective": "quality", "mode": "evidence"})

    one, many = figures(stored), figures(np.tile(stored, (1, 8, 8)))
    assert one.evidence.source["method"]["neighbours"] == "all" and "windows" in many.evidence.source["method"]["neighbours"]
    for small, large in zip(one.result.items, many.result.items, strict=True):
        assert large["noise"] == pytest.approx(small["noise"], rel=0.1)
        assert large["sharpness"] == pytest.approx(small["sharpness"], rel=0.15)


# --- shifts ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shift", [(0.0, 0.0), (2.0, -3.0), (1.4, 0.7), (-0.5, 2.25)])
@pytest.mark.parametrize("name", ["multispectral/s2_l1c_crop512_13band_32618.tif", "trees/OSBS_029.tif"])
def test_a_known_shift_of_a_real_picture_is_found(shared_data: Path, name: str, shift: tuple[float, float]) -> None:
    with rasterio.open(shared_data / name) as src:
        one = src.read(2).astype(float)
    other = ndimage.shift(one, shift, order=3, mode="nearest")
    found, likeness = estimated_shift(one, other, np.ones(one.shape, dtype=bool))
    assert found is not None and likeness is not None and np.abs(found - shift).max() < 0.15


def test_a_real_scene_against_itself_has_not_changed(shared_data: Path) -> None:
    info, stored = from_file(shared_data / "change/landsat7_p15r32_2002-07-20.tif", {"red": 3, "nir": 4})
    b = Bench((info.model_copy(update={"scene_id": "a"}), stored), (info.model_copy(update={"scene_id": "b"}), stored.copy()))
    o = b.call("perceive", {"image_paths": ["a", "b"], "objective": "what changed", "mode": "change"})
    assert o.status.state == "ok" and o.result.layers[0].n == 0 and o.evidence.validity["is_registered"] is True


# --- drawings --------------------------------------------------------------------------------------------------------------
def test_labelled_crowns_are_drawn_where_they_stand_and_nothing_else_is_touched(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "trees/OSBS_029.tif"
    table = pd.read_csv(shared_data / "trees/OSBS_029.csv")
    info, stored = from_file(path, {"red": 1, "green": 2, "blue": 3})
    b, folder = bench_of_files(tmp_path, (info, stored))
    boxes = [shapely.box(*r) for r in table[["xmin", "ymin", "xmax", "ymax"]].to_numpy(dtype=float)][:12]
    o = b.execute(
        [
            S,
            (
                "a",
                "image.annotate",
                ["s1"],
                {"marks": [{"geometry": mapping(g)} for g in boxes], "legend": False, "scale_bar": False, "form": "both"},
            ),
        ]
    )
    assert o.status.state == "ok", o.status.reason
    tiff, png = o.result.layers
    with rasterio.open(folder.path(tiff.artifact)) as src, rasterio.open(path) as own:
        rgba = src.read()
        assert src.crs == own.crs and src.transform.almost_equals(own.transform) and src.shape == own.shape
        plain = own.read()
    assert np.array_equal(np.moveaxis(rgba, 0, 2), np.asarray(Image.open(io.BytesIO(folder.path(png.artifact).read_bytes()))))
    changed = (rgba[:3] != plain).any(axis=0)
    at = shapely.points(*np.meshgrid(np.arange(400) + 0.5, np.arange(400) + 0.5))
    gaps = np.min([shapely.distance(g.exterior, at) for g in boxes], axis=0)
    assert not changed[gaps > 4].any()  # lines are a few pixels wide
    # a line of a pixel stands on one side of the edge or the other
    assert ndimage.binary_dilation(changed)[gaps < 0.6].mean() > 0.95
    assert node_of(o, "a")["drawn"][0]["n"] == 12


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("water_flood/Spain_7370579_S2Hand.tif", {"red": 4, "green": 3, "blue": 2}),
        ("multispectral/geopandas_s2a_l2a_fishbourne.tif", {"red": 1, "green": 2, "blue": 3}),
    ],
)
def test_the_scale_bar_of_a_real_scene_is_as_long_as_it_says(
    shared_data: Path, tmp_path: Path, name: str, roles: dict[str, int]
) -> None:
    path = shared_data / name
    b, folder = bench_of_files(tmp_path, from_file(path, roles))
    o = b.execute([S, ("a", "image.annotate", ["s1"], {"form": "geotiff", "legend": False})])
    assert o.status.state == "ok", o.status.reason
    bar = node_of(o, "a")["scale_bar"]
    with rasterio.open(path) as src:
        t = Transformer.from_crs(src.crs, "EPSG:4326", always_xy=True)
        row = src.height - 0.5
        ends = [t.transform(*(src.transform * (c, row))) for c in (0, src.width)]
        metres = GEOD.inv(ends[0][0], ends[0][1], ends[1][0], ends[1][1])[2] / src.width
    assert bar["metres_a_pixel"] == pytest.approx(metres, rel=2e-4)
    with rasterio.open(folder.path(o.result.layers[0].artifact)) as src:
        white = (src.read([1, 2, 3]) == 255).all(axis=0)
    x0, y0, x1, y1 = bar["covers_px"]
    longest = max(int(np.count_nonzero(line)) for line in white[y0:y1, x0:x1])
    assert longest == pytest.approx(bar["metres"] / metres, abs=1.5)


# --- bounds and windows ----------------------------------------------------------------------------------------------------
def test_bounds_of_a_real_area_are_its_outline_moved_by_half_a_pixel(shared_data: Path) -> None:
    path = shared_data / "change/landsat7_p15r32_2002-07-20.tif"
    with rasterio.open(path) as src:
        red, nir = src.read(3).astype(float), src.read(4).astype(float)
    with np.errstate(all="ignore"):
        green = (nir - red) / (nir + red) > 0.5
    nodes = [
        S,
        ("i", "raster.product.index", ["s1"], {"index": "ndvi"}),
        ("m", "raster.product.threshold", ["i"], {"value": 0.5}),
    ]
    b = Bench(from_file(path, {"red": 3, "nir": 4}))
    four = ndimage.generate_binary_structure(2, 1)
    # a pixel is on the outline where one of its four neighbours in the picture is not of the area
    inner = green & ~ndimage.binary_erosion(green, four, border_value=1)
    outer = ndimage.binary_dilation(green, four) & ~green
    for op, per in (("area", 900.0), ("share", 1 / green.size)):
        o = b.execute([*nodes, ("out", f"raster.summarize.{op}", ["m"], {})])
        assert o.result.value == pytest.approx(green.sum() * per, rel=1e-9)
        assert (node_of(o, "out")["edge_px"], node_of(o, "out")["outer_edge_px"]) == (inner.sum(), outer.sum())
        low, high = (green.sum() - 0.5 * inner.sum()) * per, (green.sum() + 0.5 * outer.sum()) * per
        assert o.result.interval == pytest.approx((low, high), rel=1e-9)


def test_no_window_and_no_thread_shows_in_figures_of_a_real_scene(shared_data: Path) -> None:
    path = shared_data / "water_flood/Spain_7370579_S2Hand.tif"
    held = from_file(path, {"green": 3, "nir": 8}, unit="reflectance", scale=1e-4, nodata=0)
    for statistic in ("mean", "std", "median", "skewness", "kurtosis"):
        found = {
            Bench(held, window_px=w, threads=n)
            .execute(
                [
                    S,
                    ("i", "raster.product.index", ["s1"], {"index": "ndwi"}),
                    ("out", "raster.summarize.statistic", ["i"], {"statistic": statistic}),
                ]
            )
            .result.value
            for w, n in ((256, 1), (256, 4), (512, 2), (1024, 1))
        }
        assert len(found) == 1, statistic


# --- from the file to the figure -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "called", "role", "scale", "offset", "kept"),
    [
        (
            "timeseries/mod13q1_sinop/TERRA_MODIS_012010_NDVI_2014-02-18.jp2",
            None,
            "ndvi",
            1e-4,
            0.0,
            lambda v: (v >= -2000) & (v <= 10000),
        ),
        ("terrain_landcover/spDataLarge_srtm.tif", None, "", 1.0, 0.0, lambda v: v != 65535),
        (
            "multispectral/landsat8_cloudy/l8_B4.tif",
            "LC08_L1TP_019033_20200704_20200704_01_RT_B4.TIF",
            "red",
            2e-5,
            -0.1,
            lambda v: v > 0,
        ),
    ],
)
def test_a_real_product_from_its_file_to_its_mean(
    shared_data: Path, tmp_path: Path, name: str, called: str | None, role: str, scale: float, offset: float, kept: Any
) -> None:
    """Through inspection, the copy as COG and the reader of scenes: values scaled once and fill left out. Landsat's numbers are
    those of USGS's Level 1: 2e-5 of reflectance each from -0.1, before the sun's height."""
    path = shared_data / name
    title, cog = called or path.name, tmp_path / "cog.tif"
    hints = SceneHints(nodata=0.0) if called else SceneHints()
    info = inspect_file(path, title, hints, scene_id="s", artifact="sha256:f").info
    convert(path, cog, title, hints)
    b = Bench((info, np.zeros((1, 1, 1))))
    b.box._open_scene = lambda held: open_scene(held, cog)  # type: ignore[method-assign]
    node = ("v", "raster.product.band", ["s1"], {"role": role or info.bands[0].role})
    with rasterio.open(path) as src:
        stored = src.read(1).astype(float)
    values = stored[kept(stored)] * scale + offset
    for statistic, figure in (("mean", np.mean), ("median", np.median), ("count", np.size)):
        o = b.execute([S, node, ("out", "raster.summarize.statistic", ["v"], {"statistic": statistic})])
        assert o.status.state == "ok", o.status.reason
        assert o.result.value == pytest.approx(float(figure(values)), rel=1e-6), statistic
    item = b.execute([S, ("out", "asset.bounds", ["s1"], {})]).result.items[0]
    with rasterio.open(path) as src:
        assert [item[k] for k in ("left", "bottom", "right", "top")] == pytest.approx(list(src.bounds), rel=1e-9)
