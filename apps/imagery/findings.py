"""What the ingest check finds, a line each, and what a person can do about it. Pure."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from apps.core.geo.bands import Band
from apps.imagery import profiles
from apps.imagery.facts import RasterCounts, RasterFacts
from apps.imagery.hints import SceneHints

# Bands of these roles hold codes and bits, which have no scale and no unit.
CODES = frozenset({"qa", "class", "mask", "alpha"})


class Fix(BaseModel):
    """What a person can do about a finding: a button that sets ``hints``, or a form that asks for
    ``field``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    label: str
    field: Literal["", "roles", "gsd_m", "acquired_at", "crs", "nodata", "scale"] = ""
    hints: dict[str, Any] = Field(default_factory=dict)
    is_primary: bool = False


class Finding(BaseModel):
    """One line of the ingest check. ``light``: ok, warn (look at it), block (must be settled)."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    key: str
    title: str
    light: Literal["ok", "warn", "block"]
    value: str
    text: str
    code: str = Field(default="", description="error code of what stays closed meanwhile: NEEDS_CRS, NEEDS_GSD, …")
    fixes: tuple[Fix, ...] = ()


class Check:
    """One file under the ingest check: what is known of it, and the findings so far. ``sensor``, ``profile`` and ``codings`` (one
    a band) are told by the names of its bands."""

    def __init__(
        self,
        facts: RasterFacts,
        counts: RasterCounts,
        name: str,
        hints: SceneHints,
        scene_id: str,
        artifact: str,
    ):
        self.facts, self.counts, self.name, self.hints = facts, counts, name, hints
        self.scene_id, self.artifact = scene_id, artifact
        self.findings: list[Finding] = []
        self.sensor, self.sensor_source = "", "unknown"
        self.profile: profiles.Profile | None = None
        self.codings: list[profiles.Coding | None] = []

    def add(
        self,
        key: str,
        title: str,
        light: Literal["ok", "warn", "block"],
        value: str,
        text: str,
        *fixes: Fix,
        code: str = "",
    ) -> None:
        seen = light == "warn" and key in self.hints.looks_right
        if light == "warn" and not seen:
            fixes = (*fixes, Fix(label="Looks right", hints={"looks_right": [key]}))
        self.findings.append(
            Finding(key=key, title=title, light="ok" if seen else light, value=value, text=text, code=code, fixes=fixes)
        )


def share_text(n: int, total: int) -> str:
    """``19,927 px (32.9 %)``; tiny shares are never shown as 0."""
    share = 100 * n / total if total else 0.0
    shown = f"{share:.1f} %" if share >= 0.05 or n == 0 else "< 0.1 %"
    return f"{n:,} px ({shown})"


def begun(text: str) -> str:
    """With a capital first letter; names within keep theirs (Landsat 8/9 OLI-TIRS)."""
    return text[:1].upper() + text[1:]


def shown_bands(bands: list[Band]) -> list[Band]:
    return [b for b in bands if b.role != "alpha"]
