"""A share or mean that is asked of the pixels counts each alike; any other is left to the areas."""

from __future__ import annotations

from typing import Any

import pytest

from apps.agent.planner.offline import OfflinePlanner
from apps.core.evidence.plan import Question
from tests.unit.verification.samples import optical


def weights(text: str, *, degrees: bool) -> str:
    info, _ = optical()
    if degrees:
        grid = info.grid.model_copy(update={"crs": "EPSG:4326", "transform": (0.1, 0, 0, 0, -0.1, 60)})
        info = info.model_copy(update={"grid": grid})
    plan = OfflinePlanner().plan(Question(text=text, scenes=(info,)))
    nodes: Any = plan.steps[0].arguments["nodes"]
    return str(nodes[-1]["params"].get("weights", "auto"))


@pytest.mark.parametrize(("text", "said"), [
    ("What share of the pixels has NDVI above 0.3?", "pixels"), ("What fraction of pixels have NDVI above 0.3?", "pixels"),
    ("What is the mean NDVI of the pixels?", "pixels"), ("What share of the scene has NDVI above 0.3?", "auto"),
    ("What is the mean NDVI?", "auto")])  # fmt: skip
def test_who_asks_of_the_pixels_gets_each_alike(text: str, said: str) -> None:
    assert weights(text, degrees=True) == said
    assert weights(text, degrees=False) == "auto"
