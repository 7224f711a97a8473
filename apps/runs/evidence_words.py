"""Process evidence as its page tells it: images, steps of a graph and quality bands by what people call them.

The record keeps its ids; only what is read is renamed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from apps.core.evidence.observation import Observation
from apps.core.geo.quality_words import quality_text
from apps.core.geo.scene import SceneInfo
from apps.runs.headline import quantity_text, scene_title

# what a step makes, where its operator's last word would not say it
_MADE = {"scene": "image", "math": "formula", "class_areas": "areas of classes", "normalized_difference": "normalised difference"}
# parameters that say which one of its kind a step makes
_WHICH = ("index", "role", "product", "statistic", "name")


def evidence_for_reading(observation: Observation, scenes: Sequence[SceneInfo]) -> dict[str, dict[str, Any]]:
    """The three parts of an observation's evidence with names in place of ids; parts and order are kept."""
    titles = {s.scene_id: scene_title(s) for s in scenes}
    steps = step_names(observation, titles)

    def named(value: Any, *, is_step: bool = False) -> Any:
        if isinstance(value, dict):
            # records of steps are looked up by their ids; elsewhere a key that looks like one is a key of its own
            inner = {titles.get(k) or (steps.get(k, k) if is_step else k): named(v) for k, v in value.items()}
            # one scene: its name says nothing that the page does not say already
            return next(iter(inner.values())) if len(value) == 1 and next(iter(value)) in titles else inner
        if isinstance(value, list):
            return [named(v) for v in value]
        return quality_text(titles.get(value, value)) if isinstance(value, str) else value

    held = observation.evidence.model_dump(mode="json")
    return {
        part: {k: named(v, is_step=isinstance(v, dict) and bool(v) and v.keys() <= steps.keys()) for k, v in rows.items()}
        for part, rows in held.items()
    }


def step_names(observation: Observation, titles: Mapping[str, str]) -> dict[str, str]:
    """Id of each node of a graph → what it makes: ``NDVI``, ``NBR, 20 Jul 2002``, ``mask``; empty where there is no graph."""
    nodes = observation.arguments.get("nodes")
    if not isinstance(nodes, list):
        return {}
    held = {str(n["id"]): n for n in nodes if isinstance(n, dict) and "id" in n}
    made = {k: _made(n) for k, n in held.items()}
    seen = Counter(made.values())
    out: dict[str, str] = {}
    for k, title in made.items():
        of = {titles[s] for s in _images(k, held) if s in titles} if seen[title] > 1 else set()
        out[k] = f"{title}, {of.pop()}" if len(of) == 1 else title
    again = Counter(out.values())
    return {k: f"{v} ({k})" if again[v] > 1 else v for k, v in out.items()}


def _made(node: Mapping[str, Any]) -> str:
    last = str(node.get("op", "")).rpartition(".")[2]
    params = node.get("params") if isinstance(node.get("params"), dict) else {}
    which = next((str(params[key]) for key in _WHICH if isinstance(params.get(key), str)), "")  # type: ignore[index, union-attr]
    if which:
        return quantity_text(which)
    return "mask" if last == "threshold" else _MADE.get(last, re.sub(r"_+", " ", last))


def _images(name: str, held: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Ids of the images that a step rests on."""
    found: set[str] = set()
    seen: set[str] = set()
    left = [name]
    while left:
        at = left.pop()
        if at in seen or at not in held:
            continue
        seen.add(at)
        params = held[at].get("params")
        if isinstance(params, dict) and isinstance(params.get("scene"), str):
            found.add(params["scene"])
        left += [str(i) for i in held[at].get("inputs", ())]
    return found
