"""Perceive over a scene with a quality band: with what it hides left out, and with it counted."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tests.unit.verification import samples as s
from tests.unit.verification.samples import Sample

GREEN = {"kind": "index_threshold", "index": "ndvi", "threshold": 0.25, "side": "above"}


@lru_cache
def veiled(**more: Any) -> Sample:
    """Green land in a window of Landsat 8, a fifth of it under clouds."""
    call = {
        "image_paths": ["s"],
        "objective": "vegetation",
        "mode": "regions",
        "target_groups": {"vegetation": ["vegetation"]},
        "regions_method": GREEN,
        **more,
    }
    return s.ask(s.cloudy(), "How many hectares are green?", "area", "perceive", call)


def cloud_counted() -> Sample:
    """The mask of all pixels, on whose record the clouds are left out."""
    held, bare = veiled(), veiled(quality_mask="none")
    held.bench.layers.kept.update(bare.bench.layers.kept)
    ref = bare.observation.result.layers[0]
    return held.but({"/result/layers/0": ref.model_dump(mode="json"), "/evidence/intermediate/mask_px": ref.n})


EXAMPLES = {"completeness.hidden_not_counted": (veiled, cloud_counted, "failed")}
