"""Lengths and areas cut to plots, and tables by plot, over the shipped picture of a street, and ways in which they go wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import shapely
from pyproj import Transformer
from shapely.geometry import shape

from tests.unit.tools.rasters import Bench
from tests.unit.verification.samples import HOUSES, ROAD, Sample, _corners, _outline, ask, street

# Two plots over the street, which share the columns 180 to 220; the road runs through both and leaves them in the west.
PLOTS = {"west": (60, 60, 220, 240), "east": (180, 60, 390, 240)}


def files(bench: Bench) -> tuple[str, dict[str, str]]:
    """(CRS, name → digest) of the houses, the road and the plots as vector files."""
    grid = bench.question.scenes[0].grid
    crs = str(grid.crs)
    line = {"type": "LineString", "coordinates": [list(map(float, grid.xy(c, r))) for c, r in ROAD]}
    held = {
        "houses": [_outline(bench, _corners(*h)) for h in HOUSES],
        "road": [{"type": "Feature", "geometry": line, "properties": {}}],
        "plots": [_outline(bench, _corners(*c), name=name) for name, c in PLOTS.items()],
    }
    return crs, {n: bench.layers.put_features(f, kind="polygons", crs=crs, label=n).artifact for n, f in held.items()}


def plotted(text: str, form: str, subject: str, **spec: Any) -> Sample:
    """A measure of one of the files against the plots."""
    bench = street()
    _, held = files(bench)
    sources: list[dict[str, Any]] = [
        {"name": subject, "mode": "extent", "vector": held[subject]},
        {"name": "plots", "mode": "extent", "vector": held["plots"], "name_field": "name"},
    ]
    call = {"sources": sources, "spec": {"subject": subject, "reference": "plots", "relation": "inside", **spec}}
    return ask(bench, text, form, "measure", call)


@lru_cache
def road_inside() -> Sample:
    """What length of the road lies inside of the plots."""
    return plotted("What length of the road lies inside the plots?", "distance", "road", metric="length", clip=True)


@lru_cache
def covered() -> Sample:
    """What share of the plots is covered by houses."""
    return plotted("What share of the plots is covered by houses?", "share", "houses", metric="ratio", of="area", clip=True,
                   denominator="reference")  # fmt: skip


@lru_cache
def road_by_plot() -> Sample:
    """The length of the road in each plot."""
    return plotted("What is the length of the road in each plot?", "table", "road", metric="length", clip=True, each="plots")


@lru_cache
def houses_by_plot() -> Sample:
    """The number of houses in each plot: none has its middle where the plots overlap."""
    return plotted("How many houses are in each plot?", "table", "houses", metric="count", each="plots")


def whole_m() -> float:
    """The road's whole length, as a tool gives it that does not cut."""
    return float(road_inside().observation.evidence.intermediate["whole_m"])  # type: ignore[arg-type]


def in_mercator(sample: Sample, subject: str) -> float:
    """The figure in the plane of Web Mercator, which stretches lengths by 1 / cos(latitude)."""
    bench = sample.bench
    crs, held = files(bench)
    t = Transformer.from_crs(crs, "EPSG:3857", always_xy=True)

    def flat(name: str) -> Any:
        shapes = [shape(f["geometry"]) for f in bench.layers.read_vector(held[name])[0]]
        return shapely.transform(shapely.union_all(shapes), lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))

    left = shapely.intersection(flat(subject), flat("plots"))
    return float(left.length if subject == "road" else left.area)


def changed(sample: Sample, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Sample:
    """The same table with other rows."""
    return sample.but({"/result/items": change([dict(i) for i in sample.observation.result.items])})


def exchanged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The figures of the first two rows the other way round."""
    one, two, *rest = rows
    return [{**one, "value": two["value"]}, {**two, "value": one["value"]}, *rest]


def of_houses(text: str, form: str, *more: dict[str, Any], **spec: Any) -> Sample:
    """A measure of the houses themselves, or against the road."""
    bench = street()
    _, held = files(bench)
    sources = [{"name": n, "mode": "extent", "vector": held[n]} for n in ("houses", "road")]
    used = sources if "reference" in spec or more else sources[:1]
    call = {"sources": used, "spec": {"subject": "houses", **spec, **({"where": [*more]} if more else {})}}
    return ask(bench, text, form, "measure", call)


@lru_cache
def mean_perimeter() -> Sample:
    """The mean perimeter of the three houses."""
    spec = {"metric": "length", "length_of": "outline", "statistic": "mean"}
    return of_houses("What is the mean perimeter of the houses?", "distance", **spec)


@lru_cache
def large_and_near() -> Sample:
    """How many of the three houses are larger than 10 m² and lie within 12 m of the road: the two that lie so near."""
    near = {"relation": "within", "reference": "road", "distance_m": 12.0}
    large = {"figure": "area", "op": ">", "value": 10.0, "unit": "m2"}
    return of_houses("How many houses are larger than 10 m2 and within 12 m of the road?", "integer", near, large, metric="count")


@lru_cache
def largest_but_one() -> Sample:
    """Which of the houses is the second largest."""
    return of_houses("Which house is the second largest?", "class", metric="area", each="houses", pick="max", rank=2)


def largest(sample: Sample) -> str:
    """The row with the greatest value."""
    return str(max(sample.observation.result.items, key=lambda i: float(str(i["value"])))["zone"])


EXAMPLES: dict[str, tuple[Callable[[], Sample], Callable[[], Sample], str]] = {
    "consistency.cut_recomputes": (road_inside, lambda: road_inside().but({"/result/value": whole_m()}), "failed"),
    "consistency.rows_recompute": (road_by_plot, lambda: changed(road_by_plot(), exchanged), "failed"),
    "consistency.instances_recompute": (
        mean_perimeter,
        lambda: mean_perimeter().but({"/result/value": 3 * float(mean_perimeter().observation.result.value or 0)}),
        "failed",
    ),
    "completeness.every_polygon_listed": (road_by_plot, lambda: changed(road_by_plot(), lambda rows: rows[1:]), "failed"),
}
