"""Provenance: the inputs are those of the question, layers and models are known, and no rejected call is repeated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.digests import digest_json, is_digest
from apps.core.geo.scene import SceneInfo
from apps.verification.case import Case, Finding, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.look import Look
from apps.verification.planes import CannotLookError


@check("inputs_of_the_task", catches=("another scene's result", "stale artifact"), reads=("/inputs",))
def inputs_of_the_task(case: Case) -> Finding:
    """Every input is a scene of the question, by its digest, a layer of the verified history, or a vector file that was asked
    for."""
    if not case.scenes or not case.observation.inputs:
        return not_applicable("no question, or no inputs on record")
    own = {s.artifact for s in case.scenes.values()}
    layers = {r.artifact for o in case.parents for r in o.result.layers} | _vectors_asked(case)
    for k, ref in enumerate(case.observation.inputs):
        scene = case.scenes.get(ref.scene_id or "")
        if scene is not None and ref.artifact != scene.artifact and ref.artifact not in layers:
            return failed(
                "The input's digest is not the one of its scene: other bytes were read.",
                measured=ref.artifact,
                expected=scene.artifact,
                at=(f"/inputs/{k}/artifact",),
            )
        if scene is None and ref.artifact not in own | layers:
            return failed(
                "The input is neither a scene of the question nor a layer of the verified history.",
                measured=ref.artifact,
                expected="an input of the task",
                at=(f"/inputs/{k}",),
            )
    return passed("All inputs belong to the task.", measured=len(case.observation.inputs), at=("/inputs",))


def _vectors_asked(case: Case) -> set[str]:
    """Digests of the vector files that the call names, as it was asked."""
    sources, nodes = case.observation.arguments.get("sources"), case.observation.arguments.get("nodes")
    held: list[Any] = list(sources) if isinstance(sources, list) else []
    held += [n.get("params") for n in nodes if isinstance(n, dict)] if isinstance(nodes, list) else []
    return {v for h in held if isinstance(h, dict) and isinstance(v := h.get("vector"), str) and v}


@check(
    "input_facts_as_scene",
    catches=("another scene's result", "reprojection to the wrong zone", "day for night"),
    reads=("/inputs",),
)
def input_facts_as_scene(case: Case) -> Finding:
    """Size, CRS and date on an input's record are its scene's."""
    seen = 0
    for k, ref in enumerate(case.observation.inputs):
        scene = case.scene_of(ref)
        if ref.role == "vector" and (crs := _crs_of_vector(case, ref.artifact)) and ref.crs not in (None, "", crs):
            return failed(
                "The input has another CRS than its file.",
                measured=str(ref.crs)[:80],
                expected=crs[:80],
                at=(f"/inputs/{k}/crs",),
            )
        grid = next((r.grid for p in case.parents for r in p.result.layers if r.artifact == ref.artifact), None)
        if grid is not None:
            if ref.size_px not in (None, (grid.width, grid.height)) or (grid.crs and ref.crs not in (None, "image", grid.crs)):
                return failed(
                    "The input is on another grid than the layer that it is.",
                    measured=[str(ref.crs)[:80], *(ref.size_px or ())],
                    expected=[str(grid.crs)[:80], grid.width, grid.height],
                    at=(f"/inputs/{k}",),
                )
            seen += 1
            continue
        if scene is None or ref.role in ("mask", "vector"):
            continue
        seen += 1
        if ref.size_px is not None and ref.size_px != (scene.grid.width, scene.grid.height):
            return failed(
                "The input is of another size than its scene.",
                measured=list(ref.size_px),
                expected=[scene.grid.width, scene.grid.height],
                unit="px",
                at=(f"/inputs/{k}/size_px",),
            )
        if ref.crs is not None and scene.grid.crs is not None and ref.crs not in ("image", scene.grid.crs):
            return failed(
                "The input has another CRS than its scene.",
                measured=ref.crs[:80],
                expected=scene.grid.crs[:80],
                at=(f"/inputs/{k}/crs",),
            )
        if ref.acquired_at is not None and scene.acquired_at is not None and ref.acquired_at != scene.acquired_at:
            return failed(
                "The input has another date than its scene.",
                measured=ref.acquired_at.isoformat(),
                expected=scene.acquired_at.isoformat(),
                at=(f"/inputs/{k}/acquired_at",),
            )
    return (
        passed("Inputs are described as their scenes are.", measured=seen, at=("/inputs",))
        if seen
        else not_applicable("no scenes")
    )


def _crs_of_vector(case: Case, digest: str) -> str:
    """The CRS of a kept vector file; '' where it is not at hand."""
    try:
        return str(case.layers.read_vector(digest)[1]) if case.layers is not None else ""
    except Exception:  # a file that is not at hand is another check's finding
        return ""


def _referenced(value: Any) -> list[tuple[str, str]]:
    """(observation id, label) that arguments refer to."""
    out: list[tuple[str, str]] = []
    todo = [value]
    while todo:
        at = todo.pop()
        if isinstance(at, dict):
            if isinstance(at.get("observation"), str):
                out.append((at["observation"], str(at.get("label") or "")))
            todo.extend(at.values())
        elif isinstance(at, list):
            todo.extend(at)
    return out


@check("parents_are_verified", catches=("stale artifact", "operand from nowhere"), reads=("/parents", "/arguments"))
def parents_are_verified(case: Case) -> Finding:
    """What the call refers to are its parents, and all of them are in the verified history."""
    named = {o for o, _ in _referenced(case.arguments)}
    parents = set(case.observation.parents)
    if not named and not parents:
        return not_applicable("no earlier observation is used")
    if named - parents:
        return failed(
            "The call refers to observations that are not its parents.",
            measured=sorted(named - parents)[:5],
            expected=sorted(parents)[:5],
            at=("/arguments", "/parents"),
        )
    if case.question is None:
        return not_applicable("the history is not at hand")
    known = {o.id for o in case.history}
    if parents - known:
        return failed(
            "A parent is not in the verified history: it was rejected or never judged.",
            measured=sorted(parents - known)[:5],
            expected="accepted observations",
            at=("/parents",),
        )
    return passed("All parents are verified.", measured=len(parents), at=("/parents",))


def layer_digests(case: Case) -> list[tuple[str, str]]:
    """(pointer, digest) of layers that the evidence names as sources."""
    out: list[tuple[str, str]] = []

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{path}/{key}")
        elif isinstance(value, list):
            for i, inner in enumerate(value):
                walk(inner, f"{path}/{i}")
        elif isinstance(value, str) and is_digest(value):
            out.append((path, value))

    walk(case.evidence("source", "layers"), "/evidence/source/layers")
    return out


@check(
    "layers_of_the_parents", catches=("stale artifact", "another scene's result"), reads=("/evidence/source/layers", "/parents")
)
def layers_of_the_parents(case: Case) -> Finding:
    """Layers that were measured are those of the parents as they stand in the verified history, by digest."""
    named = layer_digests(case)
    if case.observation.tool != "measure" or not case.parents or not named:
        return not_applicable("no layer of a parent is measured")
    held = {r.artifact for o in case.parents for r in o.result.layers} | {s.artifact for s in case.scenes.values()}
    held |= _vectors_asked(case)
    for pointer, digest in named:
        if digest not in held:
            return failed(
                "A layer was measured that is not one of the parents': an older one, or of another scene.",
                measured=digest,
                expected=sorted(held)[:5],
                at=(pointer, "/parents"),
            )
    return passed("The layers measured are the parents'.", measured=len(named), at=("/evidence/source/layers",))


@check("layers_at_hand", catches=("stale artifact",), reads=("/result/layers",))
def layers_at_hand(case: Case) -> Finding:
    """Layers of the result are in the store, under their digest, and of scenes of the question."""
    refs = case.observation.result.layers
    if not refs:
        return not_applicable("no layers")
    if case.layers is None:
        return inconclusive("No layer store is at hand; the layers cannot be looked at.", at=("/result/layers",), severity="warn")
    for k, ref in enumerate(refs):
        if case.scenes and ref.source_scene_id and ref.source_scene_id not in case.scenes:
            return failed(
                "A layer of the result is one of a scene that the question does not have.",
                measured=ref.source_scene_id[:80],
                expected="a scene of the question",
                at=(f"/result/layers/{k}/source_scene_id",),
            )
        try:
            case.layers.size(ref)
        except Exception:  # whatever a store raises for an artifact that it cannot give
            return failed(
                "A layer of the result is not in the store.",
                measured=ref.artifact[:80],
                expected="a stored artifact",
                at=(f"/result/layers/{k}/artifact",),
            )
    return passed("All layers are in the store.", measured=len(refs), at=("/result/layers",))


@check("weights_known", catches=("unknown model",), reads=("/evidence/source/weights",))
def weights_known(case: Case) -> Finding:
    """A detector's weights are named, with their digest."""
    value = case.evidence("source", "weights")
    if case.observation.tool != "perceive" or value is None:
        return not_applicable("no weights")
    listed = value if isinstance(value, list) else [value]
    entries = [v if isinstance(v, dict) else {"name": v} for v in listed]
    if not entries or any(str(e.get("name") or "").lower() in ("unknown", "none", "") for e in entries):
        return inconclusive("The weights have no name.", at=("/evidence/source/weights",))
    if not all(isinstance(e.get("digest") or e.get("sha256"), str) for e in entries):
        return inconclusive(
            "The weights' digest is not on record, so another run cannot be compared.",
            at=("/evidence/source/weights/digest",),
            severity="warn",
        )
    named = entries[0]
    return passed("The weights are known.", measured=str(named.get("name"))[:80], at=("/evidence/source/weights",))


@check("model_within_its_scope", "warn", catches=("model used outside its area",), reads=("/evidence/validity",))
def model_within_its_scope(case: Case) -> Finding:
    """A model was used for what it was made: class, sensor, bands, GSD."""
    value = next(
        (v for v in (case.evidence("validity", k) for k in ("applicability", "in_scope", "within_scope")) if v is not None), None
    )
    if value is None:
        return not_applicable("no model, or it says nothing of its scope")
    state = value.get("ok", value.get("state", value.get("inside"))) if isinstance(value, dict) else value
    problems = value.get("problems") or value.get("reasons") or value.get("outside") if isinstance(value, dict) else None
    if state in (False, "outside", "no") or problems:
        said = "; ".join(map(str, problems)) if isinstance(problems, list) else problems or "see validity"
        return failed(
            f"The model is used outside what it was made for: {said}."[:500],
            measured="outside" if state in (False, "no") else "inside, with doubts" if state is True else str(state)[:60],
            expected="inside its scope",
            at=("/evidence/validity",),
        )
    return passed("The model is used for what it was made.", at=("/evidence/validity",))


def call_identity(tool: str, arguments: dict[str, Any], parents: tuple[str, ...]) -> str:
    """Digest of what makes two calls the same: tool, arguments, parents."""
    return digest_json({"tool": tool, "arguments": arguments, "parents": sorted(parents)})


@check("not_a_rejected_call", catches=("repeated call",), reads=("/arguments",))
def not_a_rejected_call(case: Case) -> Finding:
    """The same call with the same inputs was not rejected before, unless it gives something else now."""
    if not case.rejected:
        return not_applicable("nothing was rejected yet")
    mine = call_identity(case.observation.tool, case.observation.arguments, case.observation.parents)
    for other in case.rejected:
        if (
            other.id != case.observation.id
            and call_identity(other.tool, other.arguments, other.parents) == mine
            and other.status.state != "failed"
            and other.result == case.observation.result
        ):
            return failed(
                "The same call gave the same result, which was rejected; change the arguments.",
                measured=other.id,
                expected="another call",
                at=("/arguments",),
            )
    return passed("No rejected call is repeated.", measured=len(case.rejected), at=("/arguments",))


@check("tool_and_packages_named", "warn", catches=("not repeatable",), reads=("/provenance",))
def tool_and_packages_named(case: Case) -> Finding:
    """The tool's version is on record, so that the call can be repeated."""
    if not case.observation.provenance.tool_version:
        return inconclusive("The tool's version is not on record.", at=("/provenance/tool_version",))
    return passed(
        "The tool's version is on record.", measured=case.observation.provenance.tool_version, at=("/provenance/tool_version",)
    )


@check(
    "pixels_read_are_the_sources",
    catches=(
        "wrong band mapping",
        "scale or offset twice or never",
        "another scene's result",
        "dropped tile",
        "fill counted as data",
        "stale artifact",
    ),
    limits=("dense_look_px", "witness_points", "witness_tolerance"),
    reads=("/evidence/source/pixels_read", "/inputs"),
)
def pixels_read_are_the_sources(case: Case) -> Finding:
    """Single pixels, as the tool says that they came to it, are the source's: same place, same band, same value, same mask."""
    told = case.evidence("source", "pixels_read")
    if not isinstance(told, dict) or not told:
        return not_applicable("the tool handed over no pixels that it read")
    if case.reader is None:
        return not_applicable("the source's pixels are not at hand")
    n = wrong = 0
    first: tuple[int, int, int, float | None, float | None] | None = None
    names = [name for name in told if name in case.scenes]
    for scene_id in names[:: max(1, len(names) // 12)]:
        scene = case.scenes[scene_id]
        info = {b.index: b for b in scene.bands}
        parts = _told(scene, told[scene_id])
        bands = tuple(sorted({band for band, _, _ in parts}))
        is_large = scene.grid.width * scene.grid.height > case.limits.dense_look_px
        for band, at, mine in parts:
            if is_large:
                step = max(1, len(at) // case.limits.witness_points)
                at, mine = at[::step], mine[::step]
            try:
                truth = _source_at(case, scene, bands, band, at)
            except CannotLookError:
                continue
            unlike = ~np.isclose(mine, truth, rtol=case.limits.witness_tolerance, atol=1e-14, equal_nan=True)
            if info[band].offset:  # close to zero, sums of 32 bits differ by what the offset holds
                unlike &= ~(np.abs(mine - truth) <= case.limits.witness_tolerance * abs(info[band].offset))
            n += len(at)
            wrong += int(unlike.sum())
            if first is None and unlike.any():
                k = int(np.argmax(unlike))
                seen, there = (None if math.isnan(v) else float(v) for v in (mine[k], truth[k]))
                first = band, int(at[k, 0]), int(at[k, 1]), seen, there
    pointer = ("/evidence/source/pixels_read",)
    if n == 0:
        return not_applicable("none of the pixels can be read again")
    if first is not None:
        band, col, row, seen, there = first
        return failed(
            f"{wrong:,} of {n:,} pixels came to the tool otherwise than the source has them; the first is band {band} at "
            f"column {col}, row {row}. It read another band, place, scale, mask or scene.",
            measured=seen,
            expected=there,
            at=pointer,
        )
    return passed(f"{n:,} pixels came to the tool as the source has them.", measured=n, unit="px", at=pointer)


def _told(scene: SceneInfo, told: Any) -> list[tuple[int, NDArray[np.int64], NDArray[np.float64]]]:
    """(band, (n, 2) columns and rows, physical values, NaN where masked) as the tool handed them over; what cannot be read as
    such is left out."""
    info = {b.index: b for b in scene.bands}
    out = []
    for how in ("stored", "physical"):
        held = told.get(how) if isinstance(told, dict) else None
        for name, rows in held.items() if isinstance(held, dict) else ():
            band = info.get(int(name)) if name.isdecimal() and len(name) < 6 else None
            kept = [p for p in rows if _is_pixel(p, scene)] if band is not None and isinstance(rows, list) else []
            if band is None or not kept:
                continue
            values = np.array([math.nan if p[2] is None else float(p[2]) for p in kept])
            if how == "stored":
                values = values * band.scale + band.offset
            out.append((band.index, np.array([p[:2] for p in kept], dtype=np.int64), values))
    return out


def _is_pixel(p: Any, scene: SceneInfo) -> bool:
    """[column, row, number or null] inside the scene."""
    return (
        isinstance(p, list)
        and len(p) == 3
        and type(p[0]) is int
        and type(p[1]) is int
        and 0 <= p[0] < scene.grid.width
        and 0 <= p[1] < scene.grid.height
        and (p[2] is None or number_of(p[2]) is not None)
    )


def _source_at(case: Case, scene: SceneInfo, bands: tuple[int, ...], band: int, at: NDArray[np.int64]) -> NDArray[np.float64]:
    """The source's own values of one of ``bands`` at (columns, rows), NaN where masked: from the pixels that are held of a small
    scene, else read one by one, all bands at once."""
    grid, k = scene.grid, bands.index(band)
    if grid.width * grid.height <= case.limits.dense_look_px:
        plane = Look(case).pixels(scene, bands, (0, 0, grid.width, grid.height))
        return np.where(plane.valid[k, at[:, 1], at[:, 0]], plane.data[k, at[:, 1], at[:, 0]], math.nan)
    reader = case.open(scene.scene_id)
    if reader is None:
        raise CannotLookError("the source's pixels are not at hand")
    band_of = next(b for b in scene.bands if b.index == band)

    def one(col: int, row: int) -> float:
        read = case.kept(
            f"pixel:{scene.scene_id}:{bands}:{col}:{row}", lambda: reader.read(bands, (col, row, 1, 1), physical=False)
        )
        return float(read.data[k, 0, 0]) * band_of.scale + band_of.offset if read.valid[k, 0, 0] else math.nan

    return np.array([one(int(c), int(r)) for c, r in at])
