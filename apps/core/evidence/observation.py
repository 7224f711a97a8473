"""The observation: what a tool says about the ground, and the process evidence that lets someone else check it.

Protocol version 1 (``rsure.observation/1``). These types are published as JSON Schema (``./rsure verify --schema``). Unknown
fields are refused; ``evidence`` parts are open maps with required keys, since more evidence is welcome and less is not.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    field_validator,
    model_validator,
)

from apps.core.geo.grid import Grid

PROTOCOL: Final = "rsure.observation/1"
# Lists longer than this travel as artifacts, never inline.
INLINE_LIMIT = 1000
# Labels of layers that hold what was looked at and not counted: boxes below the threshold, and those that clouds hide.
NOT_SEEN = "not seen"
ASIDE = ("candidates", NOT_SEEN)
MAX_DEPTH = 12


def _finite_json(value: Any, depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN and infinities are not numbers of the protocol; use null and say why in the log")
    if isinstance(value, dict):
        for v in value.values():
            _finite_json(v, depth + 1)
    elif isinstance(value, list):
        if len(value) > INLINE_LIMIT:
            raise ValueError(f"a list of {len(value)} entries stands inline; over {INLINE_LIMIT} belong in an artifact")
        for v in value:
            _finite_json(v, depth + 1)
    return value


JsonMap = Annotated[dict[str, JsonValue], AfterValidator(_finite_json)]
FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskRef(Frozen):
    """The question that the observation serves."""

    task_type: str = Field(max_length=64, description="one of the task types of PROTOCOL.md section 7; data, not an enum")
    question: str = Field(max_length=4000)
    answer_form: str = Field(
        max_length=64, description="integer, number, area, distance, share, boolean, date, choice, class, text"
    )


class Configuration(Frozen):
    """How the tool was set."""

    coarse: str = Field(max_length=120, description="mode or operator: objects, area, raster.product, …")
    fine: str = Field(max_length=240, description="coarse plus what changes behaviour, parts split by '/': count/auto/objects")


class BandRef(Frozen):
    index: int = Field(ge=1)
    role: str = Field(max_length=40)
    unit: str = Field(default="DN", max_length=40)
    native_gsd_m: float | None = Field(
        default=None, gt=0, description="ground size of the pixels that were measured, where the raster's are of another size"
    )


class InputRef(Frozen):
    """One input: which bytes, which role, and the grid facts that the tool relied on."""

    artifact: str = Field(max_length=80, description="sha256:… of the input")
    role: str = Field(default="image", max_length=40, description="image, before, after, mask, vector, …")
    scene_id: str | None = Field(default=None, max_length=64)
    name: str = Field(default="", max_length=255)
    crs: str | None = None
    gsd_m: float | None = Field(default=None, gt=0)
    size_px: tuple[int, int] | None = Field(default=None, description="(width, height)")
    bands: tuple[BandRef, ...] = ()
    nodata: float | None = None
    fill_rules: tuple[str, ...] = Field(default=(), description="undeclared fill that was masked, as kind:source:share")
    acquired_at: AwareDatetime | None = None


class LogLine(Frozen):
    at_s: FiniteFloat = Field(ge=0)
    level: Literal["debug", "info", "warning", "error"] = "info"
    message: str = Field(max_length=2000)


class Status(Frozen):
    state: Literal["ok", "partial", "failed"]
    started_at: AwareDatetime
    elapsed_s: FiniteFloat = Field(ge=0)
    log: tuple[LogLine, ...] = Field(default=(), max_length=INLINE_LIMIT)
    reason: str = Field(default="", max_length=2000, description="why partial or failed, as a sentence")
    needs: JsonMap = Field(default_factory=dict, description="what would let it succeed: {'gsd_m': true}, {'roles': ['red']}")


class LayerRef(Frozen):
    """A layer of the result, by digest. ``grid`` stands for raster layers; ``crs`` 'image' means pixel coordinates."""

    kind: Literal["mask", "boxes", "polygons", "raster", "classes", "points", "table", "text", "image"]
    artifact: str = Field(max_length=80)
    crs: str = "image"
    label: str = Field(default="", max_length=120)
    media_type: str = Field(default="", max_length=80)
    grid: Grid | None = None
    unit: str = Field(default="", max_length=40)
    n: int | None = Field(default=None, ge=0, description="features, or True pixels of a mask")
    source_scene_id: str | None = None

    @property
    def is_aside(self) -> bool:
        """Whether it holds what was looked at and not counted."""
        return self.label in ASIDE


class Result(Frozen):
    """What the tool says. ``value`` is a number, text, boolean, date (ISO) or null; series and tables stand in ``items``."""

    kind: Literal[
        "count",
        "area",
        "distance",
        "length",
        "ratio",
        "boolean",
        "statistic",
        "series",
        "trend",
        "date",
        "class",
        "text",
        "layer",
        "catalog",
        "table",
    ]
    value: float | int | bool | str | None = None
    unit: str = Field(default="1", max_length=40)
    interval: tuple[FiniteFloat, FiniteFloat] | None = None
    interval_level: float | None = Field(default=None, gt=0, lt=1)
    quantity: str = Field(
        default="", max_length=120, description="what the value is of: ndvi, surface temperature, share of water"
    )
    items: tuple[JsonMap, ...] = Field(default=(), max_length=INLINE_LIMIT)
    layers: tuple[LayerRef, ...] = Field(default=(), max_length=100)

    @field_validator("value")
    @classmethod
    def _no_nan(cls, value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("the value is not finite; a tool that has no value says null and fails or is partial")
        return value


class Evidence(Frozen):
    """Process evidence: where it came from, what lies between, and whether it is whole. See REQUIRED_EVIDENCE."""

    source: JsonMap = Field(default_factory=dict)
    intermediate: JsonMap = Field(default_factory=dict)
    validity: JsonMap = Field(default_factory=dict)


class Provenance(Frozen):
    tool_version: str = Field(default="", max_length=40)
    seed: int | None = None
    device: str = Field(default="cpu", max_length=40)
    revision: str = Field(default="", max_length=64)
    packages: dict[str, str] = Field(default_factory=dict)


Tool = Literal["perceive", "measure", "execute"]


class Observation(Frozen):
    """What a tool says of the ground in one call, with its evidence."""

    protocol: Literal["rsure.observation/1"] = PROTOCOL
    id: str = Field(min_length=1, max_length=64)
    run_id: str = Field(default="", max_length=64)
    step: int = Field(ge=0)
    attempt: int = Field(default=0, ge=0, description="0, then one more for each answered evidence request")
    parents: tuple[str, ...] = Field(default=(), max_length=400, description="observations used as input")
    task: TaskRef
    tool: Tool
    configuration: Configuration
    arguments: JsonMap = Field(default_factory=dict, description="as the plan asked")
    arguments_passed: JsonMap = Field(default_factory=dict, description="as the tool used them, defaults filled in")
    inputs: tuple[InputRef, ...] = Field(default=(), max_length=400)
    status: Status
    result: Result
    evidence: Evidence = Field(default_factory=Evidence)
    provenance: Provenance = Field(default_factory=Provenance)

    @model_validator(mode="after")
    def _parents_are_others(self) -> Observation:
        if self.id in self.parents:
            raise ValueError("an observation cannot be its own parent")
        return self

    def layer(self, kind: str) -> LayerRef | None:
        """The first layer of that kind, or None."""
        return next((layer for layer in self.result.layers if layer.kind == kind), None)


# PROTOCOL.md section 3 (the paper's Table 2): JSON keys that must be present, by tool and part of the evidence. A check of the
# contract family reads this table; keys in a tuple inside are alternatives, of which one must be there.
REQUIRED_EVIDENCE: dict[str, dict[str, tuple[str | tuple[str, ...], ...]]] = {
    "perceive": {
        "source": (("weights", "method"), "thresholds", "sensor", "resolution_m"),
        "intermediate": (("boxes", "polygons", "scores", "classes", "mask_px", "features"), "candidates", "kept"),
        "validity": ("layer_status", "class_complete", "geometry_valid"),
    },
    "measure": {
        "source": ("layers", "metric", "unit"),
        "intermediate": ("numerator", "denominator", "n_px"),
        "validity": ("layer_status", "class_complete"),
    },
    "execute": {
        "source": ("operators", "formulas", "band_mapping"),
        "intermediate": ("nodes", "valid_px"),
        "validity": ("node_status", "quality_mask", "failed_nodes"),
    },
}
