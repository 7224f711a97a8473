"""Densities over the shipped imagery, for the examples of their check."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tests.unit.tools.rasters import Bench
from tests.unit.verification.samples import CROWNS, RGB, STREET, Sample, ask, cut, found


def density_of(first: Sample, name: str, unit: str, question: str, **more: Any) -> Sample:
    """measure density over the boxes that a sample found."""
    call = {
        "sources": [{"name": name, "mode": "objects", "layer": {"observation": first.observation.id, "label": name}}],
        "spec": {"metric": "density", "subject": name, "unit": unit, **more},
    }
    return ask(first.bench, question, "number", "measure", call, [first.observation])


@lru_cache
def forest() -> Sample:
    """Trees per hectare of the forest: 400 × 400 pixels of 10 cm."""
    return density_of(found(), "tree", "1/ha", "How many trees per hectare are there?")


@lru_cache
def cars() -> Sample:
    """Vehicles per km² of the street in Colorado."""
    call = {"image_paths": ["s"], "objective": "vehicles", "mode": "objects", "target_groups": {"vehicle": ["vehicle", "car"]}}
    first = ask(Bench(cut(STREET, RGB)), "How many vehicles are there?", "integer", "perceive", call)
    return density_of(first, "vehicle", "1/km2", "How many vehicles per km2 are there?")


@lru_cache
def half_seen(denominator: str = "") -> Sample:
    """Trees per hectare of the forest, whose lower half is fill."""
    info, stored = cut(CROWNS, RGB)
    stored = stored.copy()
    stored[:, 200:] = 0
    info = info.model_copy(update={"bands": tuple(b.model_copy(update={"nodata": 0.0}) for b in info.bands)})
    call = {"image_paths": ["s"], "objective": "trees", "mode": "objects", "target_groups": {"tree": ["tree"]}}
    first = ask(Bench((info, stored)), "How many trees are there?", "integer", "perceive", call)
    return density_of(first, "tree", "1/ha", "How many trees per hectare are there?", denominator=denominator)


def over(sample: Sample, ground: float = 1.0, things: float = 0.0) -> Sample:
    """The same density as if its ground were so many times as large and its things so many more; the value follows."""
    held = sample.observation.evidence.intermediate
    n, m2, value = (float(str(x)) for x in (held["numerator"], held["denominator"], sample.observation.result.value))
    assert np.isfinite([n, m2, value]).all()
    return sample.but(
        {
            "/evidence/intermediate/numerator": n + things,
            "/evidence/intermediate/denominator": m2 * ground,
            "/result/value": value * (n + things) / n / ground,
            "/result/interval": None,
            "/result/interval_level": None,
        }
    )


EXAMPLES: dict[str, tuple[Any, Any, str]] = {
    # 12.5 cm taken for 10
    "consistency.density_recomputes": (forest, lambda: over(forest(), ground=1.25**2), "failed"),
}
