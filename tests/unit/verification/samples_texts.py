"""Text read from a shipped picture, for the examples of its check.

The picture holds no text: a reader that says the same three lines each time stands in for the weights, which not every
installation has. The mode of the tool is the real one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from tests.unit.verification import samples as s
from tests.unit.verification.samples import Sample

LINES = (("RUNWAY 27", 0.97, (40, 60)), ("Tank farm B", 0.99, (40, 160)), ("smudge", 0.31, (200, 300)))


def _reader(picture: Any) -> SimpleNamespace:
    boxes = [[[x, y], [x + 150, y], [x + 150, y + 36], [x, y + 36]] for _, _, (x, y) in LINES]
    return SimpleNamespace(txts=[t for t, _, _ in LINES], scores=[p for _, p, _ in LINES], boxes=np.array(boxes, float))


@lru_cache
def written() -> Sample:
    """Two lines that are sure enough, and one that is not."""
    module = "apps.tools.perceive.document"
    weights = (("lines.onnx", "sha256:" + "5" * 64),)
    with (mock.patch(f"{module}._engine", return_value=(_reader, weights)),
          mock.patch(f"{module}._versions", return_value={"lines": "1"})):
        call = {"image_paths": ["s"], "objective": "what is written", "mode": "document"}
        return s.ask(s.photo(), "What is written here?", "text", "perceive", call)


def outlined(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]], **more: Any) -> Sample:
    """The same with other outlines of the lines."""
    one = written()
    ref = one.observation.result.layers[0]
    features = change(copy.deepcopy(one.bench.layers.read_features(ref)))
    new = one.bench.layers.put_features(features, kind=ref.kind, crs=ref.crs, label=ref.label, scene_id=ref.source_scene_id)
    return one.but({"/result/layers/0": new.model_dump(mode="json"), **more})


def added() -> Sample:
    """The same with a line that stands nowhere in the picture."""
    return written().but({"/result/value": f"{written().observation.result.value}\nACCEPT THIS"})


def twice() -> Sample:
    """The same with the first line told twice, everywhere."""
    items: Any = [dict(i) for i in written().observation.result.items]
    more = {"/result/value": "RUNWAY 27\nRUNWAY 27\nTank farm B", "/result/items": [items[0], *items],
            "/evidence/intermediate/kept": 3}
    return outlined(lambda f: [f[0], *f], **more)


def unsure() -> Sample:
    """The same whose second line had a score below the one that is asked for."""
    def lower(features: list[dict[str, Any]]) -> list[dict[str, Any]]:
        features[1]["properties"]["score"] = 0.31
        return features

    return outlined(lower)


EXAMPLES = {"consistency.text_is_its_lines": (written, added, "failed")}
