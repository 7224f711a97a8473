"""What every recipe keeps of a run: the running mean of the weights, and a checkpoint that a kill cannot lose.

A checkpoint holds tensors and numbers alone and is read with ``weights_only``. It is written beside its place, flushed to the
disk and renamed, so that at every moment either the former or the new one stands there whole.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from apps.tools.zoo.runtime import torch_module


def average_into(mean: dict[str, Any], model: Any, step: int, *, most: float, lag: int) -> None:
    """Moves ``mean`` (a state dict, changed in place) towards the model's state after ``step`` (from 0) was taken.

    The former mean keeps the share k = min(most, (1 + step) / (lag + step)), so that the first weights are soon forgotten;
    numbers that are no floats (counters) are copied.
    """
    torch = torch_module()
    k = min(most, (1 + step) / (lag + step))
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.dtype.is_floating_point:
                mean[name].mul_(k).add_(value.detach(), alpha=1 - k)
            else:
                mean[name].copy_(value)


def seed_step(seed: int, step: int) -> None:
    """Sets torch's generator (dropout's) for one step, so that a resumed run draws what an unbroken one draws there."""
    torch_module().manual_seed(seed * 1_000_003 + step)


def write_whole(content: dict[str, Any], path: Path) -> None:
    """``torch.save`` beside ``path`` (suffix .part), flushed to the disk, then renamed: a kill leaves the former file whole."""
    part = path.with_suffix(".part")
    torch_module().save(content, part)
    _flush(part)
    part.replace(path)
    _flush(path.parent)  # the new name too


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def save_checkpoint(path: Path, model: Any, optimizer: Any, mean: dict[str, Any], step: int) -> None:
    """Writes what ``resume_from`` reads; ``step`` is the number of steps that were taken."""
    write_whole({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "mean": mean, "step": step}, path)


def resume_from(path: Path, model: Any, optimizer: Any, *, resume: bool, device: Any = "cpu") -> tuple[dict[str, Any], int]:
    """(running mean of the weights, step to go on with); model and optimizer are set to the checkpoint's state.

    Without ``resume``, or where there is no checkpoint yet, they stay as they are: (a copy of the model's state, 0).
    """
    if not (resume and path.exists()):
        return {k: v.detach().clone() for k, v in model.state_dict().items()}, 0
    # our own checkpoint, tensors and numbers only
    saved = torch_module().load(path, map_location=device, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    start = int(saved["step"])
    print(f"resumed at step {start}", flush=True)
    return saved["mean"], start
