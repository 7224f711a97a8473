"""Masks grown from marks over the shipped imagery: one that comes out alike, ones that do not, and marks that nobody set."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from apps.core.evidence.prompt import Prompt
from tests.unit.tools.rasters import Bench, scene
from tests.unit.verification.samples import Sample, ask
from tests.unit.verification.samples_new import island

# On the Sentinel-2 scene of Fishbourne: columns and rows.
MARKS = (
    Prompt(kind="stroke", places=((150.0, 110.0), (190.0, 130.0)), crs="image"),
    Prompt(kind="point", places=((120.0, 40.0),), inside=False, crs="image"),
)


@lru_cache
def from_marks() -> Sample:
    """A field of the island from a stroke through it and a point in the sea; the field's colours run on beyond it."""
    method = {"scribbles": [{"line": [[150.0, 110.0], [190.0, 130.0]], "inside": True}], "points": [[120.0, 40.0, 0]]}
    return grown(method, marks=MARKS)


def grown(method: dict[str, Any], marks: tuple[Prompt, ...] = ()) -> Sample:
    bench: Bench = island()
    bench.question = bench.question.model_copy(update={"prompts": marks})
    call = {"image_paths": ["s"], "objective": "thing", "mode": "regions", "target_groups": {"thing": []},
            "regions_method": {"kind": "prompt", **method}}  # fmt: skip
    return ask(bench, "How large is what I marked?", "layer", "perceive", call)


@lru_cache
def drawn_disc() -> Sample:
    """A disc of 40 pixels' radius that stands 16 deviations of the noise above its ground: no doubt where it ends. Of the shipped
    pictures no mask comes out so alike."""
    rows, cols = np.mgrid[:140, :160] + 0.5
    inside = (rows - 70) ** 2 + (cols - 80) ** 2 <= 40**2
    picture = np.where(inside, 180.0, 80.0) + np.random.default_rng(3).normal(0, 6, inside.shape)
    call = {"image_paths": ["s"], "objective": "thing", "mode": "regions", "target_groups": {"thing": []},
            "regions_method": {"kind": "prompt", "points": [[80.0, 70.0, 1], [80.0, 10.0, 0]]}}  # fmt: skip
    return ask(Bench(scene(picture[None], ["gray"])), "How large is what I marked?", "layer", "perceive", call)


EXAMPLES: dict[str, tuple[Any, Any, str]] = {
    "geometry.mask_grows_alike": (drawn_disc, from_marks, "inconclusive"),
    "geometry.prompts_as_marked": (
        from_marks,
        # a column and a row exchanged
        lambda: from_marks().but({"/arguments/regions_method/points": [[40.0, 120.0, 0]]}),
        "failed",
    ),
}
