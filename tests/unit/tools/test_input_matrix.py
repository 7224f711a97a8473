"""Every kind of wrong input, twice: handed to the tool box as a scene, and as a file through ingest. Each gives the right value
or a clear refusal; a plain value where a refusal is due, or the reverse, fails."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray
from rasterio.transform import Affine

from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from apps.imagery.hints import SceneHints
from apps.imagery.ingest_convert import convert
from apps.imagery.inspect import inspect_file
from apps.imagery.readers import open_scene
from tests.unit.tools.rasters import Bench, scene

RNG = np.random.default_rng(44)
UTM = ("EPSG:32630", (10.0, 0.0, 600000.0, 0.0, -10.0, 5600000.0))
S = ("s1", "asset.scene", (), {"scene": "s"})
NDVI = ("i", "raster.product.index", ["s1"], {"index": "ndvi"})
MEAN: tuple[Any, ...] = ("out", "raster.summarize.statistic", ["i"], {})
AREA: tuple[Any, ...] = (("m", "raster.product.threshold", ["i"], {"op": ">=", "value": -1}),
                         ("out", "raster.summarize.area", ["m"], {}))
RED, NIR = (RNG.integers(20, 200, (30, 40)).astype(np.float64) for _ in range(2))
NDVI_MEAN = float(((NIR - RED) / (NIR + RED)).mean())
STACK = np.stack([RED, NIR])


@dataclass(frozen=True)
class Wrong:
    """A wrong input: its stored planes, place and names, the graph that is asked, and what must come of it."""

    planes: NDArray[Any]
    nodes: tuple[tuple[Any, ...], ...] = (S, NDVI, MEAN)
    roles: tuple[str, ...] = ("red", "nir")
    place: tuple[str | None, tuple[float, ...] | None] = UTM
    nodata: float | None = None
    region: Any = None
    value: float | None = None
    tolerance: float = 1e-6
    part: str = ""


def box(west: float, south: float, east: float, north: float) -> dict[str, Any]:
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}


def masked_nan() -> NDArray[Any]:
    planes = STACK.astype(np.float32)
    planes[0, :10] = np.nan
    return planes


_TURN = np.radians(30)
_ROTATED = (10 * np.cos(_TURN), 10 * np.sin(_TURN), 6e5, 10 * np.sin(_TURN), -10 * np.cos(_TURN), 5.6e6)
_NDVI_REST = float(((NIR - RED) / (NIR + RED))[10:].mean())
# 30 × 40 pixels of 0.001° from 60° north: rings of the WGS 84 ellipsoid, by the closed form of the ellipsoid
_DEGREES = ("EPSG:4326", (0.001, 0.0, 10.0, 0.0, -0.001, 60.0))


def ring_area_m2(south: float, north: float, degrees: float) -> float:
    """Area of a spheroidal quadrangle (closed form of the WGS 84 ellipsoid)."""
    b, e = 6356752.314245179, 0.0818191908426215

    def q(lat: float) -> float:
        s = np.sin(np.radians(lat))
        return float(s / (1 - e * e * s * s) + np.arctanh(e * s) / e)

    return float(b * b / 2 * np.radians(degrees) * (q(north) - q(south)))


CASES: dict[str, Wrong] = {
    "right": Wrong(STACK.astype(np.uint8), value=NDVI_MEAN),
    "missing band": Wrong(STACK[:1].astype(np.uint8), roles=("red",), part="no band"),
    "unknown roles": Wrong(STACK.astype(np.uint8), roles=("", ""), part="no band"),
    "swapped order": Wrong(STACK[::-1].astype(np.uint8), roles=("nir", "red"), value=NDVI_MEAN),
    "degrees": Wrong(STACK.astype(np.uint8), (S, NDVI, *AREA), place=_DEGREES, value=ring_area_m2(59.97, 60.0, 0.04)),
    "no CRS": Wrong(STACK.astype(np.uint8), (S, NDVI, *AREA), place=(None, None), part="neither CRS nor GSD"),
    "rotated grid": Wrong(STACK.astype(np.uint8), (S, NDVI, *AREA), place=("EPSG:32630", _ROTATED), value=120_000.0),
    "NaN": Wrong(masked_nan(), value=_NDVI_REST),
    "infinity": Wrong(np.where(np.isnan(masked_nan()), np.inf, masked_nan()).astype(np.float32), value=_NDVI_REST),
    "all masked": Wrong(np.zeros((2, 30, 40), np.uint8), nodata=0.0, part="no valid pixel"),
    "all NaN": Wrong(np.full((2, 30, 40), np.nan, np.float32), part="no valid pixel"),
    "one pixel": Wrong(np.array([[[50]], [[150]]], np.uint8), value=0.5),
    "zero sum": Wrong(np.zeros((2, 5, 5), np.int16), part="no valid pixel"),
    "empty geometry": Wrong(STACK.astype(np.uint8), region={"type": "Polygon", "coordinates": []}, part="empty"),
    "west above east": Wrong(STACK.astype(np.uint8), region=box(170, 50, -170, 51), part="antimeridian"),
    "latitude first": Wrong(STACK.astype(np.uint8), region=box(50.5, -131.6, 50.6, -131.5), part="latitude"),
    "region beside": Wrong(STACK.astype(np.uint8), region=box(10, 10, 11, 11), part="touch"),
    "line as region": Wrong(STACK.astype(np.uint8), part="Polygon", region={
        "type": "LineString", "coordinates": [[0, 0], [1, 1]]}),
    "unsigned below 0": Wrong(np.stack([NIR, NIR / 2]).astype(np.uint8), value=float(
        ((np.floor(NIR / 2) - NIR) / (np.floor(NIR / 2) + NIR)).mean())),
    "signed bytes": Wrong((STACK / 2).astype(np.int8), value=float(
        ((np.floor(NIR / 2) - np.floor(RED / 2)) / (np.floor(NIR / 2) + np.floor(RED / 2))).mean())),
}  # fmt: skip


def expect(observation: Any, wrong: Wrong) -> None:
    if wrong.value is not None:
        assert observation.status.state == "ok", observation.status.reason
        assert observation.result.value == pytest.approx(wrong.value, rel=wrong.tolerance)
    else:
        assert observation.status.state == "failed" and observation.result.value is None
        assert wrong.part.lower() in observation.status.reason.lower(), observation.status.reason


@pytest.mark.parametrize("name", CASES)
def test_through_the_tool_box(name: str) -> None:
    wrong = CASES[name]
    info, stored = scene(wrong.planes, [r or "unknown" for r in wrong.roles], nodata=wrong.nodata)
    crs, transform = wrong.place
    h, w = wrong.planes.shape[1:]
    grid: Any = {"crs": crs, "width": w, "height": h} | ({"transform": transform} if transform else {})
    b = Bench((info.model_copy(update={"grid": Grid(**grid)}), stored))
    expect(b.execute(list(wrong.nodes), region=wrong.region), wrong)


def ingested(path: Path, hints: SceneHints | None = None) -> tuple[Bench, SceneInfo]:
    """A bench over what ingest makes of a file: its COG, read by the house's reader."""
    found = inspect_file(path, path.name, hints, scene_id="s", artifact="sha256:file").info
    cog = path.with_name(f"{path.stem}_cog.tif")
    convert(path, cog, path.name, hints or SceneHints())
    b = Bench((found, np.zeros((1, 1, 1))))
    b.box._open_scene = lambda info: open_scene(info, cog)
    return b, found


@pytest.mark.parametrize("name", CASES)
def test_through_ingest(name: str, tmp_path: Path) -> None:
    wrong = CASES[name]
    path = tmp_path / "file.tif"
    crs, transform = wrong.place
    options: dict[str, Any] = ({"crs": crs} if crs else {}) | ({"transform": Affine(*transform)} if transform else {})
    with rasterio.open(path, "w", driver="GTiff", count=len(wrong.planes), height=wrong.planes.shape[1],
                       width=wrong.planes.shape[2], dtype=wrong.planes.dtype.name, nodata=wrong.nodata, **options) as out:
        out.write(wrong.planes)
        for i, role in enumerate(wrong.roles, 1):
            if role:
                out.set_band_description(i, role)
    b, _ = ingested(path)
    expect(b.execute(list(wrong.nodes), region=wrong.region), wrong)


# --- kinds that only files have --------------------------------------------------------------------------------------------
def test_a_palette_has_classes_and_no_mean(tmp_path: Path) -> None:
    path = tmp_path / "p.tif"
    with rasterio.open(path, "w", driver="GTiff", count=1, height=20, width=20, dtype="uint8", crs=UTM[0],
                       transform=Affine(*UTM[1])) as out:
        out.write(np.repeat(np.arange(20, dtype=np.uint8) // 10, 20).reshape(1, 20, 20))
        out.write_colormap(1, {0: (0, 0, 0, 255), 1: (200, 10, 10, 255)})
    b, info = ingested(path)
    assert info.bands[0].role == "class"
    nodes = [S, ("i", "raster.product.band", ["s1"], {"role": "class"})]
    assert "no mean" in b.execute([*nodes, MEAN]).status.reason
    o = b.execute([*nodes, ("out", "raster.summarize.class_areas", ["i"], {})])
    assert [i["n_px"] for i in o.result.items] == [200, 200]


def test_an_alpha_band_hides_pixels_and_is_no_colour(tmp_path: Path) -> None:
    planes = np.stack([RED, NIR, RED, np.full((30, 40), 255.0)]).astype(np.uint8)
    planes[3, :10] = 0
    path = tmp_path / "a.tif"
    with rasterio.open(path, "w", driver="GTiff", count=4, height=30, width=40, dtype="uint8", photometric="RGB", alpha="YES",
                       crs=UTM[0], transform=Affine(*UTM[1])) as out:
        out.write(planes)
    b, info = ingested(path)
    assert info.bands[-1].role == "alpha" or len(info.bands) == 3
    o = b.execute([S, ("i", "raster.product.band", ["s1"], {"role": "green"}), MEAN])
    assert o.result.value == pytest.approx(float(planes[1, 10:].mean())) and o.evidence.intermediate["valid_px"] == 1200 - 400


def test_one_bit_is_0_and_1(tmp_path: Path) -> None:
    path = tmp_path / "b.tif"
    bits = (RNG.random((1, 30, 40)) > 0.4).astype(np.uint8)
    with rasterio.open(path, "w", driver="GTiff", count=1, height=30, width=40, dtype="uint8", nbits=1, crs=UTM[0],
                       transform=Affine(*UTM[1])) as out:
        out.write(bits)
        out.set_band_description(1, "class")
    b, _ = ingested(path)
    o = b.execute([S, ("c", "raster.product.band", ["s1"], {"role": "class"}),
                   ("m", "raster.product.class_values", ["c"], {"values": [1]}),
                   ("out", "raster.summarize.area", ["m"], {"unit": "m2"})])
    assert o.result.value == float(bits.sum()) * 100


def test_complex_samples_become_amplitude_at_the_door_and_are_refused_by_a_tool_that_gets_them_bare(tmp_path: Path) -> None:
    path = tmp_path / "c.tif"
    with rasterio.open(path, "w", driver="GTiff", count=1, height=8, width=8, dtype="complex64", crs=UTM[0],
                       transform=Affine(*UTM[1])) as out:
        out.write(np.full((1, 8, 8), 3 + 4j, np.complex64))
        out.set_band_description(1, "vv")
    b, _ = ingested(path)
    assert b.execute([S, ("i", "raster.product.band", ["s1"], {"role": "vv"}), MEAN]).result.value == 5.0
    o = Bench(scene(np.full((1, 8, 8), 3 + 4j, np.complex64), ["vv"])).execute(
        [S, ("i", "raster.product.band", ["s1"], {"role": "vv"}), MEAN])
    assert o.status.state == "failed" and "complex" in o.status.reason


@pytest.mark.parametrize(("crs", "transform"), [
    ("EPSG:32631", (10.0, 0.0, 300000.0, 0.0, -10.0, 5600000.0)), ("EPSG:32630", (20.0, 0.0, 600000.0, 0.0, -20.0, 5600000.0))])
def test_mixed_crs_and_resolution_are_not_subtracted_unasked(crs: str, transform: tuple[float, ...]) -> None:
    one, other = (scene(STACK.astype(np.uint8), ["red", "nir"], scene_id=i) for i in "ab")
    moved = (other[0].model_copy(update={"grid": Grid(crs=crs, transform=transform, width=40, height=30)}), other[1])  # type: ignore[arg-type]
    nodes = [n for i in "ab" for n in ((f"s{i}", "asset.scene", (), {"scene": i}),
                                       (f"n{i}", "raster.product.index", [f"s{i}"], {"index": "ndvi"}))]
    o = Bench(one, moved).execute([*nodes, ("d", "raster.product.difference", ["na", "nb"], {})])
    assert o.status.state == "failed" and "different grids" in o.status.reason
