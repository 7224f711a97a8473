"""Pictures that the tools write: their pixels, their place on the ground, and the evidence of what was drawn."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from PIL import Image
from pyproj import Geod

from apps.core.geo.grid import Grid
from apps.imagery.layers import ArtifactLayerStore
from apps.imagery.tiles import layer_image_rgba, layer_rgba, layer_style, legend
from apps.tools.execute import operators_images
from apps.tools.execute.drawing import COLOURS, colour_table, metres_a_pixel, plain_text, round_length, ticks
from tests.unit.tools.rasters import Bench, from_file, node_of, scene

S = ("s1", "asset.scene", (), {"scene": "s"})
NDVI = ("i", "raster.product.index", ["s1"], {"index": "ndvi"})


class Folder:
    """Blobs as files."""

    def __init__(self, root: Path):
        self.root = root

    def put(self, data: bytes | Path, *, media_type: str = "") -> str:
        content = data if isinstance(data, bytes) else data.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        (self.root / digest).write_bytes(content)
        return f"sha256:{digest}"

    def path(self, digest: str) -> Path:
        return self.root / digest.removeprefix("sha256:")


def bench(tmp_path: Path, *scenes: Any) -> tuple[Bench, Folder]:
    b, folder = Bench(*scenes), Folder(tmp_path)
    b.layers = b.box._layers = ArtifactLayerStore(folder)  # type: ignore[assignment]
    return b, folder


def colour_picture(height: int = 300, width: int = 400, **more: Any) -> Any:
    rng = np.random.default_rng(3)
    return scene(rng.integers(60, 120, (3, height, width)).astype(np.uint8), ["red", "green", "blue"], **more)


def square(west: int, north: int, east: int, south: int) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[[west, north], [east, north], [east, south], [west, south], [west, north]]]}


def test_an_annotated_copy_lies_where_its_source_lies(tmp_path: Path) -> None:
    info, stored = colour_picture()
    b, folder = bench(tmp_path, (info, stored))
    o = b.execute([S, ("a", "image.annotate", ["s1"], {
        "marks": [{"geometry": square(100, 80, 180, 140), "text": "hall 1"}], "title": "Yard", "form": "both"})])
    assert o.status.state == "ok", o.status.reason
    tiff, png = o.result.layers
    assert (tiff.kind, png.kind, png.media_type) == ("image", "image", "image/png")
    with rasterio.open(folder.path(tiff.artifact)) as src:
        rgba = src.read()
        assert src.crs.to_string() == "EPSG:32630" and tuple(src.transform)[:6] == info.grid.transform
        assert [c.name for c in src.colorinterp] == ["red", "green", "blue", "alpha"]
    again = np.asarray(Image.open(io.BytesIO(folder.path(png.artifact).read_bytes())))
    assert np.array_equal(np.moveaxis(rgba, 0, 2), again)
    # the outline lies on the corners' pixels, the picture is untouched where nothing was drawn
    first = np.array(COLOURS[0])
    assert np.array_equal(rgba[:3, 140, 150], first) or np.array_equal(rgba[:3, 139, 150], first)
    assert np.array_equal(rgba[:3, 100, 100], first) or np.array_equal(rgba[:3, 100, 99], first)
    evidence = node_of(o, "a")
    (x0, y0, x1, y1), (bx0, by0, bx1, by1) = evidence["legend_px"], evidence["scale_bar"]["covers_px"]
    free = np.ones(stored.shape[1:], dtype=bool)
    free[y0:y1, x0:x1] = free[by0:by1, bx0:bx1] = free[55:145, 95:185] = False
    assert free.mean() > 0.7 and np.array_equal(rgba[:3][:, free], stored[:, free])
    assert evidence["drawn"] == [{"name": "marks", "what": "marks", "n": 1, "n_outside": 0, "colour": [0, 229, 255],
                                  "source": "the call"}]
    assert evidence["n_labels"] == 1 and evidence["stretch"][0] == {"band": 1, "black": 0.0, "white": 255.0}


def test_the_scale_bar_is_as_long_as_it_says(tmp_path: Path) -> None:
    degrees = colour_picture(crs="EPSG:4326", pixel=0.001, origin=(10.0, 60.0))
    b, folder = bench(tmp_path, degrees)
    o = b.execute([S, ("a", "image.annotate", ["s1"], {"form": "geotiff"})])
    bar = node_of(o, "a")["scale_bar"]
    south = 60 - 0.001 * 299.5
    metres = Geod(ellps="WGS84").inv(10.0, south, 10.4, south)[2] / 400
    assert bar["metres_a_pixel"] == pytest.approx(metres, rel=1e-5) and bar["metres"] == 5000
    with rasterio.open(folder.path(o.result.layers[0].artifact)) as src:
        rgba = src.read()
    # the white bar itself, measured in its middle row
    white = (rgba[:3] == 255).all(axis=0)
    longest = max(int(np.count_nonzero(row)) for row in white[bar["covers_px"][1]:])
    assert longest == pytest.approx(bar["metres"] / metres, abs=1)


@pytest.mark.shared_data
def test_what_perceive_found_is_drawn_on_a_real_scene(shared_data: Path, tmp_path: Path) -> None:
    info, stored = from_file(shared_data / "multispectral/geopandas_s2a_l2a_fishbourne.tif",
                             {"red": 1, "green": 2, "blue": 3, "nir": 4}, nodata=0)
    b, folder = bench(tmp_path, (info, stored))
    found = b.call("perceive", {"image_paths": ["s"], "objective": "water", "mode": "regions", "target_groups": {"water": []},
                                "regions_method": {"index": "ndwi", "threshold": 0}})
    assert found.status.state == "ok", found.status.reason
    mask, valid = b.layers.read_mask(found.result.layers[0])
    nodes = [{"id": "s1", "op": "asset.scene", "params": {"scene": "s"}},
             {"id": "a", "op": "image.annotate", "inputs": ["s1"], "params": {
                 "layers": [{"observation": found.id}], "legend": False, "scale_bar": False, "form": "geotiff"}}]
    o = b.call("execute", {"nodes": nodes, "output": "a"}, parents=[found])
    assert o.status.state == "ok", o.status.reason
    assert node_of(o, "a")["drawn"][0]["n_px"] == int((mask & valid).sum()) and o.parents == (found.id,)
    with rasterio.open(folder.path(o.result.layers[0].artifact)) as src, \
            rasterio.open(shared_data / "multispectral/geopandas_s2a_l2a_fishbourne.tif") as original:
        assert src.transform == original.transform and src.crs == original.crs
        rgba = src.read()
    cyan = (rgba[0] == 0) & (rgba[1] == 229) & (rgba[2] == 255)
    assert cyan.any() and not (cyan & ~mask).any()  # the edge of the mask, and nothing outside of it


def test_boxes_of_an_observation_with_their_scores(tmp_path: Path) -> None:
    b, _ = bench(tmp_path, colour_picture())
    features = [{"type": "Feature", "geometry": square(10, 10, 30, 25), "properties": {"class": "car", "score": 0.91}},
                {"type": "Feature", "geometry": square(500, 10, 530, 25), "properties": {"class": "car", "score": 0.5}}]
    ref = b.layers.put_features(features, kind="boxes", crs="image", label="car", scene_id="s")
    held = b.execute([S, ("x", "raster.product.band", ["s1"], {"role": "red"})])
    parent = held.model_copy(update={"result": held.result.model_copy(update={"layers": (ref,)})})
    nodes = [{"id": "s1", "op": "asset.scene", "params": {"scene": "s"}},
             {"id": "a", "op": "image.annotate", "inputs": ["s1"], "params": {"layers": [{"observation": parent.id}]}}]
    o = b.call("execute", {"nodes": nodes, "output": "a"}, parents=[parent])
    (drawn,) = node_of(o, "a")["drawn"]
    assert (drawn["n"], drawn["n_outside"], drawn["source"]) == (1, 1, parent.id)
    missing = b.call("execute", {"nodes": nodes, "output": "a"})
    assert missing.status.state == "failed" and "not handed over" in missing.status.reason


def test_masks_zones_rasters_and_a_crop_by_the_region(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    stored = rng.integers(100, 3000, (4, 200, 260)).astype(np.uint16)
    stored[:, :20] = 0
    b, folder = bench(tmp_path, scene(stored, ["red", "green", "blue", "nir"], nodata=0))
    zones = ("z", "vector.zones", (), {"geojson": square(30, 40, 90, 100), "crs": "image"})
    nodes = [S, NDVI, ("m", "raster.product.threshold", ["i"], {"value": 0.5}), zones]
    o = b.execute([*nodes, ("a", "image.annotate", ["s1", "i", "m", "z"], {"crop": True, "form": "geotiff"})],
                  region=square(20, 10, 220, 190), region_crs="image")
    assert o.status.state == "ok", o.status.reason
    with rasterio.open(folder.path(o.result.layers[0].artifact)) as src:
        assert src.shape == (180, 200) and src.transform.c == 600000 + 200 and src.transform.f == 5600000 - 100
        assert (src.read(4)[:10] == 0).mean() > 0.5  # nodata is see-through (the legend is not)
    names = [d["what"] for d in node_of(o, "a")["drawn"]]
    assert names == ["raster", "mask", "zones"]
    moved = scene(stored, ["red", "green", "blue", "nir"], scene_id="t", pixel=20.0)
    b2, _ = bench(tmp_path, scene(stored, ["red", "green", "blue", "nir"]), moved)
    o = b2.execute([S, ("s2", "asset.scene", (), {"scene": "t"}), ("i", "raster.product.index", ["s2"], {"index": "ndvi"}),
                    ("a", "image.annotate", ["s1", "i"], {})])
    assert o.status.state == "failed" and "does not lie on the pixels" in o.status.reason


def test_a_picture_without_place_has_no_scale_bar_and_says_so(tmp_path: Path) -> None:
    b, _ = bench(tmp_path, colour_picture(crs=None))
    o = b.execute([S, ("a", "image.annotate", ["s1"], {})])
    assert node_of(o, "a")["scale_bar"] is None and any("No scale bar" in line.message for line in o.status.log)
    known, _ = bench(tmp_path, colour_picture(crs=None, gsd_m=0.5))
    o = known.execute([S, ("a", "image.annotate", ["s1"], {})])
    assert node_of(o, "a")["scale_bar"]["metres_a_pixel"] == 0.5 and node_of(o, "a")["scale_bar"]["metres"] == 50


def test_a_large_scene_is_drawn_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.tools.execute import operators_images

    monkeypatch.setattr(operators_images, "PICTURE_PX", 30_000)
    info, stored = colour_picture()
    b, folder = bench(tmp_path, (info, stored))
    o = b.execute([S, ("a", "image.annotate", ["s1"], {"form": "geotiff", "marks": [{"geometry": square(0, 0, 400, 300)}]})])
    grid = o.result.layers[0].grid
    assert grid.width * grid.height <= 30_000 and grid.bounds == pytest.approx(info.grid.bounds)
    assert node_of(o, "a")["step"] == 2.0 and any("every 2.00th" in line.message for line in o.status.log)
    with rasterio.open(folder.path(o.result.layers[0].artifact)) as src:
        assert tuple(src.bounds) == pytest.approx(info.grid.bounds)


@pytest.mark.shared_data
def test_colours_of_a_raster_are_the_colour_maps_own(shared_data: Path, tmp_path: Path) -> None:
    info, stored = from_file(shared_data / "terrain_landcover/spDataLarge_srtm.tif", {"elevation": 1}, unit="m")
    b, folder = bench(tmp_path, (info, stored))
    o = b.execute([S, ("z", "raster.product.band", ["s1"], {"role": "elevation"}),
                   ("c", "image.colours", ["z"], {"colours": "terrain", "low": 1100, "high": 2900, "form": "geotiff"})])
    assert o.status.state == "ok", o.status.reason
    with rasterio.open(folder.path(o.result.layers[0].artifact)) as src:
        rgba = src.read()
        assert src.crs.to_epsg() == 4326 and tuple(src.transform)[:6] == info.grid.transform
    import matplotlib  # the names are matplotlib's

    table = (matplotlib.colormaps["terrain"](np.arange(256)) * 255).round()[:, :3]
    level = np.rint(np.clip((stored[0].astype(float) - 1100) / 1800, 0, 1) * 255).astype(int)
    assert np.abs(np.moveaxis(rgba[:3], 0, 2).astype(float) - table[level]).max() <= 1
    evidence = node_of(o, "c")
    assert evidence["n_below"] == int((stored[0] < 1100).sum()) and evidence["stops"][-1]["value"] == 2900
    assert "colour map" in b.execute([S, ("z", "raster.product.band", ["s1"], {"role": "elevation"}),
                                      ("c", "image.colours", ["z"], {"colours": "../etc"})]).status.reason


@pytest.mark.shared_data
def test_a_chart_of_the_modis_series(shared_data: Path, tmp_path: Path) -> None:
    files = sorted((shared_data / "timeseries/mod13q1_sinop").glob("*.jp2"))
    scenes = [from_file(f, {"ndvi": 1}, scene_id=f"s{k}", unit="1", scale=1e-4, date=f.stem[-10:]) for k, f in enumerate(files)]
    b, folder = bench(tmp_path, *scenes)
    nodes = [n for k in range(len(files)) for n in ((f"a{k}", "asset.scene", (), {"scene": f"s{k}"}),
                                                    (f"b{k}", "raster.product.band", [f"a{k}"], {"role": "ndvi"}))]
    series: tuple[Any, ...] = ("v", "raster.summarize.series", [f"b{k}" for k in range(len(files))], {})
    o = b.execute([*nodes, series, ("c", "image.chart", ["v"], {"title": "NDVI of Sinop"})])
    assert o.status.state == "ok", o.status.reason
    plain = b.execute([*nodes, series])
    assert [i["value"] for i in o.result.items] == [i["value"] for i in plain.result.items]
    evidence = node_of(o, "c")
    assert (evidence["chart"], evidence["n"]) == ("line", 12)
    picture = np.asarray(Image.open(folder.path(o.result.layers[0].artifact)).convert("RGB")).astype(int)
    ink = (np.abs(picture - np.array([0, 96, 160])).sum(axis=2) < 10)
    # the highest point is drawn higher than the lowest
    values = [i["value"] for i in plain.result.items]
    columns = np.flatnonzero(ink.any(axis=0))
    tops = {k: int(np.flatnonzero(ink[:, c])[0]) for k, c in ((0, columns[4]), (len(values) - 1, columns[-5]))}
    assert (tops[0] < tops[len(values) - 1]) == (values[0] > values[-1])


def test_charts_of_histograms_and_what_has_no_chart(tmp_path: Path) -> None:
    b, _ = bench(tmp_path, colour_picture())
    nodes = [S, ("z", "raster.product.band", ["s1"], {"role": "red"})]
    o = b.execute([*nodes, ("h", "raster.summarize.histogram", ["z"], {"bins": 12}), ("c", "image.chart", ["h"], {})])
    assert node_of(o, "c")["chart"] == "bars" and sum(i["n"] for i in o.result.items) == 120_000
    o = b.execute([*nodes, ("h", "raster.summarize.statistic", ["z"], {}), ("c", "image.chart", ["h"], {})])
    assert o.status.state == "failed" and "no two values" in o.status.reason
    o = b.execute([*nodes, ("c", "image.colours", ["z"], {}), ("d", "image.chart", ["c"], {})])
    assert o.status.state == "failed" and "gives a image" in o.status.reason.replace("an image", "a image")


def test_a_picture_is_shown_on_the_map_as_it_is(tmp_path: Path) -> None:
    rgba = np.zeros((64, 64, 4), dtype=np.uint8)
    rgba[8:40, 8:40] = (200, 30, 40, 255)
    store = ArtifactLayerStore(Folder(tmp_path))
    half = 20037508.342789244
    grid = Grid(crs="EPSG:3857", transform=(half / 32, 0, -half, 0, -half / 32, half), width=64, height=64)
    path = Folder(tmp_path).path(store.put_image(rgba, grid, form="geotiff", label="x").artifact)
    tile = layer_rgba(path, 0, 0, 0)
    assert tile is not None and tile[20 * 4, 20 * 4].tolist() == [200, 30, 40, 255] and tile[250, 250, 3] == 0
    flat = layer_image_rgba(Folder(tmp_path).path(store.put_image(rgba, Grid(width=64, height=64), form="geotiff",
                                                                  label="x").artifact), 0, 0, 0)
    assert flat is not None and flat[20, 20].tolist() == [200, 30, 40, 255] and flat[50, 50, 3] == 0
    assert legend(layer_style(path)) == []


def test_small_parts() -> None:
    assert [round_length(v) for v in (1.0, 19.9, 49, 99_000)] == [1, 10, 20, 50_000]
    assert plain_text("a\nb\x00c" + "x" * 100, 10) == "a b cxxxx…"
    assert ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert colour_table("gray")[128].tolist() == [128, 128, 128]
    assert metres_a_pixel(Grid(width=5, height=5), None) is None


@pytest.mark.parametrize("period", [2, 8, 16])
def test_what_lies_beyond_the_colours_is_told_of_all_pixels_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, period: int
) -> None:
    plane = np.full((128, 128), 50, dtype=np.uint8)
    plane[::period] = 200

    def coloured() -> dict[str, Any]:
        o = bench(tmp_path, scene(plane[None], ["gray"]))[0].execute([
            ("s1", "asset.scene", (), {"scene": "s"}), ("z", "raster.product.band", ["s1"], {"role": "gray"}),
            ("c", "image.colours", ["z"], {"low": 0, "high": 100})])
        assert o.status.state == "ok", o.status.reason
        return node_of(o, "c")

    found = coloured()
    assert (found["n_below"], found["n_above"], found["n_valid"]) == (0, int((plane > 100).sum()), plane.size)
    monkeypatch.setattr(operators_images, "PICTURE_PX", 128 * 128 // 4)
    found = coloured()
    assert (found["step"], found["n_below"], found["n_above"], found["n_valid"]) == (2, None, None, plane.size)
