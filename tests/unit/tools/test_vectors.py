"""Vector files measured and used as zones, against what their publishers say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.features import geometry_mask

from apps.imagery.vectors import vector_read
from apps.verification.checks import Case, run_checks
from tests.unit.tools.rasters import Bench, from_file, scene


def bench_with(*files: Path, held: Any = None) -> tuple[Bench, list[str]]:
    """A bench whose store keeps the files, and their digests."""
    b = Bench(held or scene(np.ones((1, 4, 4), np.uint8), ["gray"]))
    digests = []
    for path in files:
        found = vector_read(path, path.name)
        digests.append(b.layers.put_features(found.features, kind="polygons", crs=found.crs, label=found.name).artifact)
    return b, digests


def measured(b: Bench, vectors: dict[str, str], **spec: Any) -> Any:
    sources = [{"name": n, "mode": "extent", "vector": d} for n, d in vectors.items()]
    o = b.call("measure", {"sources": sources, "spec": {"subject": next(iter(vectors)), **spec}})
    assert o.status.state == "ok", o.status.reason
    return o


def outcome(b: Bench, o: Any) -> tuple[str, list[str]]:
    """(what vector_recomputes says, checks that failed)."""
    case = Case(o, b.question, (), (), (), b.layers, None)
    found = {c.check: c.outcome for c in run_checks(case)[0]}
    return found["consistency.vector_recomputes"], [k for k, v in found.items() if v in ("failed", "errored")]


@pytest.mark.shared_data
def test_counties_have_the_area_that_the_census_gives(shared_data: Path) -> None:
    path = shared_data / "vector/colorado-counties.geojson"
    b, (digest,) = bench_with(path)
    o = measured(b, {"counties": digest}, metric="area", unit="km2")
    census = sum(float(f["properties"][k]) for f in vector_read(path, path.name).features for k in ("aland", "awater"))
    assert o.result.value == pytest.approx(census / 1e6, rel=2e-3)  # land and water, of the full boundaries
    assert o.inputs[0].artifact == digest and o.inputs[0].role == "vector"
    assert outcome(b, o) == ("passed", [])
    wrong = o.model_copy(update={"result": o.result.model_copy(update={"value": o.result.value * 1000})})
    assert outcome(b, wrong)[0] == "failed"
    count = measured(b, {"counties": digest}, metric="count")
    assert count.result.value == 64 and outcome(b, count)[0] == "passed"


@pytest.mark.shared_data
def test_zion_has_the_area_that_the_park_service_gives(shared_data: Path) -> None:
    b, (digest,) = bench_with(shared_data / "terrain_landcover/spDataLarge_zion.gpkg")
    o = measured(b, {"park": digest}, metric="area", unit="acre")
    assert o.result.value == pytest.approx(147_243, rel=0.01)  # NPS: gross area, acres
    assert outcome(b, o)[0] == "passed"


@pytest.mark.shared_data
def test_zonal_mean_by_a_vector_file_in_another_crs(shared_data: Path) -> None:
    path = shared_data / "terrain_landcover/spDataLarge_srtm.tif"
    b, (digest,) = bench_with(shared_data / "terrain_landcover/spDataLarge_zion.gpkg",
                              held=from_file(path, {"elevation": 1}, unit="m"))
    o = b.execute([("s1", "asset.scene", (), {"scene": "s"}), ("e", "raster.product.band", ["s1"], {"role": "elevation"}),
                   ("z", "vector.zones", (), {"vector": digest}), ("out", "raster.summarize.zonal", ["e", "z"], {})])
    assert o.status.state == "ok", o.status.reason
    from pyproj import Transformer
    from shapely import transform
    from shapely.geometry import shape

    features, crs = b.layers.read_vector(digest)
    with rasterio.open(path) as src:
        t = Transformer.from_crs(crs, src.crs, always_xy=True)
        zion = transform(shape(features[0]["geometry"]), lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))
        inside = geometry_mask([zion], src.shape, src.transform, invert=True)
        assert o.result.value == pytest.approx(float(src.read(1)[inside].astype(float).mean()), rel=1e-5)


def test_a_file_that_is_not_there_and_two_that_lie_apart() -> None:
    b = Bench(scene(np.ones((1, 4, 4), np.uint8), ["gray"]))
    o = b.call("measure", {"sources": [{"name": "a", "mode": "extent", "vector": "sha256:none"}], "spec": {"metric": "count"}})
    assert o.status.state == "failed" and "not one of this project" in o.status.reason
    point = {"type": "Point", "coordinates": [0.0, 0.0]}
    other = {"type": "Point", "coordinates": [500_000.0, 0.0]}  # UTM 31: the central meridian, 3° east on the equator
    one, two = (b.layers.put_features([{"type": "Feature", "geometry": g, "properties": {}}], kind="points", crs=crs, label="p")
                for g, crs in ((point, "EPSG:4326"), (other, "EPSG:32631")))
    o = measured(b, {"a": one.artifact, "b": two.artifact}, metric="distance", reference="b", unit="km")
    assert o.result.value == pytest.approx(3 * 111.319491, rel=1e-6)  # 3° of the WGS 84 equator


def zonal(b: Bench, vector: str, statistic: str = "mean", **params: Any) -> Any:
    return b.execute([("s1", "asset.scene", (), {"scene": "s"}), ("v", "raster.product.band", ["s1"], {"role": "gray"}),
                      ("z", "vector.zones", (), {"vector": vector, **params}),
                      ("out", "raster.summarize.zonal", ["v", "z"], {"statistic": statistic})])


def test_zones_by_name_as_one_and_where_they_leave_the_raster() -> None:
    stored = np.arange(100, dtype=np.uint8).reshape(1, 10, 10)  # 10 m pixels from 600000, 5600000 down
    b = Bench(scene(stored, ["gray"]))

    def square(x: float, y: float, side: float, name: str) -> dict[str, Any]:
        ring = [[x, y], [x + side, y], [x + side, y - side], [x, y - side], [x, y]]
        return {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}, "properties": {"name": name}}

    def put(*features: dict[str, Any]) -> str:
        return b.layers.put_features(list(features), kind="polygons", crs="EPSG:32630", label=str(len(b.layers.kept))).artifact

    one, other = square(600000, 5600000, 20, "one"), square(600010, 5600000, 20, "other")
    both = put(one, other)
    assert zonal(b, both, only=["other"]).result.value == pytest.approx(np.mean([1, 2, 11, 12]))
    joined = zonal(b, both, dissolve=True)
    assert joined.result.value == pytest.approx(np.mean([0, 1, 2, 10, 11, 12]))  # the column in common counts once
    assert joined.inputs[-1].role == "vector" and joined.inputs[-1].artifact == both
    o = zonal(b, both, only=["nobody"])
    assert o.status.state == "failed" and "no zone is called nobody" in o.status.reason.lower()
    point = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [600005, 5599995]}, "properties": {"name": "p"}}
    mixed = put(one, point)
    assert "not a polygon" in zonal(b, mixed).status.reason
    assert zonal(b, mixed, skip_others=True).result.value == pytest.approx(np.mean([0, 1, 10, 11]))
    half = zonal(b, put(square(600080, 5600000, 40, "edge")))
    assert half.result.items[0]["on_raster"] == pytest.approx(0.5)
    assert any("edge (50 % of it)" in line.message for line in half.status.log if line.level == "warning")
