"""What every recipe keeps of a run, and what it starts from: a checkpoint that a kill cannot lose.

A checkpoint holds tensors and numbers alone and is read with ``weights_only``. It is written beside its place, flushed to the
disk and renamed, so that at every moment either the former or the new one stands there whole.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from apps.tools.zoo.runtime import torch_module


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


def warm_start(model: Any, state: dict[str, Any]) -> None:
    """Takes over the tensors of ``state`` that fit by name and shape; the rest of the model stays as it is."""
    own = model.state_dict()
    fitting = {k: v for k, v in state.items() if k in own and own[k].shape == v.shape}
    model.load_state_dict(fitting, strict=False)
    print(f"warm start: {len(fitting)} of {len(own)} tensors", flush=True)
