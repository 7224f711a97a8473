"""Observations for the tests of the checks: made by the real tools over windows of shipped imagery (``REAL`` names the file and
the window of each array of pixels), or written out over such a window as other agents' are."""

from __future__ import annotations

import copy
import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.digests import digest_bytes
from apps.core.evidence.observation import InputRef, LayerRef, Observation, TaskRef
from apps.core.evidence.plan import Plan, Question
from apps.core.geo.bands import FillRule
from apps.core.geo.scene import SceneInfo
from apps.verification.checks import Case, Limits
from tests.unit.tools.rasters import UTM, Bench, MemoryReader, from_file, scene

NOW = datetime(2024, 5, 1, tzinfo=UTC)
ROLES = ("blue", "green", "red", "nir")
SHIPPED = Path(__file__).resolve().parents[3] / "apps" / "imagery" / "samples"
HERE = Path(__file__).resolve().parent / "data"
FISHBOURNE = SHIPPED / "geopandas_s2a_l2a_fishbourne.tif"
CROWNS = SHIPPED / "OSBS_029.tif"
STREET = SHIPPED / "riotiler_hro_colorado_26913.tif"
CLOUDY = HERE / "landsat8_cloudy_window.tif"
RGB = ("red", "green", "blue")

Window = tuple[int, int, int, int]
# digest of an array of pixels → the shipped file and the window (column, row, width, height) that it was cut from
REAL: dict[str, tuple[Path, Window]] = {}


@lru_cache
def _whole(path: Path) -> tuple[SceneInfo, NDArray[Any]]:
    return from_file(path, {})


def cut(path: Path, roles: Sequence[str], at: Window | None = None, **facts: Any) -> tuple[SceneInfo, NDArray[Any]]:
    """A window of a shipped file, all of its bands, as a scene whose bands have these roles; ``facts`` as of ``scene``."""
    info, stored = _whole(path)
    col, row, width, height = at or (0, 0, info.grid.width, info.grid.height)
    pixels = np.ascontiguousarray(stored[:, row : row + height, col : col + width])
    made, _ = scene(pixels, roles, **facts)
    REAL[made.artifact] = (path, (col, row, width, height))
    return made.model_copy(update={"grid": info.grid.window(col, row, width, height)}), pixels


@lru_cache
def _shipped() -> dict[str, tuple[Path, Window]]:
    """The shipped files as they are, for samples that use one whole."""
    found = {}
    for path in sorted([*SHIPPED.rglob("*.tif"), *SHIPPED.rglob("*.jp2")]):
        info, stored = from_file(path, {})
        found[digest_bytes(stored.tobytes())] = (path, (0, 0, info.grid.width, info.grid.height))
    return found


COAST: Window = (60, 40, 80, 60)  # fields and sea near Fishbourne, and a corner of the fill that the file doesn't declare


def optical(scene_id: str = "s", *, date: str | None = "2024-04-02", **more: Any) -> tuple[SceneInfo, NDArray[Any]]:
    """The coast: Sentinel-2 reflectances × 10,000 with undeclared zeros. The file has no date, a question gives one."""
    _, stored = _whole(FISHBOURNE)
    zeros = (stored[:, COAST[1] : COAST[1] + COAST[3], COAST[0] : COAST[0] + COAST[2]] == 0).all(axis=0)
    rules = [FillRule(kind="all_bands_equal", value=0, share=float(zeros.mean()))]
    info, pixels = cut(
        FISHBOURNE, ROLES, COAST, scene_id=scene_id, unit="reflectance", scale=1e-4, date=date, fill=rules, **more
    )
    return info.model_copy(update={"valid_share": float(1 - zeros.mean())}), pixels


def ndvi_of(stored: NDArray[Any], red: int = 2, nir: int = 3) -> NDArray[np.float64]:
    """NDVI of stored values (bands, rows, columns) whose scale is the same in both bands; NaN where all bands are zero."""
    pixels = stored.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((stored == 0).all(axis=0), np.nan, (pixels[nir] - pixels[red]) / (pixels[nir] + pixels[red]))


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

    @property
    def sources(self) -> list[tuple[Path, Window] | None]:
        """For each scene the shipped file and the window that its pixels are; None where they are of no file."""
        digests = [digest_bytes(pixels.tobytes()) for pixels in self.bench.stored.values()]
        return [REAL.get(d) or _shipped().get(d) for d in digests]

    @property
    def is_of_the_tools(self) -> bool:
        """Whether the project's own tools made the observation (before something in it was falsified)."""
        return self.observation.provenance.revision == "test"

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


BEFORE, AFTER = (SHIPPED / f"landsat7_p15r32_{day}.tif" for day in ("2002-07-20", "2002-11-25"))
LANDSAT7 = ("blue", "green", "red", "nir", "swir1", "swir2", "thermal1", "thermal2")
VALLEY: Window = (100, 100, 80, 60)


def kelvin(counts: NDArray[Any]) -> NDArray[np.float64]:
    """Brightness temperature of Landsat 7's low-gain thermal counts: constants of the Landsat 7 handbook, table 9.2 and 11.5."""
    radiance = 0.067087 * counts.astype(np.float64) - 0.06709
    return np.asarray(1282.71 / np.log(666.09 / radiance + 1))


@lru_cache
def temperature() -> Sample:
    """The thermal band of July as brightness temperature, kept in hundredths of a kelvin as products of temperature are."""
    info, held = cut(BEFORE, LANDSAT7, VALLEY)
    stored = np.round(kelvin(held[6:7]) * 100).astype(np.uint16)
    made, _ = scene(stored, ("thermal1",), unit="K", scale=0.01)
    REAL[made.artifact] = REAL[info.artifact]
    return ask(
        Bench((made.model_copy(update={"grid": info.grid}), stored)),
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


DAYS = ("2013-09-14", "2013-10-16", "2013-11-17", "2013-12-19", "2014-01-17")


def _dated() -> Bench:
    """Five months of MODIS NDVI at Sinop, from the sowing of soy to its harvest."""
    return Bench(
        *(
            cut(
                SHIPPED / "mod13q1_sinop" / f"TERRA_MODIS_012010_NDVI_{day}.jp2", ("ndvi",), (80, 40, 80, 60),
                scene_id=f"d{k}", date=day, unit="1", scale=1e-4, valid_range=(-2000, 10000),
                fill=[FillRule(kind="outside_range", source="profile")],
            )
            for k, day in enumerate(DAYS)
        )
    )  # fmt: skip


def _series(op: str, params: dict[str, Any]) -> dict[str, Any]:
    nodes: list[Any] = []
    for k in range(len(DAYS)):
        nodes += [
            (f"a{k}", "asset.scene", (), {"scene": f"d{k}"}),
            (f"b{k}", "raster.product.band", (f"a{k}",), {"role": "ndvi"}),
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
    pair = (("a", BEFORE, "2002-07-20"), ("b", AFTER, "2002-11-25"))
    return ask(
        Bench(*(cut(path, LANDSAT7, VALLEY, scene_id=i, date=day) for i, path, day in pair)),
        "What is the mean NDVI change from July to November?",
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


NDWI_ABOVE_0 = {"kind": "index_threshold", "index": "ndwi", "threshold": 0.0, "side": "above"}


def water_by(**method: Any) -> dict[str, Any]:
    """The call that finds water in scene s by a method."""
    return {
        "image_paths": ["s"],
        "objective": "water",
        "mode": "regions",
        "target_groups": {"water": ["water"]},
        "regions_method": method,
    }


@lru_cache
def water() -> Sample:
    return ask(
        Bench(optical()),
        "How many hectares of water are there?",
        "area",
        "perceive",
        water_by(**NDWI_ABOVE_0),
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


@lru_cache
def crowns() -> tuple[Window, ...]:
    """The corners of the 61 crowns that were drawn by hand in the picture of Ordway-Swisher."""
    with (HERE / "OSBS_029.csv").open() as file:
        return tuple((int(r["xmin"]), int(r["ymin"]), int(r["xmax"]), int(r["ymax"])) for r in csv.DictReader(file))


def trees(score: float | None = None) -> list[dict[str, Any]]:
    """The crowns as a detector would hand them over, with rising scores or with this one."""
    return [box(*c, score=round(0.5 + 0.005 * k, 3) if score is None else score) for k, c in enumerate(crowns())]


def photo() -> Bench:
    """A forest at 10 cm."""
    return Bench(cut(CROWNS, RGB))


@lru_cache
def found() -> Sample:
    """The trees that the project's own finder of crowns finds."""
    call = {
        "image_paths": ["s"],
        "objective": "trees",
        "mode": "objects",
        "target_groups": {"tree": ["tree", "tree crown"]},
        "objects_method": {"score_threshold": 0.25},
    }
    return ask(photo(), "How many trees are there?", "integer", "perceive", call)


def found_boxes() -> list[dict[str, Any]]:
    """What it finds: 55 boxes with their scores."""
    ref = found().observation.result.layers[0]
    held = [f["properties"] for f in found().bench.layers.read_features(ref)]
    return [scored(p["box"], p["score"]) for p in held]


def scored(corners: Sequence[float], score: float) -> dict[str, Any]:
    x0, y0, x1, y1 = corners
    return box(x0, y0, x1, y1, score=score)


def found_instead(features: list[dict[str, Any]]) -> Sample:
    """``found``, whose boxes are these; the counts on its record follow."""
    made = found()
    ref = made.bench.layers.put_features(features, kind="boxes", crs="image", label="tree", scene_id="s")
    return made.but(
        {
            "/result/layers/0": ref.model_dump(mode="json"),
            "/evidence/intermediate/scores": [f["properties"]["score"] for f in features],
            "/evidence/intermediate/kept": len(features),
            "/evidence/intermediate/candidates": len(features) + 3,
        }
    )


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
            "objects_method": {"score_threshold": 0.4, "iou_threshold": 0.5, "tile_px": 256, "overlap": 0.2},
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
            "passes": [{"zoom": 1.0, "tile_px": 256, "tiles": 4, "tiles_empty": 0}],
        },
        validity={"layer_status": "complete", "class_complete": True, "geometry_valid": True, "applicability": {"ok": True}},
        layers=[kept, weak],
    )
    return made.but(changes) if changes else made


@lru_cache
def counted() -> Sample:
    """measure count over ``found``."""
    first = found()
    call = {
        "sources": [{"name": "tree", "mode": "objects", "layer": {"observation": first.observation.id, "label": "tree"}}],
        "spec": {"metric": "count", "subject": "tree"},
    }
    return ask(first.bench, "How many trees are there?", "integer", "measure", call, [first.observation])


ASKED_OF_WATER = {
    "area": ("area", "How many hectares of water are there?"),
    "ratio": ("share", "What share of the area is water?"),
    "boolean": ("boolean", "Is there any water?"),
    "count": ("integer", "How many water bodies are there?"),
}


@lru_cache
def measured(metric: str) -> Sample:
    """measure area, ratio, boolean or count over the mask of ``water``."""
    first = water()
    form, question = ASKED_OF_WATER[metric]
    call = {
        "sources": [{"name": "water", "mode": "regions", "layer": {"observation": first.observation.id, "label": "water"}}],
        "spec": {"metric": metric, "subject": "water", **({"unit": "ha"} if metric == "area" else {})},
    }
    return ask(first.bench, question, form, "measure", call, [first.observation])


# the street in Colorado: corners of what a person sees there, in pixels
CARS = ((129, 81, 144, 116), (151, 78, 165, 115), (172, 83, 187, 117), (192, 79, 206, 115))
HOUSES = ((138, 223, 191, 232), (238, 206, 317, 232), (342, 202, 383, 232))


def street() -> Bench:
    """Four cars on a traffic island, three roofs, at 15 cm."""
    return Bench(cut(STREET, RGB))


def nearest_m(bench: Bench) -> float:
    """Metres between the nearest house and car: the gaps of their boxes, by the sides of a pixel."""
    a, _, _, _, e, _ = bench.question.scenes[0].grid.transform
    gaps = [
        (max(h[0] - c[2], c[0] - h[2], 0) * abs(a), max(h[1] - c[3], c[1] - h[3], 0) * abs(e)) for h in HOUSES for c in CARS
    ]
    return float(min(np.hypot(x, y) for x, y in gaps))


@lru_cache
def apart() -> Sample:
    """measure distance from the nearest car to the nearest house: 32 columns and 91 rows of pixels. A person drew the boxes."""
    bench = street()
    put = bench.layers.put_features
    layers = {
        n: put([box(*c, n) for c in boxes], kind="boxes", crs="image", label=n, scene_id="s")
        for n, boxes in (("car", CARS), ("house", HOUSES))
    }
    first = objects([box(*c, "car") for c in CARS], bench).observation
    parent = first.model_copy(update={"result": first.result.model_copy(update={"layers": tuple(layers.values())})})
    call = {
        "sources": [{"name": n, "mode": "objects", "layer": {"observation": "o-1", "label": n}} for n in layers],
        "spec": {"metric": "distance", "subject": "car", "reference": "house", "distance_statistic": "minimum"},
    }
    return ask(bench, "How far is the nearest house from a car?", "distance", "measure", call, [parent])


def caption(text: str = "Crowns of trees over bare sand, with their shadows.") -> Sample:
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


def cloudy() -> Bench:
    """A window of Landsat 8 with its own quality band: a fifth of it lies under clouds."""
    info, pixels = cut(CLOUDY, ("red", "nir", "qa"), date="2024-04-02")
    bands = tuple(b.model_copy(update={"scheme": "landsat_precollection"}) if b.role == "qa" else b for b in info.bands)
    return Bench((info.model_copy(update={"bands": bands}), pixels))


@lru_cache
def watched(*, is_used: bool = True) -> Sample:
    """Mean NDVI without the pixels that the scene's quality band flags, or with them."""
    product = ("i", "raster.product.index", ("s1",), {"index": "ndvi", **({"quality_mask": "auto"} if is_used else {})})
    nodes = graph(S, product, ("out", "raster.summarize.statistic", ("i",), {"statistic": "mean"}))
    return ask(cloudy(), "What is the mean NDVI?", "number", "execute", nodes)


def flagged(day: str) -> Sample:
    """The same, on whose record the mask has a day."""
    return watched().but({"/evidence/validity/quality_mask": {"scene": "s", "band": 3, "acquired_at": day}})


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


def _outline(bench: Bench, corners: Sequence[tuple[float, float]], **properties: Any) -> dict[str, Any]:
    """A polygon in map coordinates, of corners (column, row) that were read off the picture."""
    grid = bench.question.scenes[0].grid
    ring = [list(map(float, grid.xy(c, r))) for c, r in [*corners, corners[0]]]
    return {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}, "properties": properties}


def _corners(x0: float, y0: float, x1: float, y1: float) -> list[tuple[float, float]]:
    return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


@lru_cache
def zoned() -> Sample:
    """Mean NDVI of two rectangles, as of a vector file: one on land, one in the sea."""
    bench = Bench(optical())
    fields = [_outline(bench, _corners(*ZONES[name]), name=name) for name in ZONES]
    ref = bench.layers.put_features(fields, kind="polygons", crs=UTM, label="fields.geojson")
    nodes = graph(
        S, NDVI, ("z", "vector.zones", (), {"vector": ref.artifact}),
        ("out", "raster.summarize.zonal", ("i", "z"), {"statistic": "mean", "pick": "max"}),
    )  # fmt: skip
    return ask(bench, "Which of the fields has the highest NDVI?", "class", "execute", nodes)


ZONES: dict[str, Window] = {"land": (5, 25, 20, 40), "sea": (40, 25, 55, 40)}
ROAD = ((36, 90), (55, 153), (118, 164), (178, 161), (246, 145), (315, 96), (383, 36))  # along the middle of the lower lane
ISLAND = ((105, 78), (109, 78), (109, 110), (209, 111), (232, 73), (264, 73), (275, 82), (269, 93), (252, 108), (227, 123),
          (192, 131), (142, 138), (104, 137), (82, 126), (78, 115))  # fmt: skip


@lru_cache
def near_the_road() -> Sample:
    """How many of the three roofs lie within 12 m of the middle of the road: two, at 9 m; the third at 15 m."""
    bench = street()
    grid = bench.question.scenes[0].grid
    roofs = [_outline(bench, _corners(*h)) for h in HOUSES]
    road = {"type": "LineString", "coordinates": [list(map(float, grid.xy(c, r))) for c, r in ROAD]}
    line = {"type": "Feature", "geometry": road, "properties": {}}
    put = bench.layers.put_features
    one, other = (put(f, kind="polygons", crs=str(grid.crs), label=n) for n, f in (("houses", roofs), ("road", [line])))
    call = {
        "sources": [
            {"name": "houses", "mode": "extent", "vector": one.artifact},
            {"name": "road", "mode": "extent", "vector": other.artifact},
        ],
        "spec": {"metric": "count", "subject": "houses", "reference": "road", "relation": "within", "distance_m": 12.0},
    }
    return ask(bench, "How many houses lie within 12 m of the road?", "integer", "measure", call)


def drawn_island() -> Sample:
    """measure area of a vector file: the outline of the traffic island."""
    bench = street()
    shape = _outline(bench, ISLAND)
    ref = bench.layers.put_features([shape], kind="polygons", crs=str(bench.question.scenes[0].grid.crs), label="island")
    call = {
        "sources": [{"name": "island", "mode": "extent", "vector": ref.artifact}],
        "spec": {"metric": "area", "subject": "island", "unit": "m2"},
    }
    return ask(bench, "How many m2 is the island?", "area", "measure", call)


@lru_cache
def none_so_green() -> Sample:
    """A zero that is one: no pixel's NDVI is above 0.99."""
    above = ("m", "raster.product.threshold", ("i",), {"op": ">", "value": 0.99})
    nodes = graph(S, NDVI, above, ("out", "raster.summarize.area", ("m",), {"unit": "ha"}))
    return ask(Bench(optical()), "How many hectares have NDVI above 0.99?", "area", "execute", nodes)


# Right observations of the project's own tools, of every kind: no check fails on them, and the judge accepts them.
HONEST = (
    mean, nir, temperature, area, share, region, series, lowest, trend, change, water, watched, found, counted, apart, zoned,
    near_the_road, drawn_island, *(partial(measured, metric) for metric in ("area", "ratio", "boolean")),
)  # fmt: skip
