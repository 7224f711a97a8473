"""Questions to the catalogue, with what it must list worked out by hand: places over the date line, spans of time, levels and
sensors as others write them, broken and double items, gaps and revisits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.imagery.stac import stac_folder
from apps.tools.execute.operators_catalog import scene_entry
from tests.unit.tools.rasters import Bench, node_of, scene

PIXELS = np.ones((1, 4, 4), "uint16")


def item(name: str, day: str | None = "2024-06-01T10:00:00Z", box: Any = (10, 45, 11, 46), **properties: Any) -> dict[str, Any]:
    """A STAC item of Sentinel-2."""
    said = {"datetime": day, "platform": "sentinel-2a", "processing:level": "L2A", **properties}
    assets = {"r": {"eo:bands": [{"common_name": "red"}]}}
    return {"type": "Feature", "stac_version": "1.0.0", "id": name, "collection": "s2", "geometry": None, "assets": assets,
            "bbox": list(box) if box is not None else None, "properties": said}  # fmt: skip


def asked(tmp_path: Path, items: list[Any], own: tuple[Any, ...] = (), **params: Any) -> Any:
    for k, held in enumerate(items):
        (tmp_path / f"{k:02}.json").write_text(held if isinstance(held, str) else json.dumps(held))
    folder = stac_folder(tmp_path)
    bench = Bench(*(own or (scene(PIXELS, ["red"]),)), stac_items=folder.items, stac_n_unreadable=folder.n_unreadable,
                  stac_is_whole=folder.is_whole)  # fmt: skip
    return bench.execute([("out", "asset.catalog", (), {"source": "folder", **params})])


def names(o: Any) -> list[str]:
    assert o.status.state == "ok", o.status.reason
    assert o.result.value == len(o.result.items)
    return [str(i["name"]) for i in o.result.items]


LINE = item("line", box=(179.0, 50, -179.0, 51))
SPAN = item("span", None, start_datetime="2024-05-28T00:00:00Z", end_datetime="2024-06-12T23:59:59Z")


@pytest.mark.parametrize(("held", "params", "listed"), [
    # places
    ([item("a")], {"bbox": [10.2, 45.2, 10.3, 45.3]}, ["a"]),
    ([item("a")], {"bbox": [12, 45, 13, 46]}, []),
    ([LINE], {"bbox": [179.5, 50.2, 179.6, 50.3]}, ["line"]),
    ([LINE], {"bbox": [-179.6, 50.2, -179.5, 50.3]}, ["line"]),
    ([LINE], {"bbox": [0, 50, 1, 51]}, []),
    ([item("a", box=(-179.9, 50, -179.5, 51))], {"bbox": [179, 50, -179, 51]}, ["a"]),
    ([item("a", box=(10, 45, 0, 11, 46, 900))], {"bbox": [10.2, 45.2, 10.3, 45.3]}, ["a"]),
    ([item("a", box=None)], {"bbox": [10, 45, 11, 46]}, []),
    ([item("a", box=None) | {"geometry": {"type": "Polygon", "coordinates": [[[10, 45], [11, 45], [11, 46], [10, 45]]]}}],
     {"bbox": [10.2, 45.2, 10.3, 45.3]}, ["a"]),
    ([item("a", box=(11, 46, 10, 45))], {"bbox": [10, 45, 11, 46]}, []),  # north below south: no place
    # time
    ([item("a")], {"start": "2024-06-01", "end": "2024-06-01"}, ["a"]),
    ([item("a", "2024-06-01T23:30:00-02:00")], {"start": "2024-06-02", "end": "2024-06-02"}, ["a"]),  # 2 June in UTC
    ([item("a", "2024-06-01T23:30:00-02:00")], {"end": "2024-06-01"}, []),
    ([SPAN], {"start": "2024-06-05", "end": "2024-06-06"}, ["span"]),
    ([SPAN], {"start": "2024-06-13"}, []),
    ([SPAN], {"end": "2024-05-27"}, []),
    ([item("a", None)], {"start": "2024-01-01"}, []),
    ([item("a", None)], {}, ["a"]),
    ([item("a", "0001-01-01T00:00:00+14:00")], {"start": "2024-01-01"}, []),  # no day in UTC
    # level and sensor
    ([item("a", **{"processing:level": None, "s2:product_type": "S2MSI2A"})], {"level": "L2A"}, ["a"]),
    ([item("a", **{"processing:level": "Level-2A"})], {"level": "L2A"}, ["a"]),
    ([item("a", **{"processing:level": "L1C"})], {"level": "L2A"}, []),
    ([item("a", platform="landsat-9")], {"sensor": "Landsat 9"}, ["a"]),
    ([item("a")], {"sensor": "Sentinel-2B"}, []),
    ([item("a")], {"sensor": "sentinel 2"}, ["a"]),
    # files
    ([{"type": "FeatureCollection", "features": [item("a"), item("b"), 3]}], {}, ["a", "b"]),
    ([item("a"), {"type": "Catalog", "stac_version": "1.0.0"}, []], {}, ["a"]),
    ([item("a"), item("a", "2024-06-03T10:00:00Z")], {}, ["a", "a"]),  # one name, two days
])  # fmt: skip
def test_what_is_listed(tmp_path: Path, held: list[Any], params: dict[str, Any], listed: list[str]) -> None:
    assert names(asked(tmp_path, held, **params)) == listed


def test_broken_files_are_counted_and_told(tmp_path: Path) -> None:
    """Before, they were passed over in silence, and what they hold counted as missing."""
    o = asked(tmp_path, [item("a"), "{", "[" * 100_000])
    assert names(o) == ["a"] and node_of(o, "out")["n_unreadable"] == 2
    assert any("2 files of the STAC folder could not be read" in line.message for line in o.status.log)


def test_a_product_that_several_sources_list_is_listed_once(tmp_path: Path) -> None:
    """Before, an image of the question counted again as an item of the folder."""
    info, pixels = scene(PIXELS, ["red"], date="2024-06-01", sensor="Sentinel-2 MSI")
    own = (info.model_copy(update={"name": "S2A_T32.tif"}), pixels)
    o = asked(tmp_path, [item("S2A_T32"), item("other")], own=(own,), source="all")
    assert [(i["name"], i["source"]) for i in o.result.items] == [("S2A_T32.tif", "question"), ("other", "folder")]
    assert node_of(o, "out")["n_listed_twice"] == 1


def test_an_item_that_tells_no_bands_is_not_said_to_lack_them(tmp_path: Path) -> None:
    o = asked(tmp_path, [item("a") | {"assets": {}}, item("b")], roles=["nir"])
    assert node_of(o, "out")["missing"] == ["a does not tell its bands", "b lacks nir"]


@pytest.mark.parametrize(("sensor", "wanted"), [("Landsat 9", 1), ("Landsat 8", 1), ("Landsat 7", 0)])
def test_a_sensor_that_shares_its_name_may_be_either(tmp_path: Path, sensor: str, wanted: int) -> None:
    """Before, Landsat 9 was in no “Landsat 8/9 OLI-TIRS”."""
    own = scene(PIXELS, ["red"], date="2024-06-01", sensor="Landsat 8/9 OLI-TIRS")
    assert asked(tmp_path, [], own=(own,), source="question", sensor=sensor).result.value == wanted


@pytest.mark.parametrize(("platforms", "days", "revisit", "gaps"), [
    (("sentinel-2a", "sentinel-2b"), ("2024-06-01", "2024-06-06", "2024-06-21"), 5, [("2024-06-06", "2024-06-21", 2)]),
    (("sentinel-2a",), ("2016-06-01", "2016-06-11", "2016-06-21"), 10, []),  # 2A alone
    (("landsat-8", "landsat-9"), ("2024-06-01", "2024-06-09", "2024-06-25"), 8, [("2024-06-09", "2024-06-25", 1)]),
    (("landsat-8",), ("2024-06-01", "2024-06-17"), 16, []),
    (("sentinel-2a", "sentinel-2b"), ("2024-06-01", "2024-06-03", "2024-06-06"), 5, []),  # overlapping orbits
    (("sentinel-2a", "landsat-8"), ("2024-06-01", "2024-08-01"), None, []),
])  # fmt: skip
def test_gaps_by_the_revisit_of_who_flew(
    tmp_path: Path, platforms: tuple[str, ...], days: tuple[str, ...], revisit: float | None, gaps: list[Any]
) -> None:
    held = [item(d, f"{d}T10:00:00Z", platform=platforms[k % len(platforms)]) for k, d in enumerate(days)]
    told = node_of(asked(tmp_path, held), "out")
    assert told["revisit_days"] == revisit
    assert [(g["from"], g["to"], g["n_expected"]) for g in told["gaps"]] == gaps


def test_a_period_without_any_scene_is_one_gap(tmp_path: Path) -> None:
    told = node_of(asked(tmp_path, [item("a")], sensor="Sentinel-2", start="2024-07-01", end="2024-07-31"), "out")
    assert [(g["from"], g["to"], g["n_expected"]) for g in told["gaps"]] == [("2024-07-01", "2024-07-31", 6)]


def test_scenes_of_two_places_are_told_apart(tmp_path: Path) -> None:
    o = asked(tmp_path, [item("a"), item("b", box=(20, 45, 21, 46))])
    assert any("do not overlap" in line.message for line in o.status.log)
    o = asked(tmp_path, [item("c"), item("d", box=(10.5, 45, 11.5, 46))], bbox=[10, 45, 11, 46])
    assert names(o) == ["c", "d"] and not any("do not overlap" in line.message for line in o.status.log)


@pytest.mark.parametrize("bbox", [[0, 60, 1, 50], [0, -95, 1, 0], [float("nan"), 0, 1, 1], [-190, 0, 1, 1]])
def test_a_place_that_is_none_is_refused(tmp_path: Path, bbox: list[float]) -> None:
    assert asked(tmp_path, [item("a")], bbox=bbox).status.state == "failed"


@pytest.mark.parametrize(("west", "east", "box"), [(0, 360, (-180, 180)), (-180, 180, (-180, 180)), (350, 370, (-10, 10)),
                                                   (170, 190, (170, -170))])  # fmt: skip
def test_the_place_of_a_raster_that_counts_to_360(west: float, east: float, box: tuple[float, float]) -> None:
    """Before, a raster from 0° to 360° lay on the meridian of Greenwich alone."""
    info, _ = scene(PIXELS, ["red"], crs="EPSG:4326")
    grid = info.grid.model_copy(update={"transform": ((east - west) / 4, 0, west, 0, -1.0, 10.0)})
    told = scene_entry(info.model_copy(update={"grid": grid}), "question")["bbox"]
    assert (told[0], told[2]) == pytest.approx(box)
