"""Observations for the checks of layers and of what products give (``apps/verification/checks/layers.py``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.unit.verification import samples as s
from tests.unit.verification.samples import Sample
from tests.unit.verification.samples_new import burnt

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


EXAMPLES: dict[str, tuple[Make, Make, str]] = {
    "consistency.layer_follows_from_source": (burnt, lambda: with_layer(burnt(), "classes", aside), "failed"),
    "consistency.layer_agrees_with_figures": (s.area, lambda: with_layer(s.area(), "mask", turned), "failed"),
}
