"""What the three tools are asked: typed arguments, published to planners, checked before any pixel is read.

A reference to an earlier step is ``{"$step": n}`` in a plan; the agent's loop replaces it by ``{"observation": id}`` and hands
that observation over as a parent. Scenes are named by ``scene_id``. Regions are GeoJSON geometries with ``region_crs``
(``EPSG:4326``, or ``image`` for pixel coordinates).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from pydantic import Field, FiniteFloat, JsonValue, model_validator

from apps.core.errors import ModelError
from apps.core.evidence.observation import (
    BandRef,
    Configuration,
    Evidence,
    Frozen,
    InputRef,
    JsonMap,
    Observation,
    Result,
)
from apps.core.evidence.plan import Plan, Question
from apps.core.geo.scene import SceneInfo
from apps.core.ports import LayerStore, RasterReader


class ObservationSource(Frozen):
    """An earlier observation used as input; ``label`` picks one of its layers where it has several."""

    observation: str = Field(description="observation id")
    label: str = ""


# --- perceive -------------------------------------------------------------------------------------------------------------
PerceiveMode = Literal["evidence", "document", "scene", "objects", "regions", "change", "measurement"]


class Scribble(Frozen):
    """A stroke drawn on the picture: what it passes belongs to the thing, or not."""

    inside: bool = True
    line: tuple[tuple[float, float], ...] = Field(min_length=1, max_length=2000, description="(x, y) in pixels, in drawing order")


class RegionMethod(Frozen):
    """How ``regions`` finds its pixels. ``index_threshold``: an index (ndvi, ndwi, mndwi, ndbi, bsi, …) compared with a number or
    with Otsu's threshold; ``class_value``: pixels of a class map; ``band_threshold``: one band's physical value; ``prompt``: what
    points, a box and scribbles show; ``refine``: the edge of an earlier mask (``seed``) laid anew along the picture's edges."""

    kind: Literal["index_threshold", "class_value", "band_threshold", "prompt", "refine"] = "index_threshold"
    index: str = ""
    band: str = Field(default="", description="band role, for band_threshold")
    threshold: float | Literal["otsu"] | None = Field(default=None, description="None: the target's documented default")
    side: Literal["above", "below"] = "above"
    values: tuple[int, ...] = Field(default=(), description="class values, for class_value")
    min_px: int = Field(default=0, ge=0, description="connected pieces smaller than this are dropped")
    points: tuple[tuple[float, float, int], ...] = Field(default=(), description="prompts: (x, y, 1 inside | 0 outside), pixels")
    box: tuple[float, float, float, float] | None = Field(default=None, description="prompt box, pixels")
    scribbles: tuple[Scribble, ...] = Field(default=(), max_length=100, description="prompt strokes")
    model: str = Field(default="", max_length=80, description="promptable model of the zoo; '': the classical method, "
                                                              "auto: any, best: any, and the classical method without one")
    seed: ObservationSource | None = Field(default=None, description="the mask to refine")
    band_px: int = Field(default=4, ge=1, le=64, description="for refine: how far the edge may move")


class ObjectsMethod(Frozen):
    """How ``objects`` finds its boxes."""

    detector: str = Field(default="auto", description="name in the model zoo; auto: the best that knows the class at this GSD")
    score_threshold: float = Field(default=0.25, ge=0, le=1)
    iou_threshold: float = Field(default=0.5, ge=0, le=1)
    tile_px: int | None = Field(default=None, ge=64, le=4096, description="longest side of a tile as the model sees it; "
                                                                          "None: by the model")
    overlap: float | None = Field(default=None, ge=0, lt=0.9, description="least share of a tile in common with its neighbour; "
                                                                          "None: by the object's size, 0.2 where nobody knows it")
    scale: float | None = Field(default=None, gt=0, le=8, description="resampling before detection; None: by GSD")


class PlacedLandmark(Frozen):
    """One end of a distance: a point or a box (its middle) in pixels or degrees, or what a detector found (the middle of its
    box). Exactly one of ``point``, ``box`` and ``layer``."""

    name: str = Field(default="", max_length=80, description="how it is called: A, B, plane 1")
    point: tuple[FiniteFloat, FiniteFloat] | None = Field(default=None, description="(x, y)")
    box: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat] | None = Field(
        default=None, description="(least x, least y, greatest x, greatest y)")
    crs: Literal["EPSG:4326", "image"] = Field(
        default="EPSG:4326", description="EPSG:4326: longitude, latitude; image: column, row")
    precision: FiniteFloat | None = Field(
        default=None, ge=0, description="size of a screen pixel where it was clicked: metres (EPSG:4326) or pixels (image)")
    layer: ObservationSource | None = Field(default=None, description="boxes of an earlier observation; they must be exactly as "
                                                                      "many as landmarks take from it")
    index: int = Field(default=0, ge=0, le=1, description="which of them, from left to right")

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if sum(given is not None for given in (self.point, self.box, self.layer)) != 1:
            raise ValueError("a landmark is a point, a box or a layer")
        return self


class LandmarksMethod(Frozen):
    """What is measured between the first landmark and the second. ``azimuth``: the geodesic bearing at the first, clockwise from
    true north. ``px`` needs no GSD."""

    measure: Literal["distance", "azimuth"] = "distance"
    unit: Literal["m", "px"] = "m"


class PerceiveArguments(Frozen):
    image_paths: tuple[str, ...] = Field(min_length=1, max_length=400, description="scene ids in semantic order (before, after)")
    objective: str = Field(max_length=1000, description="the exact visual fact or layer that is required")
    mode: PerceiveMode
    label_space: tuple[str, ...] = Field(default=(), description="exact classes for scene")
    target_groups: dict[str, tuple[str, ...]] = Field(default_factory=dict, description="target → prompts fused as one class")
    landmarks: tuple[str | PlacedLandmark, ...] = Field(
        default=(), max_length=2, description="for measurement, exactly two; as text px:COLUMN,ROW or lonlat:LONGITUDE,LATITUDE")
    landmarks_method: LandmarksMethod | None = None
    region: JsonMap | None = None
    region_crs: str = "EPSG:4326"
    regions_method: RegionMethod | None = None
    objects_method: ObjectsMethod | None = None
    quality_mask: Literal["auto", "none"] = Field(
        default="auto", description="auto: what the scene's own quality band flags as cloud, shadow or fill was not seen and is "
                                    "left out; none: the band is not used")
    options: JsonMap = Field(default_factory=dict)


# --- measure --------------------------------------------------------------------------------------------------------------
class MeasureSource(Frozen):
    """One layer to measure: of an earlier observation, or ``extent`` of an image or region."""

    name: str = Field(default="subject", max_length=80)
    mode: Literal["objects", "regions", "change", "extent"]
    layer: ObservationSource | None = None
    image: str | None = Field(default=None, description="scene id, for extent")
    geometry: JsonMap | None = Field(default=None, description="GeoJSON geometry, for extent of a drawn region or vector")
    geometry_crs: str = "EPSG:4326"
    vector: str = Field(default="", max_length=80, description="digest of a vector file of the project, for extent")
    name_field: str = Field(default="", max_length=60, description="attribute that names the features of a vector file")
    only: tuple[str, ...] = Field(default=(), max_length=1000, description="features of these names alone")
    part_field: str = Field(default="", max_length=255, description="attribute of which part_values are chosen, before all else")
    part_values: tuple[str, ...] = Field(default=(), max_length=100, description="features with one of these values, as text")
    part_min: FiniteFloat | str | None = Field(
        default=None, description="instead of part_values: a number, or a day as YYYY-MM-DD, from which on the values are chosen")
    part_max: FiniteFloat | str | None = Field(default=None, description="and up to which")
    part_open: Literal["", "min", "max", "both"] = Field(default="", description="which of part_min and part_max are left out")
    without: tuple[str, ...] = Field(default=(), max_length=1000, description="all features but those of these names")
    gsd_m: float | None = Field(default=None, gt=0)
    accuracy_m: FiniteFloat | None = Field(
        default=None, gt=0, description="for extent of a vector or geometry: by how many metres its points may lie off; none: as "
                                        "said of the file, else by its written digits at least")
    backend: Literal["local", "vlm"] = "local"


class Comparison(Frozen):
    op: Literal[">", ">=", "<", "<=", "==", "!="]
    value: float
    unit: str = "1"


Relation = Literal["", "inside", "overlaps", "touches", "within", "north_of", "south_of", "east_of", "west_of", "between",
                   "nearest", "wholly_inside", "outside", "beyond", "not_overlapping", "apart"]


class Condition(Frozen):
    """One more condition on the subject's instances: a relation to a source, or a figure of each instance compared with a number.
    Exactly one of ``relation`` and ``figure``."""

    relation: Relation = ""
    reference: str = Field(default="", max_length=80, description="the source that the relation is to")
    distance_m: float | None = Field(default=None, ge=0, description="for within and beyond")
    figure: Literal["", "area", "length", "outline"] = Field(
        default="", description="of each instance: its area, its length (lines), or the length of its outline")
    op: Literal[">", ">=", "<", "<="] = ">"
    value: FiniteFloat | None = Field(default=None, ge=0, description="in ``unit``")
    pick: Literal["", "min", "max"] = Field(
        default="", description="instead of a comparison: the one with the extreme figure among those that the others leave")
    unit: str = Field(default="", max_length=20, description="m2, ha, … for an area, m, km, … for a length")
    is_given: bool = Field(default=False, description="of a share: it holds for the whole too, and not for the part alone")

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if bool(self.relation) == bool(self.figure):
            raise ValueError("a condition is a relation or a figure")
        if self.relation in ("nearest", "between"):
            raise ValueError(f"{self.relation} is no condition beside others")
        if self.relation and not self.reference:
            raise ValueError("a relation needs a reference")
        if self.relation in ("within", "beyond") and self.distance_m is None:
            raise ValueError(f"{self.relation} needs distance_m")
        if bool(self.figure) != (self.value is not None or bool(self.pick)) or (self.value is not None and self.pick):
            raise ValueError("a figure is compared with a value, or the extreme of it picked")
        return self


class MeasureSpec(Frozen):
    metric: Literal["count", "area", "distance", "length", "boolean", "ratio", "density"]
    subject: str = "subject"
    reference: str = ""
    others: tuple[str, ...] = Field(default=(), max_length=10, description="for between: further references")
    relation: Relation = ""
    where: tuple[Condition, ...] = Field(
        default=(), max_length=5, description="conditions that the subject's instances meet all, before and beside the relation")
    clip: bool = Field(default=False, description="for area, length and ratio: the subject is cut where the relation (inside, "
                                                  "outside, within, beyond) ends, instead of chosen whole")
    each: str = Field(default="", max_length=80, description="the source whose features are listed: a table of one figure each, "
                                                             "of the subject in the reference's, or of the subject's own")
    pick: Literal["", "min", "max"] = Field(default="", description="for each: the name of the one with the extreme")
    rank: int = Field(default=1, ge=1, le=1000, description="for pick: 2 for the second largest, …")
    statistic: Literal["", "mean", "median", "minimum", "maximum"] = Field(
        default="", description="for area and length: of the figures of the single instances, instead of all together")
    distance_m: float | None = Field(default=None, ge=0)
    nearest_k: int = Field(default=1, ge=1, le=1000, description="for nearest: how many subjects closest to a reference stay")
    distance_statistic: Literal["minimum", "mean", "maximum", "farthest"] = Field(
        default="minimum", description="over the subjects, each with its nearest; farthest: of any two, the pair farthest apart")
    distance_between: Literal["edges", "centroids"] = "edges"
    denominator: Literal["", "valid", "scene", "region", "reference", "subject"] = Field(
        default="", description="subject: all of the subject, before a relation chose among it")
    comparison: Comparison | None = Field(default=None, description="for boolean: count or area compared with a number")
    of: Literal["count", "area", "length"] = "count"
    length_of: Literal["", "outline", "extent"] = Field(
        default="", description="for the length of polygons: their outline (perimeter), or the long side of the smallest "
                                "rectangle about each")
    unit: str = Field(default="", description="output unit; '' the metric's own (1, m2, m)")


class MeasureArguments(Frozen):
    sources: tuple[MeasureSource, ...] = Field(min_length=1, max_length=20)
    spec: MeasureSpec
    region: JsonMap | None = None
    region_crs: str = "EPSG:4326"


# --- execute --------------------------------------------------------------------------------------------------------------
class Node(Frozen):
    """One operator. ``op`` names a registered operator, family first: ``asset.scene``, ``asset.catalog``,
    ``raster.product.index``, ``raster.product.band``, ``raster.product.normalized_difference``, ``raster.product.ratio``,
    ``raster.product.math``, ``raster.product.threshold``, ``raster.product.difference``, ``raster.summarize.statistic``,
    ``raster.summarize.area``, ``raster.summarize.share``, ``raster.summarize.series``, ``raster.summarize.trend``, …"""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")
    op: str = Field(max_length=80)
    inputs: tuple[str, ...] = Field(default=(), max_length=400)
    params: JsonMap = Field(default_factory=dict)


class ExecuteArguments(Frozen):
    nodes: tuple[Node, ...] = Field(min_length=1, max_length=1000)
    output: str
    region: JsonMap | None = None
    region_crs: str = "EPSG:4326"


ARGUMENTS: dict[str, type[PerceiveArguments] | type[MeasureArguments] | type[ExecuteArguments]] = {
    "perceive": PerceiveArguments, "measure": MeasureArguments, "execute": ExecuteArguments,
}


@dataclass(frozen=True, slots=True)
class ToolContext:
    """All that a tool may use; frozen. ``reader`` opens a scene by id (KeyError for one that is not of the question)."""

    question: Question
    plan: Plan
    step: int
    attempt: int
    run_id: str
    parents: Sequence[Observation]
    reader: Callable[[str], RasterReader]
    layers: LayerStore
    progress: Callable[[int, int, str], None] = lambda done, total, message: None
    is_cancelled: Callable[[], bool] = lambda: False
    seed: int = 0
    revision: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    log: Callable[[str, str], None] = lambda level, message: None

    def scene(self, scene_id: str) -> SceneInfo:
        """The scene of that id; KeyError where the question has none."""
        return next((s for s in self.question.scenes if s.scene_id == scene_id), None) or _no_scene(scene_id)

    def parent(self, observation_id: str) -> Observation:
        """The parent of that id; KeyError where it was not handed over."""
        found = next((o for o in self.parents if o.id == observation_id), None)
        if found is None:
            raise KeyError(f"observation {observation_id} was not handed over as a parent")
        return found


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a tool hands back; ``LocalToolBox`` makes the observation of it. Log lines go through ``ToolContext.log``
    (level: debug, info, warning or error).

    A tool that cannot know raises ToolAbstainedError with ``needs``; a wrong call raises ModelError. ``arguments_passed`` are
    the arguments as used, defaults filled in. ``state`` ``partial`` needs a ``reason``.
    """

    configuration: Configuration
    result: Result
    evidence: Evidence
    inputs: tuple[InputRef, ...]
    arguments_passed: dict[str, JsonValue]
    state: Literal["ok", "partial"] = "ok"
    reason: str = ""
    needs: dict[str, JsonValue] = field(default_factory=dict)
    device: str = "cpu"
    packages: dict[str, str] = field(default_factory=dict)


class ToolFailedError(ModelError):
    """A tool that failed part way, with the evidence and inputs that it had by then."""

    def __init__(self, message: str, *, code: str = "TOOL_FAILED", needs: dict[str, Any] | None = None,
                 evidence: Evidence | None = None, inputs: Sequence[InputRef] = ()):
        super().__init__(message, code=code, needs=needs)
        self.evidence, self.inputs = evidence or Evidence(), tuple(inputs)


class ToolCancelledError(ModelError):
    """The run was cancelled while the tool worked."""

    def __init__(self) -> None:
        super().__init__("The run was cancelled while the tool worked.", code="CANCELLED")


def input_ref(scene: SceneInfo, bands: Sequence[int] = (), role: str = "image") -> InputRef:
    """The scene as an input of an observation; ``bands`` are the 1-based indices that were read (none: all of them)."""
    used = [b for b in scene.bands if b.index in bands] if bands else list(scene.bands)
    nodata = {b.nodata for b in used}
    return InputRef(
        artifact=scene.artifact, role=role, scene_id=scene.scene_id, name=scene.name, crs=scene.grid.crs,
        gsd_m=scene.effective_gsd_m, size_px=(scene.grid.width, scene.grid.height),
        bands=tuple(BandRef(index=b.index, role=b.role, unit=b.unit, native_gsd_m=b.native_gsd_m) for b in used),
        nodata=nodata.pop() if len(nodata) == 1 else None,
        fill_rules=tuple(f"{r.kind}:{r.source}:{'unknown' if r.share is None else f'{r.share:.6f}'}"
                         for r in scene.fill_rules),
        acquired_at=scene.acquired_at)


def _no_scene(scene_id: str) -> SceneInfo:
    raise KeyError(f"the question has no scene {scene_id}")


def step_reference(step: int, label: str = "") -> dict[str, JsonValue]:
    """How a plan refers to an earlier step's observation."""
    return {"$step": step, "label": label} if label else {"$step": step}
