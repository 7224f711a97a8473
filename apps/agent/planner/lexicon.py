"""Words of the field and what they stand for; the data lie in ``lexicon.json`` beside this file.

An index here has the roles that its formula needs; the formula itself is the tools'. A target has its methods in the order in
which they are tried, with documented default thresholds (index units; ``otsu``: Otsu 1979, computed on the scene).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from apps.core.evidence.observation import Frozen
from apps.core.geo.scene import SceneInfo

# Where a role is absent these bands serve for it; the tools do the same and name the band that they used.
STAND_INS: dict[str, tuple[str, ...]] = {"nir": ("nir08",), "thermal1": ("thermal2",)}
ROLE_NAMES = {
    "nir": "near infrared",
    "swir1": "short-wave infrared 1",
    "swir2": "short-wave infrared 2",
    "rededge1": "red edge 1",
    "lst": "surface temperature",
    "vv": "VV",
    "vh": "VH",
    "hh": "HH",
    "hv": "HV",
    "pan": "panchromatic",
}


class IndexEntry(Frozen):
    title: str
    roles: tuple[str, ...]
    words: tuple[str, ...]


class BandEntry(Frozen):
    title: str
    words: tuple[str, ...]


class TargetMethod(Frozen):
    """One way to find a target: an index or a band's physical value, compared with ``threshold``."""

    index: str = ""
    band: str = ""
    threshold: float | Literal["otsu"]
    side: Literal["above", "below"] = "above"


class TargetEntry(Frozen):
    title: str
    words: tuple[str, ...]
    narrower: tuple[str, ...] = Field(
        default=(), description="words that mean less than the method finds; they bring the warning"
    )
    warning: str = ""
    methods: tuple[TargetMethod, ...]


class ObjectEntry(Frozen):
    """``title``: (one, many); ``prompts``: words for detectors, fused as one class.

    A narrower thing (car, truck) has its own entry with its own word alone: whether it can be told apart is for the tool to
    say, which abstains where no model can.
    """

    title: tuple[str, str]
    prompts: tuple[str, ...]
    words: tuple[str, ...]


class Lexicon(Frozen):
    indices: dict[str, IndexEntry]
    bands: dict[str, BandEntry]
    targets: dict[str, TargetEntry]
    objects: dict[str, ObjectEntry]
    fillers: frozenset[str] = Field(description="words that say nothing of their own beside those that were read")
    cannot: dict[str, str] = Field(description="words that no tool can serve, and what to say of them")

    def title(self, name: str) -> str:
        """How a quantity or target is written in a sentence."""
        if name in self.indices:
            return self.indices[name].title
        if name in self.bands:
            return self.bands[name].title
        if name in self.targets:
            return self.targets[name].title
        return self.objects[name].title[1] if name in self.objects else name


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    return Lexicon.model_validate(json.loads(Path(__file__).with_name("lexicon.json").read_text(encoding="utf-8")))


def has_role(scene: SceneInfo, role: str) -> bool:
    return role in scene.roles or any(r in scene.roles for r in STAND_INS.get(role, ()))


def missing_roles(scene: SceneInfo, quantity: str) -> tuple[str, ...]:
    """Roles that a scene lacks for an index or band; none where the scene is itself a product of that index."""
    entry = lexicon().indices.get(quantity)
    if quantity in scene.roles:
        return ()
    if entry is None:
        return () if has_role(scene, quantity) else (quantity,)
    return tuple(r for r in entry.roles if not has_role(scene, r))


def role_list(roles: Sequence[str]) -> str:
    """'red and near infrared'."""
    names = [ROLE_NAMES.get(r, r) for r in roles]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
