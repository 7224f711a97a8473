"""perceive, mode ``document``: text that stands in an image, with the box and score of each line, by RapidOCR's own weights.

What is read is data: it is told as text and never followed, whatever it says.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from pydantic import JsonValue

from apps.core.digests import digest_file
from apps.core.errors import ModelError, ToolAbstainedError
from apps.core.evidence.observation import NOT_SEEN, Configuration, Evidence, Result
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader, Window
from apps.tools.contract import PerceiveArguments, ToolCancelledError, ToolContext, ToolOutcome, input_ref
from apps.tools.execute.graph import effective_region
from apps.tools.perceive.looking import AMPLITUDE_NOTE, look_over, real, refuse_unseen
from apps.tools.perceive.modes import only_scene
from apps.tools.perceive.veil import MOST_HIDDEN, ground_searched, tell, veil_of
from apps.tools.region import RegionMask

# Large images are read in tiles that overlap by a line of text.
TILE_PX, OVERLAP_PX = 1280, 160
# Lines that end so near to the inner edge of a tile are cut by it. They are read again whole in a window with so much room about
# them, and no smaller than that: in a narrow strip the reader splits lines.
CUT_PX, ROOM_PX, LEAST_WINDOW_PX = 3.0, 24, 640
# Lines below this score are told as candidates, not as text.
LEAST_SCORE = 0.6
# In a line that was read whole a letter is no wider than so many times the line's height; in longer ones letters were left out.
WIDEST_LETTER = 1.2
MAX_PX = 100_000_000
# Letters lower than this many pixels cannot be read; a picture of fewer rows or columns holds none.
LEAST_LETTER_PX = 8.0
# What the weights that come with RapidOCR were made for.
SCRIPTS = ("Chinese", "Latin letters", "digits")
NOT_FOR = (f"letters lower than {LEAST_LETTER_PX:.0f} pixels", "handwriting and other scripts than Latin and Chinese",
           "telling letters and digits of one shape apart: 0 and O, 1, l and I")
# First words of the Unicode names of letters that the weights know whole; of Greek they know no accents.
_KNOWN_LETTERS = ("LATIN", "CJK", "HIRAGANA", "KATAKANA", "FULLWIDTH", "HALFWIDTH", "MODIFIER", "MICRO", "OHM")
_NO_PICTURE = ("class", "mask", "qa", "alpha")
_UNREAD = "\ufffd"


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of text: what was read ('' where nothing could be), its score, its outline (corners, 2) in pixels of the scene, and
    whether the inner edge of a tile cuts it."""

    text: str
    score: float
    box: NDArray[np.float64]
    is_cut: bool = False

    @property
    def sides(self) -> tuple[float, float]:
        """(shorter, longer) side of the outline in pixels."""
        a, b = (float(np.hypot(*(self.box[k + 1] - self.box[k]))) for k in (0, 1))
        return min(a, b), max(a, b)

    @property
    def is_read(self) -> bool:
        """Whether the whole line was read: sure enough, with letters that the weights know, and as many as the line is long."""
        letters = [c for c in self.text if not c.isspace()]
        foreign = [c for c in letters if c.isalpha() and unicodedata.name(c, "").split(" ")[0] not in _KNOWN_LETTERS]
        short, long = self.sides
        is_full = long <= WIDEST_LETTER * short * (len(letters) + 1)
        return self.score >= LEAST_SCORE and 2 * len(foreign) < len(letters) and is_full


@lru_cache(maxsize=1)
def _engine() -> tuple[Any, tuple[tuple[str, str], ...]]:
    """(the reader of text, (name, digest) of its weights). ToolAbstainedError where it is not installed."""
    try:
        import rapidocr
    except ImportError as error:
        raise ToolAbstainedError("Reading text needs rapidocr and onnxruntime, which are not installed here "
                                 "(./rsure setup --ml).", code="MODEL_MISSING", needs={"model": ["text"]}) from error

    class Reader(rapidocr.RapidOCR):  # type: ignore[misc]
        """Tells places that look like text and could not be read too: the library leaves them out."""

        def recognize_txt(self, img: list[NDArray[np.uint8]]) -> Any:
            found: Any = super().recognize_txt(img)
            if found.txts is not None:
                found.txts = tuple(t if t.strip() else _UNREAD for t in found.txts)
            return found

    engine = Reader(params={"Global.text_score": 0.0, "Global.log_level": "error"})
    folder = Path(rapidocr.__file__).parent / "models"
    return engine, tuple((p.name, digest_file(p)) for p in sorted(folder.glob("*.onnx")))


def perceive_document(ctx: ToolContext, arguments: PerceiveArguments) -> ToolOutcome:
    """Lines of text in reading order. An image without text is a finding: ``ok`` and an empty text. ToolAbstainedError where no
    pixel is valid, too few for a letter, or the bands are no picture."""
    scene = ctx.scene(only_scene(arguments))
    if scene.grid.width * scene.grid.height > MAX_PX:
        raise ModelError(f"{scene.name} is larger than {MAX_PX / 1e6:.0f} million pixels; give a part of it.", code="TOO_LARGE")
    engine, weights = _engine()
    reader = ctx.reader(scene.scene_id)
    bands = _bands(scene)
    region, region_crs = effective_region(arguments.region, arguments.region_crs, ctx)
    inside = RegionMask.of(region, region_crs, scene.grid, scene.name)
    veil = veil_of(ctx, scene, arguments)
    seen = look_over(reader, bands, inside, ctx.is_cancelled, veil.hidden if veil is not None else None)
    refuse_unseen(seen, scene, "text", least_px=LEAST_LETTER_PX, longest_px=LEAST_LETTER_PX, needs_contrast=False)
    if scene.dtype.startswith("complex"):
        ctx.log("info", AMPLITUDE_NOTE)
    if seen.is_constant:
        ctx.log("warning", "All valid pixels have the same value: there is no text because there is nothing at all.")
    if seen.share < 1 - 1e-9:
        ctx.log("info", f"{seen.valid_px} of {seen.asked_px} pixels could be seen; text on the others is not told.")
    quality, masked = tell(ctx, veil, seen.hidden_px, seen.hidden_px + seen.valid_px, "text")
    span = _span(reader, bands, scene)
    tiles = [w for w in _tiles(scene) if inside.touches(w)]

    def read(window: Window) -> list[_Line]:
        if ctx.is_cancelled():
            raise ToolCancelledError
        return _read(engine, _picture(reader, bands, window, span), window, scene)

    lines: list[_Line] = []
    for number, window in enumerate(tiles, 1):
        lines += read(window)
        ctx.progress(number, len(tiles), "Reading text")
    filters: list[JsonValue] = []

    def after(name: str, before: int, now: int) -> None:
        filters.append({"name": name, "before": before, "after": now})

    lines, n_found = _made_whole(lines, read, scene)
    after("cut by a tile's edge", n_found, len(lines))
    n_whole = len(lines)
    lines = _without_doubles(lines)
    after("doubles of tiles", n_whole, len(lines))
    n_once = len(lines)
    if inside.polygon is not None:
        lines = [x for x in lines if inside.polygon.contains(shapely.Point(*x.box.mean(axis=0)))]
    after("inside the region", n_once, len(lines))
    hidden: list[_Line] = []
    if veil is not None:
        corners = np.array([[*x.box.min(axis=0), *x.box.max(axis=0)] for x in lines]).reshape(-1, 4)
        under = veil.shares(corners) > MOST_HIDDEN
        hidden = [x for x, h in zip(lines, under, strict=True) if h and x.is_read]
        n_all, lines = len(lines), [x for x, h in zip(lines, under, strict=True) if not h]
        after("not under cloud or shadow", n_all, len(lines))
    kept = _reading_order([x for x in lines if x.is_read])
    weak = [x for x in lines if not x.is_read]
    after("score of text", len(lines), len(kept))
    low = [x for x in kept if x.sides[0] < LEAST_LETTER_PX]
    problems = [f"{len(low)} of {len(kept)} lines are lower than {LEAST_LETTER_PX:.0f} pixels: their letters may be misread"
                ] if low else []
    if weak:
        problems.append(f"{len(weak)} {'place looks' if len(weak) == 1 else 'places look'} like text and cannot be read: "
                        "blurred, mirrored or in another script, perhaps")
    for line in problems:
        ctx.log("warning", f"{line}.")
    listed = ((kept, "text"), (weak, "candidates"), *(((hidden, NOT_SEEN),) if hidden else ()))
    layers = tuple(ctx.layers.put_features([_feature(x) for x in part], kind="polygons", crs="image", label=label,
                                           scene_id=scene.scene_id) for part, label in listed)
    if hidden:
        ctx.log("warning", f"{len(hidden)} lines of text lie under cloud or shadow for the most part and are not told.")
    items: list[dict[str, JsonValue]] = [
        {"text": x.text, "score": round(x.score, 4), "box": [[round(float(v), 1) for v in p] for p in x.box]}
        for x in kept[:1000]]
    text = "\n".join(x.text for x in kept)
    if not kept and not weak:
        ctx.log("info", "No text was found: an empty finding, not a failure.")
    passed: dict[str, JsonValue] = {**arguments.model_dump(mode="json"), "region": dict(region) if region else None}
    return ToolOutcome(
        configuration=Configuration(coarse="document", fine="document/rapidocr"),
        inputs=(input_ref(scene, bands if veil is None else (*bands, veil.band.index)),),
        arguments_passed=passed, packages=_versions(),
        result=Result(kind="text", value=text[:20_000], quantity="text in the image", items=tuple(items), layers=layers),
        evidence=Evidence(
            source={"weights": [{"name": n, "digest": d, "licence": "Apache-2.0"} for n, d in weights],
                    "thresholds": {"text": LEAST_SCORE}, "sensor": scene.sensor or "unknown",
                    "resolution_m": scene.effective_gsd_m},
            intermediate={"scores": [round(x.score, 4) for x in kept[:1000]], "polygons": len(kept), "candidates": n_found,
                          "kept": len(kept), "after_doubles": n_once, "unread": len(weak), "filters": filters,
                          "tiles": len(tiles), "stretch": list(span), "valid_px": seen.valid_px, "n_region_px": seen.asked_px,
                          "area": ground_searched(scene.grid, scene.effective_gsd_m, seen.valid_px, seen.asked_px),
                          "not_seen": len(hidden), **masked},
            validity={"layer_status": "complete", "class_complete": True, "geometry_valid": True, "text_is": "data",
                      "quality_mask": quality, "valid_share": seen.share, "scripts": list(SCRIPTS), "not_for": list(NOT_FOR),
                      "applicability": {"ok": not problems, "problems": list(problems)}}))


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {n: version(n) for n in ("rapidocr", "onnxruntime")}


def _bands(scene: SceneInfo) -> list[int]:
    colours = [scene.bands_with_role(r) for r in ("red", "green", "blue")]
    if all(len(c) == 1 for c in colours):
        return [c[0].index for c in colours]
    single = [b.index for b in scene.bands if b.role in ("gray", "pan")]
    bright = single or [b.index for b in scene.bands if b.role not in _NO_PICTURE]
    if not bright:
        raise ToolAbstainedError(f"{scene.name} has no band of a picture ({', '.join(b.role for b in scene.bands)}); numbers of "
                                 "classes and flags hold no text.", code="NEEDS_BANDS", needs={"roles": ["gray"]})
    return bright[:1]


def _span(reader: RasterReader, bands: list[int], scene: SceneInfo) -> tuple[float, float]:
    """The values that become black and white."""
    if scene.dtype == "uint8":
        return 0.0, 255.0
    view = reader.read(bands, None, (min(512, scene.grid.height), min(512, scene.grid.width)),
                       physical=not scene.dtype.startswith("complex"))
    values = np.asarray(real(view.data), dtype=np.float64)[view.valid]
    if not values.size:
        raise ModelError(f"No valid pixel of {scene.name} is left.", code="TOOL_FAILED", needs={"valid_px": True})
    low, high = np.percentile(values, [1, 99])
    return float(low), float(high if high > low else low + 1)


def _tiles(scene: SceneInfo) -> list[Window]:
    width, height = scene.grid.width, scene.grid.height
    if max(width, height) <= TILE_PX * 1.5:
        return [(0, 0, width, height)]
    step = TILE_PX - OVERLAP_PX
    return [(c, r, min(TILE_PX, width - c), min(TILE_PX, height - r))
            for r in range(0, max(1, height - OVERLAP_PX), step) for c in range(0, max(1, width - OVERLAP_PX), step)]


def _picture(reader: RasterReader, bands: list[int], window: Window, span: tuple[float, float]) -> NDArray[np.uint8]:
    read = reader.read(bands, window, physical=span != (0.0, 255.0) and not reader.info.dtype.startswith("complex"))
    scaled = (np.asarray(real(read.data), dtype=np.float64) - span[0]) / (span[1] - span[0]) * 255
    image = np.where(read.valid, np.clip(scaled, 0, 255), 0).astype(np.uint8)
    if len(bands) == 1:
        image = np.repeat(image, 3, axis=0)
    # the reader of text wants blue first, as OpenCV does
    return np.ascontiguousarray(image[::-1].transpose(1, 2, 0))


def _read(engine: Callable[[NDArray[np.uint8]], Any], picture: NDArray[np.uint8], window: Window, scene: SceneInfo
          ) -> list[_Line]:
    """The lines of a window, in pixels of the scene."""
    found = engine(picture)
    c, r, w, h = window
    # an edge of the window that is none of the scene cuts what reaches it
    edges = np.array([c if c > 0 else -np.inf, r if r > 0 else -np.inf, c + w if c + w < scene.grid.width else np.inf,
                      r + h if r + h < scene.grid.height else np.inf])
    out = []
    for text, score, box in zip(found.txts or (), found.scores or (), () if found.boxes is None else found.boxes, strict=False):
        at = np.asarray(box, dtype=np.float64) + np.array([c, r], dtype=np.float64)
        is_cut = bool((at.min(axis=0) <= edges[:2] + CUT_PX).any() or (at.max(axis=0) >= edges[2:] - CUT_PX).any())
        out.append(_Line(str(text).replace(_UNREAD, "").strip(), float(score), at, is_cut))
    return out


def _made_whole(lines: list[_Line], read: Callable[[Window], list[_Line]], scene: SceneInfo) -> tuple[list[_Line], int]:
    """(whole lines, how many lines and pieces there were). A piece that a tile's edge cuts off a line is left out where another
    tile saw the line whole; the others are read again, all pieces of a line at once."""
    whole = [x for x in lines if not x.is_cut]
    frames = _frames(whole)
    pieces = [f for f in _frames([x for x in lines if x.is_cut])
              if all(f.intersection(w).area <= 0.5 * f.area for w in frames)]
    grown = shapely.unary_union([f.buffer(CUT_PX + 1, join_style="mitre") for f in pieces])
    again: list[_Line] = []
    for group in getattr(grown, "geoms", [grown] if pieces else []):
        x0, y0, x1, y1 = group.bounds
        left, width = _stretch(x0, x1, scene.grid.width)
        top, height = _stretch(y0, y1, scene.grid.height)
        found = read((left, top, width, height))
        again += [x for x, f in zip(found, _frames(found), strict=True) if f.intersects(group)]
    return [*whole, *again], len(lines) + len(again)


def _stretch(low: float, high: float, length: int) -> tuple[int, int]:
    """(start, length) of a window along an axis of so many pixels that holds ``low`` to ``high`` with room."""
    size = min(length, max(LEAST_WINDOW_PX, int(high - low) + 2 * ROOM_PX))
    return int(min(max(0, (low + high - size) / 2), length - size)), size


def _frames(lines: Sequence[_Line]) -> list[Any]:
    return [shapely.box(*x.box.min(axis=0), *x.box.max(axis=0)) for x in lines]


def _without_doubles(lines: list[_Line]) -> list[_Line]:
    """Of lines that overlap by more than half of the smaller one, the surest longer one: tiles see a line twice."""
    kept: list[_Line] = []
    shapes: list[Any] = []
    for line in sorted(lines, key=lambda x: (-len(x.text) * x.score, x.text)):
        shape = shapely.Polygon(line.box).convex_hull
        if shape.area <= 0:
            continue
        if all(shape.intersection(other).area <= 0.5 * min(shape.area, other.area) for other in shapes):
            kept.append(line)
            shapes.append(shape)
    return kept


def _reading_order(lines: list[_Line]) -> list[_Line]:
    """Top to bottom in rows as high as half a line, left to right in a row."""
    if not lines:
        return []
    height = float(np.median([np.ptp(x.box[:, 1]) for x in lines])) or 1.0
    return sorted(lines, key=lambda x: (round(float(x.box[:, 1].mean()) / height), float(x.box[:, 0].min())))


def _feature(line: _Line) -> dict[str, Any]:
    ring = [[round(float(v), 1) for v in p] for p in [*line.box, line.box[0]]]
    return {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]},
            "properties": {"text": line.text, "score": round(line.score, 4)}}
