"""Every operator of ``execute``: a right result passes the checks that look at it, and each part of it that is falsified after
the tool ran is seen by one of them. What no check follows stands in ``NOT_FOLLOWED``, with the reason."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from apps.core.evidence.observation import LayerRef, Observation
from apps.tools.execute.operators import OPERATORS
from apps.tools.execute.retrievals import RETRIEVALS
from apps.verification.checks import Case, Limits, run_checks
from apps.verification.checks.document import NOT_FOLLOWED
from tests.unit.tools import test_operator_matrix as matrix
from tests.unit.tools.rasters import Bench, MemoryReader, scene
from tests.unit.verification.samples_new import landsat

IDS = [str(c.id) for c in matrix.CASES]
REGION = {"type": "Polygon", "coordinates": [[[3, 4], [50, 6], [44, 40], [6, 41], [3, 4]]]}
NEW = ("value", "share", "area_m2", "solution", "longitude", "n_px", "mean", "n", "west")


def rows_of(case: str) -> list[Any]:
    found: Any = next(c.values[1] for c in matrix.CASES if c.id == case)
    return list(found)


def needed(nodes: list[Any]) -> list[Any]:
    """Of a graph the nodes that its output rests on."""
    by_name = {n[0]: n for n in nodes}
    todo, keep = ["out"], set()
    while todo:
        at = todo.pop()
        if at not in keep:
            keep.add(at)
            todo += by_name[at][2]
    return [n for n in nodes if n[0] in keep]


def scenes_of(nodes: list[Any], **more: Any) -> list[Any]:
    used = {n[3].get("scene") for n in nodes if n[1] == "asset.scene"}
    made = []
    for info, pixels in matrix.all_dates(**more):
        if not used or info.scene_id in used:
            digest = hashlib.sha256(info.model_dump_json().encode() + pixels.tobytes()).hexdigest()
            made.append((info.model_copy(update={"artifact": f"sha256:{digest}"}), pixels))
    return made


@lru_cache(maxsize=1)
def made_of(case: str) -> tuple[Observation, Bench] | None:
    """The observation of a row of the matrix; None where the row is a refusal."""
    nodes = needed(rows_of(case))
    bench = Bench(*scenes_of(nodes))
    found = bench.execute(nodes, "out")
    return (found, bench) if found.status.state == "ok" else None


def failing(observation: Observation, bench: Bench, limits: Limits | None = None) -> set[str]:
    scenes = {s.scene_id: s for s in bench.question.scenes}

    def reader(scene_id: str) -> MemoryReader:
        return MemoryReader(scenes[scene_id], bench.stored[scene_id])

    results, _ = run_checks(Case(observation, bench.question, (), (), (), bench.layers, reader, limits or Limits()))
    return {c.check for c in results if c.outcome in ("failed", "errored")}


def instead(observation: Observation, **result: Any) -> Observation:
    return observation.model_copy(update={"result": observation.result.model_copy(update=result)})


def told(observation: Observation, node: str, **figures: Any) -> Observation:
    """The same observation whose record says other figures of a node."""
    nodes: Any = observation.evidence.intermediate["nodes"]
    changed = [{**n, **figures} if n["id"] == node else n for n in nodes]
    evidence = observation.evidence.model_copy(update={"intermediate": {**observation.evidence.intermediate, "nodes": changed}})
    return observation.model_copy(update={"evidence": evidence})


def falsified_layer(bench: Bench, ref: LayerRef) -> tuple[LayerRef, dict[str, Any]]:
    """(another layer, its figures): a mask or class map with a wrong square, a raster 15 % too high, a picture shifted."""
    kept = bench.layers.kept[ref.artifact]
    place: dict[str, Any] = {"label": ref.label, "scene_id": ref.source_scene_id}
    grid = ref.grid or matrix.PLAIN
    if ref.kind == "mask":
        mask, valid = kept[0].copy(), kept[1]
        mask[5:25, 5:25] = ~mask[5:25, 5:25]
        return bench.layers.put_mask(mask, valid, grid, **place), {"n_true": int((mask & valid).sum())}
    if ref.kind == "classes":
        classes, valid, names = kept[0].copy(), kept[1], kept[2]
        classes[5:25, 5:25] = np.where(classes[5:25, 5:25] == 1, 2, 1)
        seen = classes[valid].astype(float)
        figures = {"min": seen.min(), "max": seen.max(), "mean": seen.mean()}
        return bench.layers.put_classes(classes, valid, grid, names, **place), figures
    if ref.kind == "raster":
        data = np.where(kept.valid, kept.data * 1.15 + 0.02 * np.nanmax(np.abs(np.where(kept.valid, kept.data, 0))), kept.data)
        seen = data[kept.valid].astype(float)
        figures = {"min": seen.min(), "max": seen.max(), "mean": seen.mean()}
        return bench.layers.put_raster(replace(kept, data=data), **place), figures
    return bench.layers.put_image(np.roll(kept, 7, axis=1), ref.grid or matrix.PLAIN.model_copy(update={
        "width": kept.shape[1], "height": kept.shape[0]}), form="geotiff" if ref.grid else "png", **place), {}


def falsified(observation: Observation, bench: Bench) -> dict[str, Observation]:
    """What can be falsified after the tool ran, one thing at a time. A value is falsified in its node's record too."""
    out: dict[str, Observation] = {}
    result = observation.result
    if isinstance(result.value, (int, float)) and not isinstance(result.value, bool):
        wrong = result.value * 1.15 + 0.02 if isinstance(result.value, float) else result.value + 3
        out["value"] = told(instead(observation, value=wrong), "out", value=wrong)
    if result.items:
        first = dict(result.items[0])
        name = next((k for k in NEW if isinstance(first.get(k), (int, float))), None)
        if name is not None:
            number = first[name]
            first[name] = number * 1.15 + 0.02 if isinstance(number, float) else int(number) + 3  # type: ignore[operator, arg-type]
            out["item"] = instead(observation, items=(first, *result.items[1:]))
    if result.layers:
        ref = result.layers[0]
        new, figures = falsified_layer(bench, ref)
        wrong_layer = instead(observation, layers=(new, *result.layers[1:]))
        out["layer"] = wrong_layer
        nodes: Any = observation.evidence.intermediate["nodes"]
        if figures and "mean" in next(n for n in nodes if n["id"] == "out"):
            out["layer and its record"] = told(wrong_layer, "out", **figures)
    nodes = observation.evidence.intermediate["nodes"]
    record = dict(next(n for n in nodes if n["id"] == "out"))
    if record["op"] == "image.colours":
        out["record"] = told(observation, "out", low=float(record["low"]) * 1.15 + 0.02)
    elif "drawn" in record:
        out["record"] = told(observation, "out", drawn=[{**record["drawn"][0], "n_px": 7}, *record["drawn"][1:]])
    return out


@pytest.mark.parametrize(("scale", "statistic"), [("amplitude", "mean"), ("power", "mean"), ("dB", "median")])
def test_figures_of_known_amplitudes_are_looked_at_again(scale: str, statistic: str) -> None:
    from tests.unit.tools.rasters import scene

    info, stored = scene(np.random.default_rng(5).gamma(2.0, 30, (1, 60, 70)).astype(np.float32), ["vv"])
    info = info.model_copy(update={"bands": (info.bands[0].model_copy(update={"is_amplitude": True}),)})
    bench = Bench((info, stored))
    observation = bench.execute([
        ("s1", "asset.scene", (), {"scene": info.scene_id}),
        ("x", "raster.product.amplitude", ["s1"], {"role": "vv", "scale": scale}),
        ("out", "raster.summarize.statistic", ["x"], {"statistic": statistic}),
    ], "out")  # fmt: skip
    assert observation.status.state == "ok", observation.status.reason
    right = failing(observation, bench)
    assert not right, right
    wrong = told(instead(observation, value=observation.result.value * 1.15), "out", value=observation.result.value * 1.15)
    assert failing(wrong, bench) - right


@pytest.mark.parametrize("case", IDS)
def test_what_is_falsified_after_the_tool_ran_is_seen(case: str) -> None:
    made = made_of(case)
    if made is None:
        assert case.startswith("raster.product.amplitude"), case  # real samples are refused
        return
    observation, bench = made
    right = failing(observation, bench)
    op = case.rsplit("-", 1)[0]
    for what, wrong in falsified(observation, bench).items():
        seen = failing(wrong, bench) - right
        if (op, what) in NOT_FOLLOWED:
            assert not seen, f"{op} {what} is followed now: {seen}"
        else:
            assert seen, f"no check sees that the {what} of {case} is falsified"


def test_every_operator_has_a_fault_that_is_seen() -> None:
    """A refusal apart, no row is without a falsification that a check must see."""
    seen = set()
    for case in IDS:
        made, op = made_of(case), case.rsplit("-", 1)[0]
        if made is None or any((op, what) not in NOT_FOLLOWED for what in falsified(*made)):
            seen.add(op)
    assert seen == set(OPERATORS)
    assert {op for op, _ in NOT_FOLLOWED} <= set(OPERATORS) and len(NOT_FOLLOWED) <= 3


# a plausible span of what each unit holds
SPANS = {"K": (240, 300), "reflectance": (0.05, 0.14), "DN": (7000, 30000), "W/m2/sr/um": (7, 11), "1": (0.9, 0.99)}
GIVEN = {"gain": 3e-4, "offset": 0.1, "sun_elevation": 50.0, "esun": 1500.0, "dark": 0.04, "a0": 1.0, "a1": 0.5, "a2": 0.3,
         "a3": 0.2, "rn": 500.0, "g": 60.0, "rnd": 450.0, "gd": 90.0, "ta": 280.0, "tsd": 320.0, "background": 230.0}


@pytest.mark.parametrize("name", sorted(RETRIEVALS))
def test_what_is_falsified_of_each_retrieval_is_seen(name: str) -> None:
    found, noise = RETRIEVALS[name], np.random.default_rng(7)
    scenes, nodes = [], []
    for variable, unit in found.inputs.items():
        info, planes = scene(noise.uniform(*SPANS[unit], (1, 40, 40)), ["thermal1"], unit=unit, scene_id=variable)
        scenes.append((info, planes))
        nodes += [(f"of_{variable}", "asset.scene", (), {"scene": variable}),
                  (variable, "raster.product.band", [f"of_{variable}"], {"role": "thermal1"})]
    needed = {k: GIVEN[k] for k, v in found.coefficients.items() if v is None}
    bench = Bench(*scenes)
    observation = bench.execute([*nodes, ("out", "raster.product.retrieval", list(found.inputs), {
        "name": name, "coefficients": needed})])
    assert observation.status.state == "ok", observation.status.reason
    right = failing(observation, bench)
    assert not {c for c in right if c.startswith("consistency.")}
    for what, wrong in falsified(observation, bench).items():
        assert failing(wrong, bench) - right, f"no check sees that the {what} of {name} is falsified"


PLACES = [{}, {"grid": matrix.DEGREES}, {"grid": matrix.TURNED}, {"grid": matrix.PLAIN}]
LOOKS = [Limits(), Limits(dense_look_px=800), Limits(full_look_px=1000, dense_look_px=800, look_window_px=16)]


@pytest.mark.parametrize("case", IDS)
def test_right_results_pass_on_every_grid_in_a_region_and_seen_in_part(case: str) -> None:
    nodes = needed(rows_of(case))
    for place in PLACES:
        for region in (None, REGION):
            bench = Bench(*scenes_of(nodes, **place), region=region, region_crs="image")
            found = bench.execute(nodes, "out")
            if found.status.state != "ok":
                continue
            for limits in LOOKS:
                wrong = {c for c in failing(found, bench, limits) if c.startswith("consistency.")}
                assert not wrong, (place, region, limits.full_look_px, limits.dense_look_px, wrong)


LARGE = [
    ("raster.summarize.statistic", "i", {"statistic": "mean"}),
    ("raster.summarize.histogram", "i", {}),
    ("raster.summarize.class_areas", "c", {}),
    ("raster.product.focal", "i", {}),
]


@pytest.mark.parametrize(("op", "of", "params"), LARGE)
def test_layers_of_large_scenes_hold_a_part_of_the_pixels_and_pass(op: str, of: str, params: dict[str, Any]) -> None:
    info, pixels = landsat()
    tiled = np.tile(pixels, (1, 10, 10))
    grid = info.grid.model_copy(update={"width": tiled.shape[2], "height": tiled.shape[1]})
    digest = "sha256:" + hashlib.sha256(tiled.tobytes()).hexdigest()
    bench = Bench((info.model_copy(update={"grid": grid, "artifact": digest}), tiled))
    nodes = [("s1", "asset.scene", (), {"scene": "s"}), ("i", "raster.product.index", ("s1",), {"index": "ndvi"}),
             ("c", "raster.product.classify", ("i",), {"preset": "ndvi_cover"}), ("out", op, (of,), params)]
    observation = bench.execute(nodes, "out")
    kept = observation.result.layers[0].grid
    assert kept is not None and kept.width < grid.width and kept.width * kept.height > 1_000_000
    assert not {c for c in failing(observation, bench) if c.startswith("consistency.")}
    higher, _ = falsified_layer(bench, observation.result.layers[0])
    if higher.kind == "raster":
        assert "consistency.layer_agrees_with_figures" in failing(instead(observation, layers=(higher,)), bench)
