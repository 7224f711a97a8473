"""Every operator on real pixels under relations that must not change what it says: another file form, type, scale, orientation,
an unused band, the order of dates; and a region that is the whole of a cut. Copies of one raster in every form that is read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from django.conf import settings
from netCDF4 import Dataset
from numpy.typing import NDArray
from pyproj import CRS
from rasterio import Affine
from scipy import ndimage

from apps.core.evidence.plan import Plan, Question
from apps.core.geo.bands import Band
from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from apps.imagery.hints import SceneHints
from apps.imagery.ingest_convert import convert
from apps.imagery.inspect import inspect_file
from apps.imagery.readers import open_scene
from apps.tools.toolbox import LocalToolBox
from tests.unit.tools.rasters import TASK, Bench, MemoryLayers, scene
from tests.unit.tools.test_operator_matrix import BASE, CASES, DAYS, NDVIS, UNITS, ZONE, figures

SAMPLES = Path(settings.BASE_DIR) / "apps/imagery/samples"
NODATA = -9999
N = 120
PLACE = Affine(30.0, 0.0, 390045.0, 0.0, -30.0, 4491105.0)
SCALES = {"lst": 0.01, "elevation": 1.0, "qa": 1.0, "class": 1.0}
Stack = NDArray[Any]


@functools.cache
def landsat() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    found = []
    for day in ("2002-07-20", "2002-11-25"):
        with rasterio.open(SAMPLES / f"landsat7_p15r32_{day}.tif") as source:
            found.append(source.read().astype(float)[:, 40 : 40 + N, 60 : 60 + N])
    return found[0], found[1]


@functools.cache
def dates() -> list[Stack]:
    """Six dates between two real ones: reflectances, kelvins, heights, bits and classes in whole numbers, with gaps."""
    summer, autumn = landsat()
    out = []
    for part in (0.05, 0.3, 0.55, 0.75, 0.9, 1.0):
        image = (1 - part) * summer + part * autumn
        planes = [np.round(20 * image[k] + 150) for k in (2, 3, 1, 0, 4, 5)]
        planes.append(np.round((image[6] * 0.4 + 240) * 100))
        planes.append(np.round(200 + 3 * ndimage.uniform_filter(summer[3], 9) + np.arange(N)[:, None] * 1.5))
        planes.append(np.where(image[0] > np.percentile(image[0], 94), 8.0, 64.0))
        ndvi = (planes[1] - planes[0]) / (planes[1] + planes[0])
        planes.append(1.0 + (ndvi > 0.2) + (ndvi > 0.5))
        stack = np.stack(planes).astype(np.int16)
        stack[:, image[5] < np.percentile(image[5], 2)] = NODATA
        stack[:, 30:45, 60:80] = NODATA
        out.append(stack)
    return out


def bench(
    folder: Path, stacks: list[Stack], *, nodata: float | None = NODATA, place: Affine = PLACE, finer: float = 1.0,
    form: dict[str, Any] | None = None, order: tuple[int, ...] = (0, 1, 2, 3, 4, 5),
) -> Bench:  # fmt: skip
    """The dates in files of that form; ``finer``: by how much smaller a stored step of a measured band is."""
    paths: dict[str, Path] = {}
    scenes: list[tuple[SceneInfo, Stack]] = []
    for k in order:
        stack = stacks[k]
        paths[f"s{k}"] = folder / f"{k}.tif"
        with rasterio.open(
            paths[f"s{k}"], "w", driver="GTiff", width=stack.shape[2], height=stack.shape[1], count=len(stack), crs="EPSG:32618",
            dtype=stack.dtype.name, nodata=nodata, transform=place, **(form or {}),
        ) as out:  # fmt: skip
            out.write(stack)
        info, _ = scene(np.zeros((1, *stack.shape[1:])), ["red"], scene_id=f"s{k}", date=DAYS[k])
        bands = tuple(
            Band(index=i + 1, role=role, role_source="declared", unit=unit, nodata=nodata,
                 scheme="landsat_c2" if role == "qa" else "",
                 scale=SCALES.get(role, 1e-4) / (finer if role not in ("qa", "class") else 1))
            for i, (role, unit) in enumerate(UNITS.items())
        )  # fmt: skip
        bands += tuple(Band(index=i, role="unknown", nodata=nodata) for i in range(len(bands) + 1, len(stack) + 1))
        grid = Grid(crs="EPSG:32618", width=stack.shape[2], height=stack.shape[1],
                    transform=(place.a, place.b, place.c, place.d, place.e, place.f))  # fmt: skip
        told = {"grid": grid, "bands": bands, "dtype": stack.dtype.name, "sensor": "Landsat 8/9 OLI-TIRS"}
        scenes.append((info.model_copy(update=told), stack))
    b = Bench(*scenes)
    b.box = LocalToolBox(open_scene=lambda i: open_scene(i, paths[i.scene_id]), layers=b.layers, revision="test")
    return b


def turned(turn: Callable[[Stack], Stack]) -> list[Stack]:
    return [np.ascontiguousarray(np.stack([turn(plane) for plane in stack])) for stack in dates()]


def finer(by: int) -> list[Stack]:
    """The same values in steps smaller by ``by``: of whole numbers of 32 bits."""
    out = []
    for stack in dates():
        wide = stack.astype(np.int32)
        wide[:8] = np.where(stack[:8] == NODATA, NODATA, wide[:8] * by)
        out.append(wide)
    return out


Turn = Callable[[Stack], Stack]
# relation → (files, how the layers are turned, how far figures may be off: the rounding of 32 bits where types differ)
RELATIONS: dict[str, tuple[dict[str, Any], Turn | None, float]] = {
    "strips of 7 rows, other end first": (
        {"stacks": dates, "form": {"tiled": False, "blockysize": 7, "compress": "lzw", "ENDIANNESS": "BIG"}}, None, 0),
    "BigTIFF, bands side by side": (
        {"stacks": dates, "form": {"BIGTIFF": "YES", "interleave": "pixel", "compress": "zstd", "tiled": True,
                                   "blockxsize": 64, "blockysize": 64}}, None, 0),
    "32 bits": ({"stacks": lambda: [s.astype(np.float32) for s in dates()]}, None, 0),
    "gaps are NaN": ({"stacks": lambda: [np.where(s == NODATA, np.nan, s).astype(np.float64) for s in dates()],
                      "nodata": None}, None, 3e-6),
    "steps of a third": ({"stacks": lambda: finer(3), "finer": 3.0}, None, 3e-6),
    "a band that nobody asks for": (
        {"stacks": lambda: [np.concatenate([s, np.full((1, N, N), NODATA, np.int16)]) for s in dates()]}, None, 0),
    "south-up": ({"stacks": lambda: turned(np.flipud), "place": PLACE * Affine(1, 0, 0, 0, -1, N)}, np.flipud, 1e-9),
    "turned by 90°": ({"stacks": lambda: turned(np.rot90), "place": PLACE * Affine(0, -1, N, 1, 0, 0)}, np.rot90, 1e-9),
    "dates in another order": ({"stacks": dates, "order": (3, 0, 5, 2, 4, 1)}, None, 0),
}  # fmt: skip
# Pictures have an upper side; a chart is one of numbers; warping makes a grid of its own; steps of slopes on a turned grid are
# those of the ellipsoid and not of the zone (4 in 10,000).
NOT_TURNED = {"image.annotate", "image.chart", "image.colours", "raster.product.reproject", "raster.product.terrain"}
OF_THE_FRAME = {"row", "column", "longitude", "latitude", "distance_m", "scene"}


def _near(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, float) and isinstance(b, int | float) and not isinstance(b, bool):
        return bool(abs(a - b) <= tolerance * max(1.0, abs(a)))
    if isinstance(a, list):
        return len(a) == len(b) and all(_near(x, y, tolerance) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def _alike(one: dict[str, Any], other: dict[str, Any], turn: Turn | None, tolerance: float) -> str:
    """What differs; '' where nothing does."""
    for key in ("value", "unit", "valid_px"):
        if not _near(one[key], other[key], tolerance):
            return f"{key}: {one[key]} and {other[key]}"
    if len(one["items"]) != len(other["items"]) or len(one["layers"]) != len(other["layers"]):
        return "items or layers"
    for a, b in zip(one["items"], other["items"], strict=True):
        for key in a.keys() - (OF_THE_FRAME if turn is not None else {"scene"}):
            if not _near(a[key], b[key], tolerance):
                return f"{key}: {a[key]} and {b[key]}"
    for (valid, data), (valid_2, data_2) in zip(one["layers"], other["layers"], strict=True):
        valid, data = (valid, data) if turn is None else (turn(valid), turn(data))
        # layers are of 32 bits, pictures of whole steps
        slack = 1.0 if data.ndim == 3 and tolerance else 10 * tolerance
        rounding = max(tolerance, 2e-7 if turn is not None else 0)
        if not np.array_equal(valid, valid_2) or not np.allclose(data, data_2, rtol=rounding, atol=slack):
            return f"a layer: {int((valid != valid_2).sum())} px of another validity"
    return ""


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return bench(tmp_path_factory.mktemp("known"), dates())


@pytest.fixture(scope="module", params=RELATIONS)
def related(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Bench, Turn | None, float]:
    files, turn, tolerance = RELATIONS[request.param]
    more = {k: v for k, v in files.items() if k != "stacks"}
    return request.param, bench(tmp_path_factory.mktemp("related"), files["stacks"](), **more), turn, tolerance


def _zone_turned(nodes: Any, name: str) -> Any:
    moves: dict[str, Callable[[Any, Any], list[Any]]] = {
        "south-up": lambda x, y: [x, N - y],
        "turned by 90°": lambda x, y: [y, N - x],
    }
    if name not in moves:
        return nodes
    ring = [moves[name](x, y) for x, y in ZONE["coordinates"][0]]
    return [(i, op, n, p | {"geojson": {"type": "Polygon", "coordinates": [ring]}} if op == "vector.zones" else p)
            for i, op, n, p in nodes]  # fmt: skip


@pytest.mark.parametrize(("op", "nodes"), [c for c in CASES if str(c.id).endswith("-0")])
def test_what_does_not_matter_changes_nothing(
    known: Bench, related: tuple[str, Bench, Turn | None, float], op: str, nodes: Any
) -> None:
    name, b, turn, tolerance = related
    if turn is not None and op in NOT_TURNED:
        return
    one, other = known.execute(nodes, "out"), b.execute(_zone_turned(nodes, name), "out")
    assert one.status.state == other.status.state, (one.status.reason, other.status.reason)
    if one.status.state == "ok":
        found, wanted = figures(other, b), figures(one, known)
        assert _alike(wanted, found, turn, tolerance) == ""


@pytest.mark.parametrize("op", ["composite", "anomaly", "pixel_trend", "summarize.series", "summarize.trend"])
def test_a_date_that_is_named_twice_is_refused_and_their_order_is_free(known: Bench, op: str) -> None:
    name = f"raster.{op if op.startswith('summarize') else f'product.{op}'}"
    twice = known.execute([*BASE, ("out", name, [*NDVIS, NDVIS[2]], {})], "out")
    assert twice.status.state == "failed" and len(twice.status.reason) > 20, twice.result.value
    first = known.execute([*BASE, ("out", name, NDVIS, {})], "out")
    # the anomaly is that of its first date
    last = [NDVIS[0], *reversed(NDVIS[1:])] if op == "anomaly" else [*reversed(NDVIS)]
    other = known.execute([*BASE, ("out", name, last, {})], "out")
    assert first.status.state == other.status.state == "ok", first.status.reason
    one, two = figures(first, known), figures(other, known)
    if op.startswith("summarize"):  # the layers are those of the first and the last that were named
        one["layers"] = two["layers"] = []
    assert _alike(one, two, None, 1e-12) == ""


CUT = (20, 12, 80, 90)  # column, row, width, height
BY_PIXEL = [c for c in CASES if str(c.id).endswith("-0") and str(c.values[0]).startswith("raster.summarize")
            and c.values[0] not in ("raster.summarize.zonal", "raster.summarize.moran", "raster.summarize.centroid")]  # fmt: skip


@pytest.mark.parametrize(("op", "nodes"), BY_PIXEL)
def test_a_region_of_whole_pixels_is_a_cut(tmp_path: Path, known: Bench, op: str, nodes: Any) -> None:
    left, top, width, height = CUT
    place = PLACE * Affine.translation(left, top)
    cut = bench(tmp_path, [np.ascontiguousarray(s[:, top : top + height, left : left + width]) for s in dates()], place=place)
    ring = [[left, top], [left + width, top], [left + width, top + height], [left, top + height], [left, top]]
    of_cut = cut.execute(nodes, "out")
    of_region = known.execute(nodes, "out", region={"type": "Polygon", "coordinates": [ring]}, region_crs="image")
    assert of_cut.status.state == of_region.status.state == "ok", (of_cut.status.reason, of_region.status.reason)
    one, other = figures(of_cut, cut), figures(of_region, known)
    one["layers"] = other["layers"] = []
    assert _alike(one, other, None, 1e-12) == ""


# --- copies of one raster through ingest ------------------------------------------------------------------------------------
@functools.cache
def _pair() -> Stack:
    stack = np.round(landsat()[0][2:4] * 20).astype(np.int16)
    stack[:, 30:60, 40:90] = NODATA
    return stack


def _tiff(path: Path, stack: Stack, place: Affine = PLACE, nodata: float | None = NODATA, **form: Any) -> None:
    with rasterio.open(path, "w", width=stack.shape[2], height=stack.shape[1], count=len(stack), dtype=stack.dtype.name,
                       nodata=nodata, crs="EPSG:32618", transform=place, **({"driver": "GTiff"} | form)) as out:  # fmt: skip
        out.write(stack)


def _masked(path: Path) -> None:
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(
        path, "w", driver="GTiff", width=N, height=N, count=2, dtype="int16", crs="EPSG:32618", transform=PLACE
    ) as out:  # fmt: skip
        out.write(np.where(_pair() == NODATA, 7, _pair()).astype(np.int16))
        out.write_mask(_pair()[0] != NODATA)


def _netcdf(path: Path, *, is_south_up: bool) -> None:
    with Dataset(path, "w") as out:
        for name, place in (("y", 4491105 - 30 * (np.arange(N) + 0.5)), ("x", 390045 + 30 * (np.arange(N) + 0.5))):
            out.createDimension(name, N)
            axis = out.createVariable(name, "f8", (name,))
            axis[:] = place[::-1] if name == "y" and is_south_up else place
            axis.standard_name, axis.units = f"projection_{name}_coordinate", "m"
        mapping = out.createVariable("crs", "i4")
        mapping.crs_wkt = CRS(32618).to_wkt()
        mapping.grid_mapping_name = "transverse_mercator"
        held = out.createVariable("nir", "i2", ("y", "x"), fill_value=NODATA, zlib=True)
        held.grid_mapping = "crs"
        held.set_auto_maskandscale(False)
        held[:] = _pair()[1][::-1] if is_south_up else _pair()[1]


def _zero() -> Stack:
    return np.where(_pair() == NODATA, 0, _pair()).astype(np.uint16)


BOTH, ALONE = {"roles": {"red": 1, "nir": 2}}, {"roles": {"nir": 1}}
COPIES: dict[str, tuple[str, Callable[[Path], None], dict[str, Any]]] = {
    "strips, lzw": (".tif", lambda p: _tiff(p, _pair(), compress="lzw", predictor=2, tiled=False, blockysize=13), BOTH),
    "big-endian": (".tif", lambda p: _tiff(p, _pair(), ENDIANNESS="BIG", compress="deflate"), BOTH),
    "BigTIFF": (".tif", lambda p: _tiff(p, _pair(), BIGTIFF="YES", compress="zstd", interleave="pixel"), BOTH),
    "packbits": (".tif", lambda p: _tiff(p, _pair(), compress="packbits"), BOTH),
    "lerc": (".tif", lambda p: _tiff(p, _pair(), compress="lerc"), BOTH),
    "south-up": (".tif", lambda p: _tiff(p, np.ascontiguousarray(_pair()[:, ::-1]), PLACE * Affine(1, 0, 0, 0, -1, N)), BOTH),
    "mirrored": (".tif", lambda p: _tiff(p, np.ascontiguousarray(_pair()[:, :, ::-1]), PLACE * Affine(-1, 0, N, 0, 1, 0)), BOTH),
    "turned": (".tif", lambda p: _tiff(p, np.stack([np.rot90(x) for x in _pair()]), PLACE * Affine(0, -1, N, 1, 0, 0)), BOTH),
    "NaN": (".tif", lambda p: _tiff(p, np.where(_pair() == NODATA, np.nan, _pair()).astype(np.float32), nodata=None), BOTH),
    "nodata told by a person": (".tif", lambda p: _tiff(p, _pair(), nodata=None), BOTH | {"nodata": NODATA}),
    "32 bits": (".tif", lambda p: _tiff(p, _pair().astype(np.int32)), BOTH),
    "a mask within": (".tif", _masked, BOTH),
    "JPEG 2000": (".jp2", lambda p: _tiff(p, _zero(), nodata=None, driver="JP2OpenJPEG", QUALITY="100", REVERSIBLE="YES"),
                  BOTH | {"nodata": 0}),
    "netCDF": (".nc", lambda p: _netcdf(p, is_south_up=False), ALONE),
    "netCDF, south-up": (".nc", lambda p: _netcdf(p, is_south_up=True), ALONE),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_one_raster_give_one_figure(tmp_path: Path, name: str) -> None:
    """A mean, that of a region and an area, against numpy on the array and GDAL's rasterizing of the region."""
    suffix, write, hints = COPIES[name]
    path, cog = tmp_path / f"copy{suffix}", tmp_path / "cog.tif"
    write(path)
    told = SceneHints(**hints)
    info = inspect_file(path, path.name, told, scene_id="s", artifact="sha256:" + "0" * 64).info
    convert(path, cog, path.name, told)
    box = LocalToolBox(open_scene=lambda i: open_scene(i, cog), layers=MemoryLayers())
    nodes: list[dict[str, Any]] = [
        {"id": "s", "op": "asset.scene", "params": {"scene": "s"}},
        {"id": "b", "op": "raster.product.band", "inputs": ["s"], "params": {"role": "nir"}},
    ]

    def ask(*last: dict[str, Any], **more: Any) -> Any:
        o = box.call(tool="execute", arguments={"nodes": [*nodes, *last], "output": "out", **more}, step=1,
                     question=Question(text="?", scenes=(info,)), plan=Plan(task=TASK))  # fmt: skip
        assert o.status.state == "ok", o.status.reason
        return o.result.value

    mean = {"id": "out", "op": "raster.summarize.statistic", "inputs": ["b"], "params": {"statistic": "mean"}}
    ring = [[390507.3, 4490811.9], [393003.1, 4490300.7], [393100.9, 4487904.4], [390411.2, 4487833.3], [390507.3, 4490811.9]]
    region = {"type": "Polygon", "coordinates": [ring]}
    nir = _pair()[1]
    seen = nir != NODATA
    inside = rasterio.features.geometry_mask([region], (N, N), PLACE, invert=True)
    assert ask(mean) == pytest.approx(nir[seen].mean(), rel=1e-12)
    assert ask(mean, region=region, region_crs="EPSG:32618") == pytest.approx(nir[seen & inside].mean(), rel=1e-12)
    area = ask({"id": "m", "op": "raster.product.threshold", "inputs": ["b"], "params": {"value": 1500}},
               {"id": "out", "op": "raster.summarize.area", "inputs": ["m"]})  # fmt: skip
    assert area == pytest.approx(900 * int((nir[seen] > 1500).sum()), rel=1e-9)
