"""Observations for the tests of the checks: made by the real tools over small rasters, or written out as other agents' are."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from apps.core.evidence.observation import InputRef, LayerRef, Observation, TaskRef
from apps.core.evidence.plan import Plan, Question
from apps.core.geo.bands import FillRule
from apps.core.geo.measures import area_of_mask_m2
from apps.core.geo.scene import SceneInfo
from apps.verification.checks import Case, Limits
from tests.unit.tools.rasters import Bench, MemoryReader, scene

NOW = datetime(2024, 5, 1, tzinfo=UTC)
ROLES = ("blue", "green", "red", "nir")


def planes(seed: int, height: int = 60, width: int = 80, fill_rows: int = 10, level: float = 1.0) -> NDArray[np.uint16]:
    """Stored reflectances × 10,000 of fields, a lake and ``fill_rows`` rows of undeclared zeros."""
    rng = np.random.default_rng(seed)
    out = rng.normal((600, 900, 800, 3200), (60, 80, 90, 500), (height, width, 4)).transpose(2, 0, 1)
    out[3] *= level
    out[:, 20:40, 10:35] = rng.normal((700, 800, 500, 200), 30, (20, 25, 4)).transpose(2, 0, 1)
    stored = np.clip(out, 1, 10000).astype(np.uint16)
    stored[:, :fill_rows] = 0
    return stored


def optical(
    scene_id: str = "s",
    seed: int = 1,
    *,
    date: str | None = "2024-04-02",
    level: float = 1.0,
    **more: Any,
) -> tuple[SceneInfo, NDArray[Any]]:
    info, stored = scene(
        planes(seed, level=level),
        ROLES,
        scene_id=scene_id,
        unit="reflectance",
        scale=1e-4,
        date=date,
        fill=[FillRule(kind="all_bands_equal", value=0, share=1 / 6)],
        **more,
    )
    return info.model_copy(update={"valid_share": 5 / 6}), stored


@dataclass
class Sample:
    """An observation with all that a check may look at."""

    observation: Observation
    bench: Bench
    history: tuple[Observation, ...] = ()
    rejected: tuple[Observation, ...] = ()
    supporting: tuple[Observation, ...] = ()
    question: Question | None = None
    has_reader: bool = True
    limits: Limits = field(default_factory=Limits)

    def case(self) -> Case:
        question = self.question or self.bench.question
        scenes = {s.scene_id: s for s in question.scenes}
        reader = (lambda i: MemoryReader(scenes[i], self.bench.stored[i])) if self.has_reader else None
        return Case(
            self.observation, question, self.history, self.rejected, self.supporting, self.bench.layers, reader, self.limits
        )

    def but(self, changes: dict[str, Any] | None = None, **fields: Any) -> Sample:
        """A copy whose observation differs at JSON pointers (``...`` removes), and whose other fields differ."""
        made = copy.copy(self)
        if changes:
            made.observation = patched(self.observation, changes)
        for name, value in fields.items():
            setattr(made, name, value)
        return made


def patched(observation: Observation, changes: dict[str, Any]) -> Observation:
    raw = observation.model_dump(mode="json")
    for pointer, value in changes.items():
        *path, last = pointer.strip("/").split("/")
        at: Any = raw
        for key in path:
            at = at[int(key)] if isinstance(at, list) else at[key]
        if value is ...:
            del at[last]
        elif isinstance(at, list):
            at[int(last)] = value
        else:
            at[last] = value
    return Observation.model_validate_json(__import__("json").dumps(raw))


def ask(bench: Bench, text: str, form: str, tool: str, arguments: dict[str, Any], parents: Sequence[Observation] = ()) -> Sample:
    """A question asked of the real tool."""
    bench.question = bench.question.model_copy(update={"text": text})
    task = TaskRef(task_type="index_statistic", question=text, answer_form=form)
    observation = bench.box.call(
        tool=tool, arguments=arguments, question=bench.question, plan=Plan(task=task), step=1, parents=parents
    )
    assert observation.status.state == "ok", observation.status.reason
    return Sample(observation, bench, tuple(parents), question=bench.question)


def graph(*nodes: tuple[str, str, Sequence[str], dict[str, Any]]) -> dict[str, Any]:
    listed = [{"id": i, "op": op, "inputs": list(inputs), "params": params} for i, op, inputs, params in nodes]
    return {"nodes": listed, "output": nodes[-1][0]}


S = ("s1", "asset.scene", (), {"scene": "s"})
NDVI = ("i", "raster.product.index", ("s1",), {"index": "ndvi"})
ABOVE = ("m", "raster.product.threshold", ("i",), {"op": ">", "value": 0.4})


@lru_cache
def mean() -> Sample:
    return ask(
        Bench(optical()),
        "What is the mean NDVI?",
        "number",
        "execute",
        graph(S, NDVI, ("out", "raster.summarize.statistic", ("i",), {"statistic": "mean"})),
    )


@lru_cache
def nir() -> Sample:
    return ask(
        Bench(optical()),
        "What is the mean of the nir band?",
        "number",
        "execute",
        graph(
            S,
            ("b", "raster.product.band", ("s1",), {"role": "nir"}),
            ("out", "raster.summarize.statistic", ("b",), {"statistic": "mean"}),
        ),
    )


@lru_cache
def temperature() -> Sample:
    stored = np.random.default_rng(4).normal(29000, 300, (1, 40, 40)).astype(np.uint16)
    return ask(
        Bench(scene(stored, ("thermal1",), unit="K", scale=0.01)),
        "What is the mean surface temperature?",
        "number",
        "execute",
        graph(
            S,
            ("b", "raster.product.band", ("s1",), {"role": "thermal1"}),
            ("out", "raster.summarize.statistic", ("b",), {"statistic": "mean"}),
        ),
    )


@lru_cache
def area() -> Sample:
    return ask(
        Bench(optical()),
        "How many hectares have NDVI above 0.4?",
        "area",
        "execute",
        graph(S, NDVI, ABOVE, ("out", "raster.summarize.area", ("m",), {"unit": "ha"})),
    )


@lru_cache
def share() -> Sample:
    return ask(
        Bench(optical()),
        "What share has NDVI above 0.4?",
        "share",
        "execute",
        graph(S, NDVI, ABOVE, ("out", "raster.summarize.share", ("m",), {})),
    )


BOX = {"type": "Polygon", "coordinates": [[[20, 15], [60, 15], [60, 50], [20, 50], [20, 15]]]}


@lru_cache
def region() -> Sample:
    bench = Bench(optical(), region=BOX, region_crs="image")
    return ask(
        bench,
        "What is the mean NDVI in this region?",
        "number",
        "execute",
        {
            **graph(S, NDVI, ("out", "raster.summarize.statistic", ("i",), {"statistic": "mean"})),
            "region": BOX,
            "region_crs": "image",
        },
    )


DAYS = ("2024-01-10", "2024-02-09", "2024-03-10", "2024-04-09", "2024-05-09")


def _dated() -> Bench:
    return Bench(*(optical(f"d{k}", k + 10, date=day, level=1 - 0.1 * k) for k, day in enumerate(DAYS)))


def _series(op: str, params: dict[str, Any]) -> dict[str, Any]:
    nodes: list[Any] = []
    for k in range(len(DAYS)):
        nodes += [
            (f"a{k}", "asset.scene", (), {"scene": f"d{k}"}),
            (f"b{k}", "raster.product.index", (f"a{k}",), {"index": "ndvi"}),
        ]
    return graph(*nodes, ("out", op, [f"b{k}" for k in range(len(DAYS))], params))


@lru_cache
def series() -> Sample:
    return ask(
        _dated(),
        "What is the mean NDVI of the series?",
        "number",
        "execute",
        _series("raster.summarize.series", {"statistic": "mean"}),
    )


@lru_cache
def lowest() -> Sample:
    return ask(
        _dated(),
        "On which date is NDVI lowest?",
        "date",
        "execute",
        _series("raster.summarize.series", {"statistic": "mean", "pick": "min"}),
    )


@lru_cache
def trend() -> Sample:
    return ask(
        _dated(),
        "What is the trend of NDVI per year?",
        "number",
        "execute",
        _series("raster.summarize.trend", {"statistic": "mean", "method": "linear"}),
    )


@lru_cache
def change() -> Sample:
    bench = Bench(optical("a", 21, date="2024-01-10"), optical("b", 22, date="2024-07-10", level=0.6))
    return ask(
        bench,
        "What is the mean NDVI change from January to July?",
        "number",
        "execute",
        graph(
            ("s1", "asset.scene", (), {"scene": "a"}),
            ("s2", "asset.scene", (), {"scene": "b"}),
            ("i", "raster.product.index", ("s1",), {"index": "ndvi"}),
            ("j", "raster.product.index", ("s2",), {"index": "ndvi"}),
            ("d", "raster.product.difference", ("i", "j"), {}),
            ("out", "raster.summarize.statistic", ("d",), {"statistic": "mean"}),
        ),
    )


@lru_cache
def water() -> Sample:
    return ask(
        Bench(optical()),
        "How many hectares of water are there?",
        "area",
        "perceive",
        {
            "image_paths": ["s"],
            "objective": "water",
            "mode": "regions",
            "target_groups": {"water": ["water"]},
            "regions_method": {"kind": "index_threshold", "index": "ndwi", "threshold": 0.0, "side": "above"},
        },
    )


# --- observations as other agents would write them ----------------------------------------------------------------------------
def written(
    bench: Bench,
    tool: str,
    *,
    kind: str,
    value: Any = None,
    unit: str = "1",
    question: str,
    form: str = "number",
    task_type: str = "object_counting",
    arguments: dict[str, Any] | None = None,
    source: dict[str, Any],
    intermediate: dict[str, Any],
    validity: dict[str, Any],
    layers: Sequence[LayerRef] = (),
    coarse: str = "objects",
    parents: Sequence[Observation] = (),
    observation_id: str = "o-2",
    interval: tuple[float, float] | None = None,
    quantity: str = "",
) -> Sample:
    """An observation written out by hand, over the bench's first scene."""
    bench.question = bench.question.model_copy(update={"text": question})
    info = bench.question.scenes[0]
    raw = {
        "id": observation_id,
        "run_id": "r",
        "step": 1,
        "parents": [p.id for p in parents],
        "task": {"task_type": task_type, "question": question, "answer_form": form},
        "tool": tool,
        "configuration": {"coarse": coarse, "fine": f"{coarse}/auto"},
        "arguments": arguments or {},
        "arguments_passed": arguments or {},
        "status": {"state": "ok", "started_at": NOW.isoformat(), "elapsed_s": 0.1},
        "inputs": [
            InputRef(
                artifact=info.artifact,
                scene_id=info.scene_id,
                name=info.name,
                crs=info.grid.crs,
                gsd_m=info.effective_gsd_m,
                size_px=(info.grid.width, info.grid.height),
                acquired_at=info.acquired_at,
            ).model_dump(mode="json")
        ],
        "result": {
            "kind": kind,
            "value": value,
            "unit": unit,
            "quantity": quantity,
            "interval": interval,
            "layers": [layer.model_dump(mode="json") for layer in layers],
        },
        "evidence": {"source": source, "intermediate": intermediate, "validity": validity},
        "provenance": {"tool_version": "1.0"},
    }
    observation = Observation.model_validate_json(__import__("json").dumps(raw))
    return Sample(observation, bench, tuple(parents), question=bench.question)


def box(x0: float, y0: float, x1: float, y1: float, name: str = "tree", score: float = 0.8) -> dict[str, Any]:
    ring = [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]
    return {
        "type": "Feature",
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "properties": {"class": name, "score": score},
    }


def trees() -> list[dict[str, Any]]:
    """Sixteen crowns of 3 × 3 m at 10 cm in a grid, in an image of 200 × 160 pixels."""
    return [
        box(5 + 45 * i, 4 + 38 * j, 35 + 45 * i, 34 + 38 * j, score=0.5 + 0.02 * (4 * i + j)) for i in range(4) for j in range(4)
    ]


def photo() -> Bench:
    stored = np.random.default_rng(5).integers(20, 220, (3, 160, 200)).astype(np.uint8)
    info, pixels = scene(stored, ("red", "green", "blue"), pixel=0.1, unit="DN", crs="EPSG:32617", origin=(400000.0, 3280000.0))
    return Bench((info, pixels))


def objects(features: list[dict[str, Any]] | None = None, bench: Bench | None = None, **changes: Any) -> Sample:
    """perceive objects over the photo, with these features kept."""
    bench = bench or photo()
    features = trees() if features is None else features
    kept = bench.layers.put_features(features, kind="boxes", crs="image", label="tree", scene_id="s")
    weak = bench.layers.put_features(
        [box(100, 100, 120, 120, score=0.1)], kind="boxes", crs="image", label="candidates", scene_id="s"
    )
    scores = [f["properties"]["score"] for f in features]
    made = written(
        bench,
        "perceive",
        kind="layer",
        question="How many trees are there?",
        form="integer",
        observation_id="o-1",
        arguments={
            "image_paths": ["s"],
            "objective": "trees",
            "mode": "objects",
            "target_groups": {"tree": ["tree", "crown"]},
            "objects_method": {"score_threshold": 0.4, "iou_threshold": 0.5, "tile_px": 128, "overlap": 0.2},
        },
        source={
            "weights": [{"name": "crowns", "digest": "sha256:" + "a" * 64, "licence": "MIT"}],
            "thresholds": {"tree": 0.4},
            "sensor": "camera",
            "resolution_m": 0.1,
        },
        intermediate={
            "boxes": "layer tree",
            "scores": scores,
            "candidates": len(features) + 1,
            "kept": len(features),
            "passes": [{"zoom": 1.0, "tile_px": 128, "tiles": 4, "tiles_empty": 0}],
        },
        validity={"layer_status": "complete", "class_complete": True, "geometry_valid": True, "applicability": {"ok": True}},
        layers=[kept, weak],
    )
    return made.but(changes) if changes else made


def counted() -> Sample:
    """measure count over ``objects``."""
    first = objects()
    return written(
        first.bench,
        "measure",
        kind="count",
        value=16,
        question="How many trees are there?",
        form="integer",
        coarse="count",
        arguments={
            "sources": [{"name": "tree", "mode": "objects", "layer": {"observation": "o-1", "label": "tree"}}],
            "spec": {"metric": "count", "subject": "tree"},
        },
        interval=(14, 18),
        source={
            "layers": [{"name": "tree", "artifact": first.observation.result.layers[0].artifact}],
            "metric": "count",
            "unit": "1",
        },
        intermediate={"numerator": 16, "denominator": None, "n_px": None},
        validity={"layer_status": "complete", "class_complete": True},
        parents=[first.observation],
    )


def measured(metric: str) -> Sample:
    """measure area, ratio or boolean over the mask of ``water``."""
    first = water()
    ref = first.observation.layer("mask")
    assert ref is not None
    assert ref.grid is not None
    mask, valid = first.bench.layers.read_mask(ref)
    true, whole = area_of_mask_m2(mask, ref.grid).area_m2, area_of_mask_m2(valid, ref.grid).area_m2
    kind, value, unit, question = {
        "area": ("area", true / 1e4, "ha", "How many hectares of water are there?"),
        "ratio": ("ratio", true / whole, "1", "What share of the area is water?"),
        "boolean": ("boolean", True, "1", "Is there any water?"),
        "count": ("count", int(ndimage.label(mask, structure=np.ones((3, 3)))[1]), "1", "How many water bodies are there?"),
    }[metric]
    return written(
        first.bench,
        "measure",
        kind=kind,
        value=value,
        unit=unit,
        question=question,
        coarse=metric,
        task_type="area_measurement",
        form={"area": "area", "ratio": "share", "boolean": "boolean", "count": "integer"}[metric],
        arguments={
            "sources": [{"name": "water", "mode": "regions", "layer": {"observation": first.observation.id, "label": "water"}}],
            "spec": {"metric": metric, "subject": "water", "unit": unit, "of": "area"},
        },
        source={"layers": [{"name": "water", "artifact": ref.artifact}], "metric": metric, "unit": unit, "method": "grid"},
        intermediate={"numerator": value if metric == "count" else true, "denominator": whole, "n_px": int(mask.sum())},
        validity={"layer_status": "complete", "class_complete": True},
        parents=[first.observation],
    )


def apart(value: float = 4.5, unit: str = "m") -> Sample:
    """measure distance between two layers of boxes: 45 pixels of 10 cm apart."""
    bench = photo()
    one = bench.layers.put_features(
        [box(10, 10, 30, 30, "car"), box(10, 100, 30, 120, "car")], kind="boxes", crs="image", label="car", scene_id="s"
    )
    two = bench.layers.put_features(
        [box(75, 10, 100, 30, "house"), box(150, 100, 180, 120, "house")], kind="boxes", crs="image", label="house", scene_id="s"
    )
    first = objects(bench=bench)
    parent = first.observation.model_copy(update={"result": first.observation.result.model_copy(update={"layers": (one, two)})})
    return written(
        bench,
        "measure",
        kind="distance",
        value=value,
        unit=unit,
        question="How far is the nearest house from a car?",
        form="distance",
        task_type="distance_measurement",
        coarse="distance",
        arguments={
            "sources": [{"name": n, "mode": "objects", "layer": {"observation": "o-1", "label": n}} for n in ("car", "house")],
            "spec": {"metric": "distance", "subject": "car", "reference": "house", "distance_statistic": "minimum"},
        },
        source={
            "layers": [{"name": "car", "artifact": one.artifact}, {"name": "house", "artifact": two.artifact}],
            "metric": "distance",
            "unit": unit,
        },
        intermediate={"numerator": value, "denominator": None, "n_px": None},
        validity={"layer_status": "complete", "class_complete": True},
        parents=[parent],
    )


def caption(text: str = "A grid of tree crowns on bare ground.") -> Sample:
    """perceive evidence: a text."""
    return written(
        photo(),
        "perceive",
        kind="text",
        value=text,
        question="What does the image show?",
        form="text",
        task_type="image_caption",
        coarse="evidence",
        arguments={"image_paths": ["s"], "objective": "content", "mode": "evidence"},
        source={
            "weights": {"name": "captioner", "digest": "sha256:" + "b" * 64},
            "thresholds": {},
            "sensor": "camera",
            "resolution_m": 0.1,
        },
        intermediate={"features": "text", "candidates": 1, "kept": 1},
        validity={"layer_status": "complete", "class_complete": True, "geometry_valid": True},
    )


def watched(mask_day: str = "2024-04-02", *, is_used: bool = True) -> Sample:
    """execute over a scene with a quality band."""
    _, stored = optical()
    qa = np.zeros((1, *stored.shape[1:]), np.uint16)
    more, pixels = scene(np.concatenate([stored, qa]), (*ROLES, "qa"), unit="reflectance", scale=1e-4, date="2024-04-02")
    made = mean()
    bench = Bench((more, pixels))
    bench.layers = made.bench.layers
    bench.question = bench.question.model_copy(update={"text": made.observation.task.question})
    held = {"scene": "s", "band": 5, "acquired_at": mask_day} if is_used else None
    return Sample(patched(made.observation, {"/evidence/validity/quality_mask": held}), bench, question=bench.question)


def quotient() -> Sample:
    """execute value.calculate: one mean over another."""
    nodes: list[tuple[str, str, Sequence[str], dict[str, Any]]] = [S]
    for name, role in (("a", "nir"), ("b", "red")):
        nodes += [
            (f"r{name}", "raster.product.band", ("s1",), {"role": role}),
            (name, "raster.summarize.statistic", (f"r{name}",), {"statistic": "mean"}),
        ]
    nodes.append(("out", "value.calculate", ("a", "b"), {"expression": "a / b"}))
    return ask(Bench(optical()), "What is mean near infrared over mean red?", "number", "execute", graph(*nodes))


def _square(x: float, y: float, side: float, **properties: Any) -> dict[str, Any]:
    """A square with its lower left corner at x, y."""
    ring = [[x, y], [x + side, y], [x + side, y + side], [x, y + side], [x, y]]
    return {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}, "properties": properties}


@lru_cache
def zoned() -> Sample:
    """Mean NDVI of two fields of a vector file; one of them lies in the lake."""
    bench = Bench(optical())
    fields = [_square(600400, 5599650, 150, name="dry"), _square(600120, 5599650, 120, name="lake")]
    ref = bench.layers.put_features(fields, kind="polygons", crs="EPSG:32630", label="fields.geojson")
    nodes = graph(
        S, NDVI, ("z", "vector.zones", (), {"vector": ref.artifact}),
        ("out", "raster.summarize.zonal", ("i", "z"), {"statistic": "mean", "pick": "max"}),
    )  # fmt: skip
    return ask(bench, "Which of the fields has the highest NDVI?", "class", "execute", nodes)


@lru_cache
def near_the_road() -> Sample:
    """How many of three houses lie within 50 m of a road: two."""
    bench = Bench(optical())
    houses = [_square(600000 + 10 * k, 5600000 + d, 8.0) for k, d in enumerate((20.0, 45.0, 60.0))]
    road = {"type": "LineString", "coordinates": [[599900.0, 5600000.0], [600200.0, 5600000.0]]}
    line = {"type": "Feature", "geometry": road, "properties": {}}
    put = bench.layers.put_features
    one, other = (put(f, kind="polygons", crs="EPSG:32630", label=n) for n, f in (("houses", houses), ("road", [line])))
    call = {
        "sources": [
            {"name": "houses", "mode": "extent", "vector": one.artifact},
            {"name": "road", "mode": "extent", "vector": other.artifact},
        ],
        "spec": {"metric": "count", "subject": "houses", "reference": "road", "relation": "within", "distance_m": 50.0},
    }
    return ask(bench, "How many houses lie within 50 m of the road?", "integer", "measure", call)


def drawn_field() -> Sample:
    """measure area of a vector file: a square of 100 m in UTM."""
    bench = Bench(optical())
    ring = [[600000.0, 5600000.0], [600100.0, 5600000.0], [600100.0, 5600100.0], [600000.0, 5600100.0], [600000.0, 5600000.0]]
    shape = {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}, "properties": {}}
    ref = bench.layers.put_features([shape], kind="polygons", crs="EPSG:32630", label="field")
    call = {
        "sources": [{"name": "field", "mode": "extent", "vector": ref.artifact}],
        "spec": {"metric": "area", "subject": "field", "unit": "ha"},
    }
    return ask(bench, "How many hectares is the field?", "area", "measure", call)
