"""Detectors as the tools see them: pictures in, boxes out; one load a process, behind a lock."""

from __future__ import annotations

import copy
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from apps.core.errors import ToolAbstainedError
from apps.tools.zoo.cards import ModelCard
from apps.tools.zoo.registry import verified
from apps.tools.zoo.runtime import OneLoad, device_name, onnx_device_name, torch_module, ultralytics_module
from apps.tools.zoo.tiling import Boxes, suppress

GREY = 114
# Raw answers of one tile that are looked at, best first.
MOST_RAW = 4000
_loaded: OneLoad[Detector] = OneLoad()


class Detector(Protocol):
    """``images``: uint8 (rows, columns, 3) RGB, at most ``tile_px`` long; boxes in pixels of each, above ``floor``.

    ``arithmetic`` is ``float32``, or ``bfloat16`` where the convolutions run so."""

    device: str
    arithmetic: str

    def detect(self, images: Sequence[NDArray[np.uint8]], floor: float) -> list[Boxes]: ...


def load_detector(card: ModelCard, path: Path) -> Detector:
    """The detector of a card, loaded once a process. Raises ToolAbstainedError (MODEL_MISSING) where it cannot be loaded."""
    kind = StateDetector if card.format == "rsw" else _UltralyticsDetector
    return _loaded.get((card.name, card.sha256), lambda: kind(card, verified(card, path)))


def resampled(image: NDArray[np.uint8], scale: float) -> NDArray[np.uint8]:
    """The picture (rows, columns, 3) at ``scale``: averaged when made smaller, bicubic when made larger."""
    if abs(scale - 1) < 1e-3:
        return image
    h, w = image.shape[:2]
    size = max(1, round(h * scale)), max(1, round(w * scale))
    if scale > 1 and importlib.util.find_spec("cv2") is not None:
        import cv2

        large: NDArray[np.uint8] = cv2.resize(np.ascontiguousarray(image), size[::-1], interpolation=cv2.INTER_CUBIC)
        return large
    torch = torch_module()
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


def _runs_bfloat16() -> bool:
    """True where this processor multiplies bfloat16 itself (AVX-512 BF16 or AMX): twice as fast there, many times slower
    elsewhere. RSURE_ARITHMETIC=float32 switches it off."""
    torch = torch_module()
    if os.environ.get("RSURE_ARITHMETIC", "") == "float32":
        return False
    asked = [getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")]
    return any(bool(f()) for f in asked if callable(f))


def _in_bfloat16(model: Any) -> Any:
    """A copy of a YOLO whose convolutions run in bfloat16; its boxes and scores are decoded in float32, or they would be whole
    pixels off. The model itself where the copy's answers on a test picture stray from its own."""
    torch = torch_module()
    quick = copy.deepcopy(model)
    head = quick.model[-1]
    for part in (*quick.model[:-1], head.cv2, head.cv3):
        part.bfloat16()
    inner = head.forward_head

    def forward_head(x: Any, **heads: Any) -> dict[str, Any]:
        found = inner(x, **heads)
        # the places of boxes are counted in the type of "feats", of which nothing but shape and type is asked
        frames = [torch.empty((), dtype=torch.float32).expand(f.shape) for f in found["feats"]]
        return {"boxes": found["boxes"].float(), "scores": found["scores"].float(), "feats": frames}

    head.forward_head = forward_head
    picture = torch.rand((1, 3, 128, 160), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        one, other = model(picture)[0], quick(picture.bfloat16())[0]
    strays = (one[:, 4:] - other[:, 4:]).abs().max() > 0.05 or (one[:, :4] - other[:, :4]).abs().max() > 8
    return model if bool(strays) else quick


class StateDetector:
    """A YOLO of this project's own format on ``device``: one forward pass, boxes decoded by its head, no other library."""

    def __init__(self, card: ModelCard, path: Path, device: str = ""):
        from apps.tools.zoo.states import load_state

        torch = torch_module()
        self.device = device or device_name()
        model, about = load_state(path)
        if tuple(about["classes"]) != card.class_names:
            raise ToolAbstainedError(f"The weights of {card.name} know other classes than its card says.", code="MODEL_MISSING")
        if hasattr(model, "fuse"):
            model.fuse(verbose=False)
        quick = _in_bfloat16(model) if self.device == "cpu" and _runs_bfloat16() else model
        self.arithmetic = "float32" if quick is model else "bfloat16"
        self._model = quick.to(self.device).to(memory_format=torch.channels_last).eval()

    def detect(self, images: Sequence[NDArray[np.uint8]], floor: float) -> list[Boxes]:
        torch = torch_module()
        with _loaded.lock, torch.inference_mode():
            # to the processor in one piece: on a GPU every pick below would wait for it anew
            raw = self.raw(_padded(images)).cpu()
        out = []
        for k, image in enumerate(images):
            score = raw[k, 4:]
            cls, at = torch.nonzero(score > floor, as_tuple=True)
            s = score[cls, at]
            keep = torch.argsort(s, descending=True, stable=True)[:MOST_RAW]
            cls, at, s = cls[keep], at[keep], s[keep].double().numpy()
            cx, cy, w, h = raw[k, :4, at].double().numpy()
            xy = np.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], 1)
            xy[:, [0, 2]] = xy[:, [0, 2]].clip(0, image.shape[1])
            xy[:, [1, 3]] = xy[:, [1, 3]].clip(0, image.shape[0])
            found = Boxes(xy, s, cls.numpy().astype(np.int64), np.zeros(len(keep), np.int64))
            found = found.pick((xy[:, 2] > xy[:, 0]) & (xy[:, 3] > xy[:, 1]))
            # the head answers an object from many cells: near-identical boxes go here, doubles are judged later
            out.append(found.pick(suppress(found, iou=0.75, within_tile=True)))
        return out

    def raw(self, batch: NDArray[np.uint8]) -> Any:
        """The head's answers (pictures, 4 + classes, cells) in float32 on the device, of pictures (n, rows, columns, 3)."""
        torch = torch_module()
        x = torch.from_numpy(batch.transpose(0, 3, 1, 2)).to(self.device)     # channels last, as the network wants it
        x = x.float().div_(255)
        answer = self._model(x.bfloat16() if self.arithmetic == "bfloat16" else x)
        return (answer[0] if isinstance(answer, (tuple, list)) else answer).float()


class _UltralyticsDetector:
    """Models that a person added: Ultralytics .pt, and ONNX and TorchScript exports with its metadata; detect, obb, segment."""

    def __init__(self, card: ModelCard, path: Path):
        ultralytics_module()
        from ultralytics import YOLO

        self.device, self.arithmetic = onnx_device_name() if card.format == "onnx" else device_name(), "float32"
        self._card = card
        try:
            self._model: Any = YOLO(str(path), task=card.task)
            names = list(self._model.names.values()) if card.format == "ultralytics" else None
            if card.format == "torchscript" and self.device != "cpu" and not self._runs():
                # a trace keeps the device it was made on where the network makes tensors of its own
                self._model, self.device = YOLO(str(path), task=card.task), "cpu"
        except Exception as e:
            raise ToolAbstainedError(f"{card.name} cannot be loaded: {type(e).__name__}.", code="MODEL_MISSING",
                                     needs={"model": card.name}) from e
        if names is not None and tuple(str(n)[:80] for n in names) != card.class_names:
            raise ToolAbstainedError(f"The weights of {card.name} know other classes than its card says.", code="MODEL_MISSING")

    def _runs(self) -> bool:
        try:
            self.detect([np.full((32, 32, 3), GREY, np.uint8)], 0.5)
        except RuntimeError:
            return False
        return True

    def detect(self, images: Sequence[NDArray[np.uint8]], floor: float) -> list[Boxes]:
        """As Detector says. The library would stretch a picture to the model's side; padded to it, pixels keep their size."""
        torch, side = torch_module(), self._card.tile_px
        threads = torch.get_num_threads()
        out = []
        for image in images:
            h, w = image.shape[:2]
            # an export has one size; weights take larger pictures too, by steps of 32
            fixed = self._card.format != "ultralytics"
            rows, columns = (side if fixed else max(side, -(-n // 32) * 32) for n in (h, w))
            padded = np.full((rows, columns, 3), GREY, np.uint8)
            padded[:h, :w] = image
            with _loaded.lock:
                found = self._model.predict(np.ascontiguousarray(padded[:, :, ::-1]), imgsz=padded.shape[:2], conf=floor,
                                            iou=0.75, max_det=3000, verbose=False, device=self.device)[0]
                if torch.get_num_threads() != threads:      # the library takes a core away when it first predicts
                    torch.set_num_threads(threads)
            out.append(_boxes_of(found, image.shape[0], image.shape[1]))
        return out


def _boxes_of(found: Any, height: int, width: int) -> Boxes:
    """The library's answer as boxes inside a picture; oriented boxes and masks as outlines. What stands on the padding goes."""
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
    boxes = Boxes(xyxy, part.conf.double().cpu().numpy(), part.cls.cpu().numpy().astype(np.int64), np.zeros(len(xyxy), np.int64),
                  outline)
    centre = (xyxy[:, :2] + xyxy[:, 2:]) / 2
    boxes = boxes.pick((centre >= 0).all(axis=1) & (centre[:, 0] < width) & (centre[:, 1] < height))
    boxes.xyxy[:, [0, 2]] = boxes.xyxy[:, [0, 2]].clip(0, width)
    boxes.xyxy[:, [1, 3]] = boxes.xyxy[:, [1, 3]].clip(0, height)
    return boxes.pick((boxes.xyxy[:, 2] > boxes.xyxy[:, 0]) & (boxes.xyxy[:, 3] > boxes.xyxy[:, 1]))
