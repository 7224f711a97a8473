"""Detectors as the tools see them: pictures in, boxes out; one load a process, behind a lock."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from apps.core.errors import ToolAbstainedError
from apps.tools.zoo.cards import ModelCard
from apps.tools.zoo.registry import verified
from apps.tools.zoo.runtime import device_name, torch_module, ultralytics_module
from apps.tools.zoo.tiling import Boxes, suppress

GREY = 114
# Raw answers of one tile that are looked at, best first.
MOST_RAW = 4000
_lock = threading.RLock()
_loaded: dict[tuple[str, str], Detector] = {}


class Detector(Protocol):
    """``images``: uint8 (rows, columns, 3) RGB, at most ``tile_px`` long; boxes in pixels of each, above ``floor``."""

    device: str

    def detect(self, images: Sequence[NDArray[np.uint8]], floor: float) -> list[Boxes]: ...


def load_detector(card: ModelCard, path: Path) -> Detector:
    """The detector of a card, loaded once a process. Raises ToolAbstainedError (MODEL_MISSING) where it cannot be loaded."""
    key = (card.name, card.sha256)
    with _lock:
        if key not in _loaded:
            verified(card, path)
            _loaded[key] = _StateDetector(card, path) if card.format == "rsw" else _UltralyticsDetector(card, path)
        return _loaded[key]


def resampled(image: NDArray[np.uint8], scale: float) -> NDArray[np.uint8]:
    """The picture (rows, columns, 3) at ``scale``: averaged when made smaller, bicubic when made larger."""
    if abs(scale - 1) < 1e-3:
        return image
    torch = torch_module()
    h, w = image.shape[:2]
    size = max(1, round(h * scale)), max(1, round(w * scale))
    x = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float()[None]
    y = torch.nn.functional.interpolate(x, size=size, mode="bicubic" if scale > 1 else "bilinear", antialias=scale < 1,
                                        align_corners=False)
    out: NDArray[np.uint8] = y[0].clamp(0, 255).round().byte().numpy().transpose(1, 2, 0)
    return out


def _padded(images: Sequence[NDArray[np.uint8]], multiple: int = 32) -> NDArray[np.uint8]:
    h = -(-max(i.shape[0] for i in images) // multiple) * multiple
    w = -(-max(i.shape[1] for i in images) // multiple) * multiple
    out = np.full((len(images), h, w, 3), GREY, np.uint8)
    for k, image in enumerate(images):
        out[k, :image.shape[0], :image.shape[1]] = image
    return out


class _StateDetector:
    """A YOLO of this project's own format: one forward pass, boxes decoded by the model's head, no further library."""

    def __init__(self, card: ModelCard, path: Path):
        from apps.tools.zoo.states import load_state

        torch = torch_module()
        self.device = device_name()
        model, about = load_state(path)
        if tuple(about["classes"]) != card.class_names:
            raise ToolAbstainedError(f"The weights of {card.name} know other classes than its card says.", code="MODEL_MISSING")
        if hasattr(model, "fuse"):
            model.fuse(verbose=False)
        self._model = model.to(self.device).to(memory_format=torch.channels_last).eval()

    def detect(self, images: Sequence[NDArray[np.uint8]], floor: float) -> list[Boxes]:
        torch = torch_module()
        batch = _padded(images)
        x = torch.from_numpy(np.ascontiguousarray(batch.transpose(0, 3, 1, 2))).to(self.device)
        x = (x.float() / 255).to(memory_format=torch.channels_last)
        with _lock, torch.inference_mode():
            raw = self._model(x)
        raw = (raw[0] if isinstance(raw, (tuple, list)) else raw).float()
        out = []
        for k, image in enumerate(images):
            score = raw[k, 4:]
            cls, at = torch.nonzero(score > floor, as_tuple=True)
            s = score[cls, at]
            cx, cy, w, h = raw[k, :4, at]
            xyxy = torch.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], 1)
            keep = torch.argsort(s, descending=True, stable=True)[:MOST_RAW]
            xy = xyxy[keep].double().cpu().numpy()
            xy[:, [0, 2]] = xy[:, [0, 2]].clip(0, image.shape[1])
            xy[:, [1, 3]] = xy[:, [1, 3]].clip(0, image.shape[0])
            found = Boxes(xy, s[keep].double().cpu().numpy(), cls[keep].cpu().numpy().astype(np.int64),
                          np.zeros(len(keep), np.int64))
            found = found.pick((xy[:, 2] > xy[:, 0]) & (xy[:, 3] > xy[:, 1]))
            # the head answers an object from many cells: near-identical boxes go here, doubles are judged later
            out.append(found.pick(suppress(found, iou=0.75, within_tile=True)))
        return out


class _UltralyticsDetector:
    """Models that a person added: Ultralytics .pt, and ONNX and TorchScript exports with its metadata; detect, obb, segment."""

    def __init__(self, card: ModelCard, path: Path):
        ultralytics_module()
        from ultralytics import YOLO

        self.device = device_name()
        self._card = card
        try:
            self._model: Any = YOLO(str(path), task=card.task)
            names = list(self._model.names.values()) if card.format == "ultralytics" else None
        except Exception as e:
            raise ToolAbstainedError(f"{card.name} cannot be loaded: {type(e).__name__}.", code="MODEL_MISSING",
                                     needs={"model": card.name}) from e
        if names is not None and tuple(str(n)[:80] for n in names) != card.class_names:
            raise ToolAbstainedError(f"The weights of {card.name} know other classes than its card says.", code="MODEL_MISSING")

    def detect(self, images: Sequence[NDArray[np.uint8]], floor: float) -> list[Boxes]:
        side = self._card.tile_px
        out = []
        for image in images:
            with _lock:
                found = self._model.predict(np.ascontiguousarray(image[:, :, ::-1]), imgsz=side, conf=floor, iou=0.75,
                                            max_det=3000, verbose=False, device=self.device)[0]
            outline: list[NDArray[np.float64]] | None = None
            if getattr(found, "obb", None) is not None:
                part = found.obb
                outline = [c.astype(float) for c in part.xyxyxyxy.cpu().numpy()]
            else:
                part = found.boxes
                if getattr(found, "masks", None) is not None:
                    outline = [np.asarray(p, float) for p in found.masks.xy]
            xyxy = part.xyxy.double().cpu().numpy().reshape(-1, 4)
            if outline is not None:
                corner = [np.stack([b[[0, 2, 2, 0]], b[[1, 1, 3, 3]]], 1) for b in xyxy]
                outline = [o if len(o) >= 3 else c for o, c in zip(outline, corner, strict=True)]
            out.append(Boxes(xyxy, part.conf.double().cpu().numpy(), part.cls.cpu().numpy().astype(np.int64),
                             np.zeros(len(xyxy), np.int64), outline))
        return out
