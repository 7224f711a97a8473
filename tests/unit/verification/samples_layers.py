"""Observations for the checks of layers and of what products give (``apps/verification/checks/layers.py``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.unit.tools.rasters import Bench
from tests.unit.verification import samples as s
from tests.unit.verification.samples import NDVI, S, Sample, ask, graph
from tests.unit.verification.samples_new import annotated, burnt, landsat, months, told

Make = Callable[[], Sample]


def with_layer(sample: Sample, kind: str, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Sample:
    """The same observation, the first layer of a kind with other pixels; its record stays."""
    at, ref = next((k, r) for k, r in enumerate(sample.observation.result.layers) if r.kind == kind)
    layers = sample.bench.layers
    assert ref.grid is not None
    if kind == "mask":
        mask, valid = layers.read_mask(ref)
        new = layers.put_mask(change(mask.copy()), valid, ref.grid, label=ref.label, scene_id=ref.source_scene_id)
    elif kind == "classes":
        classes, valid, names = layers.kept[ref.artifact]
        new = layers.put_classes(change(classes.copy()), valid, ref.grid, names, label=ref.label, scene_id=ref.source_scene_id)
    else:
        raster = layers.read_raster(ref)
        new = layers.put_raster(
            replace(raster, data=change(raster.data[0].copy())[None]), label=ref.label, scene_id=ref.source_scene_id
        )
    return sample.but({f"/result/layers/{at}": new.model_dump(mode="json")})


def turned(data: NDArray[Any]) -> NDArray[Any]:
    """A square of the mask is the other way round."""
    data[5:25, 5:25] = ~data[5:25, 5:25]
    return data


def raised(data: NDArray[Any]) -> NDArray[Any]:
    return data * np.float32(1.15)


def aside(data: NDArray[Any]) -> NDArray[Any]:
    """All pixels 7 columns further: the figures stay, the places are wrong."""
    return np.roll(data, 7, axis=1)


Nodes = list[tuple[str, str, tuple[str, ...], dict[str, Any]]]
TWO: Nodes = [
    S,
    ("s2", "asset.scene", (), {"scene": "t"}),
    ("a", "raster.product.index", ("s1",), {"index": "ndvi"}),
    ("b", "raster.product.index", ("s2",), {"index": "ndvi"}),
]


def pair(text: str, *nodes: tuple[str, str, tuple[str, ...], dict[str, Any]]) -> Sample:
    """A question over a July and a November of Landsat 7."""
    return ask(Bench(landsat(), landsat("2002-11-25", "t")), text, "number", "execute", graph(*TWO, *nodes))


def over_landsat(text: str, *nodes: tuple[str, str, tuple[str, ...], dict[str, Any]]) -> Sample:
    return ask(Bench(landsat()), text, "number", "execute", graph(S, NDVI, *nodes))


@lru_cache
def transitions() -> Sample:
    breaks = {"breaks": [0.0, 0.2, 0.4]}
    return pair(
        "Which classes of NDVI became which?",
        ("c", "raster.product.classify", ("a",), breaks),
        ("d", "raster.product.classify", ("b",), breaks),
        ("out", "raster.summarize.transitions", ("c", "d"), {}),
    )


@lru_cache
def agreement() -> Sample:
    return pair("How do the two NDVI agree?", ("out", "raster.summarize.agreement", ("a", "b"), {"measure": "slope"}))


@lru_cache
def histogram() -> Sample:
    return over_landsat("Histogram of NDVI", ("out", "raster.summarize.histogram", ("i",), {"bins": 20}))


@lru_cache
def centroid() -> Sample:
    return over_landsat(
        "Where is the vegetation?",
        ("m", "raster.product.threshold", ("i",), {"value": 0.4}),
        ("out", "raster.summarize.centroid", ("m",), {}),
    )


def remembered() -> Sample:
    return months("Autocorrelation of NDVI", "raster.summarize.series_analysis", analysis="autocorrelation")


@lru_cache
def solved() -> Sample:
    return over_landsat(
        "For which x is x squared the mean NDVI?",
        ("v", "raster.summarize.statistic", ("i",), {"statistic": "mean"}),
        ("out", "value.solve", ("v",), {"equation": "x ^ 2 = v", "unknown": "x", "between": [0, 1]}),
    )


@lru_cache
def in_colours() -> Sample:
    """NDVI in colours whose ends nobody asked for."""
    made = Bench(landsat())
    return ask(made, "Show NDVI in colours.", "layer", "execute", graph(S, NDVI, ("c", "image.colours", ("i",), {"form": "png"})))


def item_times(sample: Sample, k: int, name: str, factor: float) -> Sample:
    """One figure of one item is so many times what it was."""
    return sample.but({f"/result/items/{k}/{name}": factor * float(str(sample.observation.result.items[k][name]))})


def value_times(sample: Sample, factor: float) -> Sample:
    return sample.but({"/result/value": factor * float(str(sample.observation.result.value))})


EXAMPLES: dict[str, tuple[Make, Make, str]] = {
    "consistency.layer_follows_from_source": (burnt, lambda: with_layer(burnt(), "classes", aside), "failed"),
    "consistency.layer_agrees_with_figures": (s.area, lambda: with_layer(s.area(), "mask", turned), "failed"),
    "consistency.transitions_recount": (transitions, lambda: item_times(transitions(), 1, "share", 1.2), "failed"),
    "consistency.agreement_recomputes": (agreement, lambda: value_times(agreement(), 0.9), "failed"),
    "consistency.histogram_recounts": (histogram, lambda: item_times(histogram(), 9, "n", 2), "failed"),
    "consistency.centroid_recomputes": (centroid, lambda: item_times(centroid(), 0, "longitude", 1.001), "failed"),
    "consistency.analysis_recomputes": (remembered, lambda: value_times(remembered(), 1.1), "failed"),
    "consistency.solutions_solve": (solved, lambda: item_times(solved(), 0, "solution", 1.05), "failed"),
    "consistency.drawn_as_listed": (annotated, lambda: annotated().but({"/result/items/0/name": "lake"}), "failed"),
    "consistency.parts_make_the_whole": (burnt, lambda: value_times(burnt(), 1.2), "failed"),
    "consistency.colours_end_at_percentiles": (
        in_colours,
        lambda: told(in_colours(), "image.colours", low=-0.2),
        "failed",
    ),
}
