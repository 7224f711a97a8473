"""What is measured: masks, features and extents, brought to one metric plane with its way back to the globe."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from pydantic import JsonValue
from pyproj import CRS, Transformer
from scipy import ndimage
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.core.errors import ModelError, ToolAbstainedError
from apps.core.evidence.observation import InputRef, LayerRef, Observation
from apps.core.geo.grid import Grid, transformer
from apps.core.geo.scene import SceneInfo
from apps.core.geo.shapes import most_extended
from apps.core.geo.vector import chosen_by, limits_of_part
from apps.tools.contract import MeasureArguments, MeasureSource, ToolContext, input_ref
from apps.tools.geojson import crs_of, geometries_of, on_the_globe, vector_of
from apps.tools.measure.accuracy import Accuracy, accuracy_of, in_units
from apps.tools.region import RegionMask, polygon_from_geojson, to_pixels

# A GSD that a call names may differ from what the CRS implies by this share before it is told.
GSD_TOLERANCE = 0.05
# Rows of pixels of a mask that become polygons; more need a region or a larger min_px.
MAX_RUNS = 400_000
# The property that holds the number of a feature or piece in its layer, before some are left out.
NUMBER = "rsure:number"


@dataclass(slots=True)
class Measured:
    """One source, opened. Exactly one of ``mask`` and ``features`` is set; features are shapely geometries in the scene's
    pixels (``crs`` ``image``) or in a CRS."""

    source: MeasureSource
    scene: SceneInfo | None
    grid: Grid | None
    gsd_m: float | None
    mask: NDArray[np.bool_] | None = None
    valid: NDArray[np.bool_] | None = None
    features: list[BaseGeometry] | None = None
    properties: list[dict[str, Any]] = field(default_factory=list)
    candidates: list[tuple[BaseGeometry, dict[str, Any]]] = field(default_factory=list)
    crs: str = "image"
    layer: LayerRef | None = None
    parent: Observation | None = None
    ref: InputRef | None = None
    region: RegionMask | None = None
    is_whole: bool = True
    accuracy: Accuracy | None = None
    # instances chosen by a region whose outline they lie so near to that their accuracy decides: (inside, outside)
    near_region: tuple[int, int] = (0, 0)

    @property
    def is_drawn(self) -> bool:
        """Whether its shapes were drawn or read, and not found on pixels."""
        return self.source.mode == "extent" and bool(self.source.vector or self.source.geometry is not None)

    @property
    def is_georeferenced(self) -> bool:
        return self.crs != "image" or (self.grid is not None and self.grid.crs is not None)

    def describe(self) -> dict[str, JsonValue]:
        """Where the layer came from."""
        p, layer = self.parent, self.layer
        return {"name": self.source.name, "mode": self.source.mode, "backend": self.source.backend,
                "observation": p.id if p else None, "tool": p.tool if p else None,
                "configuration": p.configuration.fine if p else None, "label": layer.label if layer else None,
                "kind": layer.kind if layer else "extent", "artifact": layer.artifact if layer else None,
                "scene": self.scene.scene_id if self.scene else None, "gsd_m": self.gsd_m, "crs": self.crs
                if self.crs != "image" else (self.grid.crs if self.grid else None),
                **({"accuracy": self.accuracy.told() if self.accuracy is not None else None} if self.is_drawn else {})}


def open_source(ctx: ToolContext, source: MeasureSource, arguments: MeasureArguments, region: Mapping[str, Any] | None,
                region_crs: str) -> Measured:
    """The source's layer. ModelError where it is missing, failed, of another kind, or approximate (backend ``vlm``)."""
    if source.backend == "vlm":
        raise ModelError(f"The geometry of {source.name} comes from a vision-language model and is approximate; it may be looked "
                         "at but not measured.", code="BAD_ARGUMENT", needs={"backend": "local"})
    if source.mode == "extent":
        # a region chooses among what is measured; the roads that it is measured against may leave the region
        is_against = source.name in (arguments.spec.reference, *arguments.spec.others) and source.name != arguments.spec.subject
        given = None if is_against and (source.vector or source.geometry is not None) else region
        return _open_extent(ctx, source, given, region_crs)
    if source.layer is None:
        raise ModelError(f"The source {source.name} ({source.mode}) names no layer of an earlier observation.",
                         code="BAD_ARGUMENT")
    parent = ctx.parent(source.layer.observation)
    if parent.status.state == "failed":
        raise ModelError(f"The observation that {source.name} rests on failed: {parent.status.reason}", code="TOOL_FAILED")
    kinds = ("boxes", "polygons", "points") if source.mode == "objects" else ("mask",)
    layer = _choose(parent, kinds, source.layer.label, source.name)
    scene = _scene_of(ctx, parent, layer)
    gsd = _gsd(ctx, source, scene)
    grid = layer.grid or (scene.grid if scene else None)
    out = Measured(source, scene, grid, gsd, layer=layer, parent=parent, ref=_layer_ref(layer, scene, gsd, source))
    if layer.kind == "mask":
        mask, valid = ctx.layers.read_mask(layer)
        out.mask, out.valid = mask & valid, valid
        if region is not None and grid is not None:
            out.region = RegionMask.of(region, region_crs, grid, scene.name if scene else "the layer")
            inside = out.region.mask((0, 0, grid.width, grid.height))
            out.mask, out.valid = out.mask & inside, out.valid & inside
        if not out.valid.any():
            where = " inside the region" if region is not None else ""
            raise ToolAbstainedError(f"Not one pixel of {source.name} is valid{where}; from none nothing follows, not even zero.",
                                     code="TOOL_FAILED", needs={"valid_px": True})
        return out
    out.crs = layer.crs
    found = ctx.layers.read_features(layer)
    out.features = [_geometry(f, source.name) for f in found]
    out.properties = [dict(f.get("properties") or {}) | {NUMBER: i} for i, f in enumerate(found, 1)]
    weak = next((x for x in parent.result.layers if x.label == "candidates" and x.kind == layer.kind), None)
    if weak is not None and weak.artifact != layer.artifact:
        out.candidates = [(_geometry(f, source.name), dict(f.get("properties") or {})) for f in ctx.layers.read_features(weak)
                          if (f.get("properties") or {}).get("target", layer.label) == layer.label]
    if region is not None:
        _keep_inside(out, region, region_crs)
    return out


def _choose(parent: Observation, kinds: Sequence[str], label: str, name: str) -> LayerRef:
    fitting = [x for x in parent.result.layers if x.kind in kinds]
    if label:
        named = [x for x in fitting if x.label == label]
        if not named:
            raise ModelError(f"The observation has no {' or '.join(kinds)} layer labelled {label!r}; it has "
                             f"{', '.join(repr(x.label) for x in fitting) or 'none'}.", code="BAD_ARGUMENT")
        return named[0]
    fitting = [x for x in fitting if not x.is_aside]
    named = [x for x in fitting if x.label.lower() == name.lower()]
    if named:
        return named[0]
    if not fitting:
        raise ModelError(f"The observation has no {' or '.join(kinds)} layer to measure.", code="BAD_ARGUMENT")
    if len(fitting) > 1:
        raise ModelError(f"The observation has several layers ({', '.join(x.label for x in fitting)}); name one by its label.",
                         code="BAD_ARGUMENT")
    return fitting[0]


def _scene_of(ctx: ToolContext, parent: Observation, layer: LayerRef) -> SceneInfo | None:
    wanted = layer.source_scene_id or next((i.scene_id for i in parent.inputs if i.scene_id), None)
    return next((s for s in ctx.question.scenes if s.scene_id == wanted), None)


def _gsd(ctx: ToolContext, source: MeasureSource, scene: SceneInfo | None) -> float | None:
    known = scene.effective_gsd_m if scene else None
    implied = scene.grid.gsd_m if scene else None
    if source.gsd_m is None:
        return known
    if implied is not None and abs(source.gsd_m / implied - 1) > GSD_TOLERANCE:
        ctx.log("warning", f"{source.name}: the call names a GSD of {source.gsd_m:g} m, the CRS implies {implied:.4g} m; the CRS "
                           "is used.")
    return known if implied is not None else source.gsd_m


def _layer_ref(layer: LayerRef, scene: SceneInfo | None, gsd: float | None, source: MeasureSource) -> InputRef:
    grid = layer.grid or (scene.grid if scene else None)
    return InputRef(artifact=layer.artifact, role=layer.kind, scene_id=scene.scene_id if scene else None, name=source.name[:255],
                    crs=grid.crs if grid else (None if layer.crs == "image" else layer.crs), gsd_m=gsd,
                    size_px=(grid.width, grid.height) if grid else None, acquired_at=scene.acquired_at if scene else None)


def _geometry(feature: Mapping[str, Any], name: str) -> BaseGeometry:
    try:
        geometry = shape(feature["geometry"])
    except Exception as error:
        raise ModelError(f"A feature of {name} has no readable geometry.", code="TOOL_FAILED") from error
    if geometry.is_empty or not np.isfinite(shapely.get_coordinates(geometry)).all():
        raise ModelError(f"A feature of {name} is empty or not finite.", code="TOOL_FAILED")
    return most_extended(geometry if geometry.is_valid else shapely.make_valid(geometry))


def _keep_inside(out: Measured, region: Mapping[str, Any], region_crs: str) -> None:
    """Features whose centroid lies in the region."""
    assert out.features is not None
    polygon, region_crs = polygon_from_geojson(region), crs_of(region, region_crs)
    on_the_globe([polygon], region_crs, "The region")
    if out.crs == "image":
        if out.grid is None:
            raise ModelError("The layer has no grid, so the region cannot be placed on it.", code="BAD_REGION")
        RegionMask.of(region, region_crs, out.grid, out.scene.name if out.scene else "the layer")
        polygon = to_pixels(polygon, region_crs, out.grid)
    elif region_crs != out.crs:
        t = transformer(region_crs, out.crs)
        polygon = shapely.transform(polygon, lambda p: np.stack(t.transform(p[:, 0], p[:, 1]), axis=1))
    inside = shapely.contains(polygon, [g.centroid for g in out.features]) if out.features else np.zeros(0, bool)
    if out.accuracy is not None and out.features and out.crs != "image":
        # coarse and on the safe side: degrees are taken where they are the most
        gaps = shapely.distance(polygon.boundary, [g.centroid for g in out.features])
        near = gaps <= in_units(out.crs, out.accuracy.metres, out.features)
        out.near_region = int((near & inside).sum()), int((near & ~inside).sum())
    out.is_whole = bool(np.all(inside))
    out.features = [g for g, i in zip(out.features, inside, strict=True) if i]
    out.properties = [p for p, i in zip(out.properties, inside, strict=True) if i]
    out.candidates = [(g, p) for g, p in out.candidates if polygon.contains(g.centroid)]


def require_axes(scenes: Sequence[SceneInfo], shapes: Sequence[BaseGeometry], crs: str, name: str) -> None:
    """ModelError (BAD_REGION) where shapes on the map lie on none of the scenes, and would if their axes were exchanged."""
    placed = [s for s in scenes if s.grid.crs is not None]
    if crs == "image" or not placed or not shapes:
        return
    west, south, east, north = shapely.total_bounds(np.array(shapes, dtype=object))
    if any(_meets(s.grid, crs, west, south, east, north) for s in placed):
        return
    if any(_meets(s.grid, crs, south, west, north, east) for s in placed):
        raise ModelError(f"{name} lies outside of the imagery; with its axes exchanged it would lie on it. Longitude (or the "
                         "easting) comes first, latitude (or the northing) second.", code="BAD_REGION")


def _meets(grid: Grid, crs: str, west: float, south: float, east: float, north: float) -> bool:
    """Whether a frame of coordinates meets a grid's own frame."""
    assert grid.crs is not None
    at = np.linspace(0, 1, 5)
    x, y = (v.ravel() for v in np.meshgrid(west + (east - west) * at, south + (north - south) * at))
    if crs != grid.crs:
        if CRS.from_user_input(crs).is_geographic and (np.abs(y).max() > 90 or np.abs(x).max() > 360):
            return False
        x, y = transformer(crs, grid.crs).transform(x, y)
    col, row = grid.colrow(np.asarray(x), np.asarray(y))  # type: ignore[arg-type]
    known = np.isfinite(col) & np.isfinite(row)
    if not known.any():
        return False
    col, row = np.asarray(col)[known], np.asarray(row)[known]
    return bool(col.max() >= 0 and col.min() <= grid.width and row.max() >= 0 and row.min() <= grid.height)


def _tell_of_file(ctx: ToolContext, digest: str, name: str) -> None:
    """What was left out of a vector file or mended in it when it was read, in the log: a figure of it is one of the rest."""
    for held in ctx.question.vectors:
        if held.artifact == digest:
            for warning in held.warnings:
                ctx.log("warning", f"{name}: {warning}")
            return


def _open_extent(ctx: ToolContext, source: MeasureSource, region: Mapping[str, Any] | None, region_crs: str) -> Measured:
    if source.geometry is not None:
        found, properties = geometries_of(source.geometry)
        crs = crs_of(source.geometry, source.geometry_crs)
        on_the_globe(found, crs, f"The geometry of {source.name}")
        require_axes(ctx.question.scenes, found, crs, source.name)
        scene = next((s for s in ctx.question.scenes), None) if crs == "image" else None
        out = Measured(source, scene, scene.grid if scene else None, _gsd(ctx, source, scene) if scene else source.gsd_m,
                       features=found, properties=properties, crs=crs)
        out.accuracy = accuracy_of(source.name, found, crs, source.accuracy_m)
        if region is not None:
            _keep_inside(out, region, region_crs)
        return out
    if source.vector:
        found, properties, crs = vector_of(ctx.layers, source.vector)
        require_axes(ctx.question.scenes, found, crs, source.name)
        _tell_of_file(ctx, source.vector, source.name)
        said = next((v.accuracy_m for v in ctx.question.vectors if v.artifact == source.vector), None)
        accuracy = accuracy_of(source.name, found, crs, said if source.accuracy_m is None else source.accuracy_m)
        properties = [{**p, NUMBER: i} for i, p in enumerate(properties, 1)]
        if source.part_field:
            is_chosen = chosen_by(source.part_field, source.part_values,
                                  limits_of_part(source.part_min, source.part_max, source.part_open))
            kept = [(g, p) for g, p in zip(found, properties, strict=True) if is_chosen(p)]
            if not kept:
                raise ModelError(f"{source.name}: no feature has such a value of {source.part_field}.", code="BAD_ARGUMENT")
            found, properties = [g for g, _ in kept], [p for _, p in kept]
        if source.only:
            kept = [(g, p) for g, p in zip(found, properties, strict=True) if str(p.get(source.name_field, "")) in source.only]
            lacking = set(source.only) - {str(p.get(source.name_field, "")) for _, p in kept}
            if lacking:
                raise ModelError(f"{source.name}: no feature is called {', '.join(sorted(lacking)[:5])}.", code="BAD_ARGUMENT")
            found, properties = [g for g, _ in kept], [p for _, p in kept]
        if source.without:
            kept = [(g, p) for g, p in zip(found, properties, strict=True)
                    if str(p.get(source.name_field, "")) not in source.without]
            found, properties = [g for g, _ in kept], [p for _, p in kept]
        kind: Any = "points" if all(g.geom_type in ("Point", "MultiPoint") for g in found) else "polygons"
        layer = LayerRef(kind=kind, artifact=source.vector, crs=crs, label=source.name[:120], n=len(found))
        ref = InputRef(artifact=source.vector, role="vector", name=source.name[:255], crs=crs)
        out = Measured(source, None, None, None, features=found, properties=properties, crs=crs, layer=layer, ref=ref,
                       accuracy=accuracy)
        if region is not None:
            _keep_inside(out, region, region_crs)
        return out
    if source.image is None:
        raise ModelError(f"The extent {source.name} names neither an image, a geometry nor a vector file.", code="BAD_ARGUMENT")
    scene = ctx.scene(source.image)
    gsd = _gsd(ctx, source, scene)
    frame = shapely.box(0, 0, scene.grid.width, scene.grid.height)
    out = Measured(source, scene, scene.grid, gsd, features=[frame], properties=[{}], ref=input_ref(scene))
    if region is not None:
        mask = RegionMask.of(region, region_crs, scene.grid, scene.name)
        assert mask.polygon is not None
        out.features = [mask.polygon.intersection(frame)]
    return out


# --- planes ----------------------------------------------------------------------------------------------------------------
class Plane:
    """A plane in metres: azimuthal equidistant about the middle of all sources (true to 1e-4 within 500 km), or pixels × GSD
    for pictures without CRS. ``lonlat`` leads back where there is a globe."""

    def __init__(self, sources: Sequence[Measured]):
        georeferenced = [s.is_georeferenced for s in sources]
        if any(georeferenced) and not all(georeferenced):
            raise ModelError("Some layers have a CRS and some do not; they cannot be measured against each other.",
                             code="NEEDS_CRS", needs={"crs": True})
        self.is_geodesic = all(georeferenced)
        self._forward: dict[str, Transformer] = {}
        self._back: Transformer | None = None
        if not self.is_geodesic:
            gsds = {s.gsd_m for s in sources}
            if None in gsds:
                raise ToolAbstainedError("The image has neither CRS nor GSD, so pixels have no length; say how many metres a "
                                         "pixel measures.", code="NEEDS_GSD", needs={"gsd_m": True})
            scenes = {s.scene.scene_id for s in sources if s.scene}
            if len(scenes) > 1:
                raise ModelError("Layers of different pictures without CRS have no common place.", code="NEEDS_CRS",
                                 needs={"crs": True})
            self.gsd_m = next(iter(gsds))
            return
        corners = []
        for s in sources:
            if s.crs != "image":
                t = transformer(s.crs, "EPSG:4326")
                for g in s.features or []:
                    x0, y0, x1, y1 = g.bounds
                    corners.append(t.transform((x0 + x1) / 2, (y0 + y1) / 2))
            elif s.grid is not None and s.grid.crs is not None:
                x, y = s.grid.xy(s.grid.width / 2, s.grid.height / 2)
                corners.append(transformer(s.grid.crs, "EPSG:4326").transform(x, y))
        angles = np.radians([c[0] for c in corners])
        lon = math.degrees(math.atan2(float(np.sin(angles).mean()), float(np.cos(angles).mean())))
        lat = float(np.mean([c[1] for c in corners]))
        self.text = f"+proj=aeqd +lat_0={lat:.8f} +lon_0={lon:.8f} +datum=WGS84 +units=m"
        self.gsd_m = None
        self._back = transformer(self.text, "EPSG:4326")

    def place(self, source: Measured, geometry: BaseGeometry) -> BaseGeometry:
        """The geometry in metres of this plane."""
        if source.crs != "image":
            t = transformer(source.crs, self.text)
            return shapely.transform(_dense(geometry), lambda p: np.stack(t.transform(p[:, 0], p[:, 1]), axis=1))
        if not self.is_geodesic:
            gsd = self.gsd_m
            assert gsd is not None
            return shapely.transform(geometry, lambda p: np.stack([p[:, 0] * gsd, -p[:, 1] * gsd], axis=1))
        return shapely.transform(_dense(geometry), lambda p: self.place_px(source, p))

    def place_px(self, source: Measured, px: NDArray[np.float64]) -> NDArray[np.float64]:
        """Pixel coordinates (n, 2) of a source in metres of this plane."""
        if not self.is_geodesic:
            assert self.gsd_m is not None
            return np.stack([px[:, 0] * self.gsd_m, -px[:, 1] * self.gsd_m], axis=1)
        grid = source.grid
        assert grid is not None and grid.crs is not None
        a, b, c, d, e, f = grid.transform
        t = transformer(grid.crs, self.text)
        return np.stack(t.transform(a * px[:, 0] + b * px[:, 1] + c, d * px[:, 0] + e * px[:, 1] + f), axis=1)

    def lonlat(self, x: float, y: float) -> tuple[float, float] | None:
        if self._back is None:
            return None
        lon, lat = self._back.transform(x, y)
        return float(lon), float(lat)


def _dense(geometry: BaseGeometry) -> BaseGeometry:
    x0, y0, x1, y1 = geometry.bounds
    span = max(x1 - x0, y1 - y0)
    return shapely.segmentize(geometry, span / 16) if span > 0 else geometry


# --- masks as shapes -------------------------------------------------------------------------------------------------------
def pieces(mask: NDArray[np.bool_]) -> tuple[NDArray[np.int32], int]:
    """(labels, n) of the 8-connected pieces of a mask."""
    labels, n = ndimage.label(mask, structure=np.ones((3, 3)))
    return labels.astype(np.int32), int(n)


def polygons_of_pieces(labels: NDArray[np.int32], n: int) -> list[BaseGeometry]:
    """The pieces as exact polygons of pixel outlines, in pixel coordinates. ModelError where the mask is too ragged."""
    if n == 0:
        return []
    padded = np.zeros((labels.shape[0], labels.shape[1] + 2), dtype=labels.dtype)
    padded[:, 1:-1] = labels
    change = np.diff(padded, axis=1) != 0
    # a run starts where the label differs from the left neighbour and is not background, and ends likewise
    starts = np.argwhere(change & (padded[:, 1:] != 0))
    ends = np.argwhere(change & (padded[:, :-1] != 0))
    if len(starts) > MAX_RUNS:
        raise ModelError(f"The mask is too ragged to be measured as shapes ({len(starts)} runs of pixels); give a region, or "
                         "drop small pieces by min_px.", code="TOO_LARGE")
    number = labels[starts[:, 0], starts[:, 1]]
    boxes = shapely.box(starts[:, 1], starts[:, 0], ends[:, 1], starts[:, 0] + 1)
    order = np.argsort(number, kind="stable")
    bounds = np.searchsorted(number[order], np.arange(1, n + 2))
    return [shapely.union_all(boxes[order[bounds[i]:bounds[i + 1]]]) for i in range(n)]


def corner_points(labels: NDArray[np.int32]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """(points (k, 2) in pixels, piece of each) of the corners of all pixels on the outline of the pieces."""
    inner = np.zeros(labels.shape, dtype=bool)
    inner[1:-1, 1:-1] = ((labels[1:-1, 1:-1] != 0) & (labels[:-2, 1:-1] != 0) & (labels[2:, 1:-1] != 0)
                         & (labels[1:-1, :-2] != 0) & (labels[1:-1, 2:] != 0))
    r, c = np.nonzero((labels != 0) & ~inner)
    number = labels[r, c]
    points = np.concatenate([np.stack([c + i, r + j], axis=1) for i in (0, 1) for j in (0, 1)]).astype(np.float64)
    return points, np.tile(number, 4)


def to_features(source: Measured) -> None:
    """A mask becomes its pieces, as polygons in pixels; features stay."""
    if source.mask is not None:
        labels, n = pieces(source.mask)
        source.features, source.mask, source.crs = polygons_of_pieces(labels, n), None, "image"
        source.properties = [{NUMBER: i} for i in range(1, n + 1)]


def needs_length(subject: Measured) -> None:
    """ToolAbstainedError where nothing gives the pixels of a layer a length."""
    if not subject.is_georeferenced and subject.gsd_m is None:
        raise ToolAbstainedError("The image has neither CRS nor GSD, so pixels have no size on the ground; say how many metres a "
                                 "pixel measures. A count or a share works without it.", code="NEEDS_GSD", needs={"gsd_m": True})
