"""Two-image change models that a person adds (TorchScript or ONNX): two pictures in, a probability of change by pixel out.

A model takes two tensors float32 (1, 3, rows, columns), red, green and blue in 0..1, earlier first; or one of six channels in
that order. It gives (1, 1, r, c), or (1, 2, r, c) of which the second channel is change; logits or probabilities, at the size of
the pictures or coarser. Whether it gives logits is told on probes when it is loaded: values outside 0..1 are logits. One load a
process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apps.core.errors import ToolAbstainedError
from apps.tools.zoo.cards import ModelCard
from apps.tools.zoo.registry import verified
from apps.tools.zoo.runtime import OneLoad, device_name, onnxruntime_module, torch_module

TILE_PX = 256
# Tiles overlap by this, or an eighth of a small one, and weigh less towards their edges.
OVERLAP_PX = 32
_loaded: OneLoad[ChangeModel] = OneLoad()


class ChangeModel:
    """One change model, ready to look. ``output`` says what it gives: logits or probabilities."""

    def __init__(self, card: ModelCard, path: Path):
        self.card, self.device = card, "cpu"
        self.tile_px = min(1024, card.tile_px)
        self._run: Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float64]]
        try:
            self._run = self._of_onnx(path) if card.format == "onnx" else self._of_torchscript(path, device_name())
            try:
                self.output = self._probed()
            except RuntimeError:
                if self.device == "cpu":
                    raise
                # a trace keeps the device it was made on where the network makes tensors of its own
                self._run = self._of_torchscript(path, "cpu")
                self.output = self._probed()
        except ToolAbstainedError:
            raise
        except Exception as e:   # whatever a stranger's model raises
            raise ToolAbstainedError(f"{card.name} cannot be used as a change model: {type(e).__name__}: {str(e)[:200]}. It must "
                                     "take two RGB pictures (or one of six channels) and give one map.", code="MODEL_MISSING",
                                     needs={"model": card.name}) from e

    def _of_torchscript(self, path: Path, device: str) -> Callable[..., NDArray[np.float64]]:
        torch = torch_module()
        self.device = device
        model = torch.jit.load(str(path), map_location=self.device).eval()
        takes_two = len(model.forward.schema.arguments) >= 3     # self, earlier, later

        def run(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
            a, b = (torch.from_numpy(x).to(self.device) for x in (one, other))
            with torch.inference_mode():
                out = model(a, b) if takes_two else model(torch.cat([a, b], 1))
            while isinstance(out, (tuple, list)):
                out = out[0]
            return np.asarray(out.double().cpu().numpy())

        return run

    def _of_onnx(self, path: Path) -> Callable[..., NDArray[np.float64]]:
        session = onnxruntime_module().InferenceSession(str(path), providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        side = session.get_inputs()[0].shape[-1]
        if isinstance(side, int):
            self.tile_px = side

        def run(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
            given = {names[0]: one, names[1]: other} if len(names) == 2 else {names[0]: np.concatenate([one, other], 1)}
            return np.asarray(session.run(None, given)[0], np.float64)

        return run

    def _probed(self) -> str:
        """'logits' or 'probabilities', from unlike and like pairs of noise, black and white."""
        rng, side = np.random.default_rng(0), self.tile_px
        noise = rng.random((2, 1, 3, side, side), dtype=np.float32)
        black, white = np.zeros_like(noise[0]), np.ones_like(noise[0])
        seen = [self._run(a, b) for a, b in ((noise[0], noise[1]), (noise[0], noise[0]), (black, white), (white, black))]
        if any(x.ndim != 4 or x.shape[0] != 1 or x.shape[1] not in (1, 2) or not np.isfinite(x).all() for x in seen):
            shape = "×".join(str(n) for n in seen[0].shape)
            raise ToolAbstainedError(f"{self.card.name} gives {shape} values for a pair of pictures of {side} pixels; a change "
                                     "model gives 1×1×rows×columns or 1×2×rows×columns.", code="MODEL_MISSING",
                                     needs={"model": self.card.name})
        every = np.concatenate([x.ravel() for x in seen])
        return "logits" if every.min() < -1e-4 or every.max() > 1 + 1e-4 else "probabilities"

    def tile(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
        """Probability of change (rows, columns) of one pair of tiles (rows, columns, 3) in 0..1."""
        a, b = (np.ascontiguousarray(x.transpose(2, 0, 1)[None]) for x in (one, other))
        with _loaded.lock:
            raw = self._run(a, b)[0]
        if not np.isfinite(raw).all():
            raise ToolAbstainedError(f"{self.card.name} gives values that are no numbers.", code="TOOL_FAILED")
        if self.output == "probabilities" and (raw.min() < -1e-4 or raw.max() > 1 + 1e-4):
            raise ToolAbstainedError(f"{self.card.name} gives values outside 0 to 1 here although its probes were within: "
                                     "whether they are logits is not known.", code="TOOL_FAILED")
        if self.output == "logits":
            p = 1 / (1 + np.exp(-np.clip(raw[-1] - (raw[0] if len(raw) == 2 else 0.0), -60, 60)))
        else:
            p = raw[-1]
        return p if p.shape == one.shape[:2] else _enlarged(p, one.shape[:2])

    def look(self, one: NDArray[np.float32], other: NDArray[np.float32], *, is_cancelled: Callable[[], bool] = lambda: False
             ) -> tuple[NDArray[np.float64], int]:
        """(probability of change (rows, columns), tiles) of a pair of pictures (rows, columns, 3) in 0..1 of any size."""
        h, w = one.shape[:2]
        side = self.tile_px
        pad = ((0, max(0, side - h)), (0, max(0, side - w)), (0, 0))
        one, other = (np.pad(x, pad, mode="edge") for x in (one, other))
        overlap = min(OVERLAP_PX, side // 8)
        ramp = np.minimum(np.arange(side) + 1, np.arange(side)[::-1] + 1).clip(max=overlap) / overlap
        weight = np.outer(ramp, ramp)
        total, p, n = np.zeros(one.shape[:2]), np.zeros(one.shape[:2]), 0
        for y in _starts(one.shape[0], side, overlap):
            for x in _starts(one.shape[1], side, overlap):
                if is_cancelled():
                    raise ToolAbstainedError("The run was cancelled.", code="TOOL_FAILED")
                at = slice(y, y + side), slice(x, x + side)
                p[at] += self.tile(one[at], other[at]) * weight
                total[at] += weight
                n += 1
        return (p / total)[:h, :w], n


def _starts(length: int, side: int, overlap: int) -> list[int]:
    step = side - overlap
    return [*range(0, max(1, length - side), step), length - side] if length > side else [0]


def _enlarged(p: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[np.float64]:
    """A coarser map at the pictures' pixels, bilinear between its pixel centres."""
    from scipy import ndimage

    rows, cols = ((np.arange(n) + 0.5) * m / n - 0.5 for n, m in zip(shape, p.shape, strict=True))
    return np.asarray(ndimage.map_coordinates(p, np.meshgrid(rows, cols, indexing="ij"), order=1, mode="nearest"))


def load_changer(card: ModelCard, path: Path) -> ChangeModel:
    """The change model of a card, loaded once a process. Raises ToolAbstainedError (MODEL_MISSING) where it cannot be used."""
    if card.task != "change" or card.format not in ("onnx", "torchscript"):
        raise ToolAbstainedError(f"{card.name} is no change model; one is added with `./rsure models add FILE --task change` as "
                                 "ONNX or TorchScript.", code="MODEL_MISSING", needs={"model": card.name})
    return _loaded.get((card.name, card.sha256), lambda: ChangeModel(card, verified(card, path)))
