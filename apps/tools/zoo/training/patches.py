"""Trains a small network on many patches of one size (EuroSAT: 27,000 of 64 × 64 pixels).

All patches lie in memory as one uint8 array. Every step's patches and views are drawn from a generator seeded by (seed, step), so
a run is resumable: with the same ``epochs`` it ends as an unbroken one would, with fewer it goes on at the same step of a shorter
schedule.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.tools.zoo.classifiers import INPUT
from apps.tools.zoo.runtime import torch_module
from apps.tools.zoo.training.checkpoints import resume_from, save_checkpoint
from apps.tools.zoo.training.steps import average_into, batch_at, log_step, seed_step, take_step

SHIFT_PX = 4


def views_of(patches: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.float32]:
    """Random views (n, side, side, 3), float 0..255, of patches uint8 of that shape: one of the eight turns and mirrors each,
    moved by up to SHIFT_PX with reflected edges, in other light (contrast, brightness and a gain by channel)."""
    n, side = patches.shape[:2]
    x = np.pad(patches, ((0, 0), (SHIFT_PX, SHIFT_PX), (SHIFT_PX, SHIFT_PX), (0, 0)), mode="reflect")
    turn: NDArray[np.int64] = np.asarray(rng.integers(8, size=n))
    at: NDArray[np.int64] = np.asarray(rng.integers(2 * SHIFT_PX + 1, size=(n, 2)))
    out = np.empty((n, side, side, 3), np.float32)
    for i in range(n):
        view = x[i, at[i, 0]:at[i, 0] + side, at[i, 1]:at[i, 1] + side]
        view = np.rot90(view, int(turn[i]) % 4)
        out[i] = view[:, ::-1] if turn[i] > 3 else view
    gain = rng.uniform(0.85, 1.18, (n, 1, 1, 1)) * rng.uniform(0.96, 1.04, (n, 1, 1, 3))
    mean = out.mean(axis=(1, 2), keepdims=True)
    out = (out - mean) * gain.astype(np.float32) + mean * rng.uniform(0.88, 1.14, (n, 1, 1, 1)).astype(np.float32)
    return np.asarray(out.clip(0, 255), np.float32)


def train_patches(pictures: NDArray[np.uint8], truth: NDArray[np.int64], model: Any, out: Path, *, architecture: str, epochs: int,
                  batch: int, lr: float, seed: int, resume: bool, is_warm: bool = False,
                  stop_after: int | None = None) -> dict[str, Any]:
    """Runs or resumes the training of ``model`` on patches (n, side, side, 3); ``out`` gets last.pt and log.jsonl.

    AdamW from given weights, else SGD with Nesterov momentum; one warm-up and a cosine, label smoothing 0.05. Returns the running
    mean of the weights.
    """
    torch = torch_module()
    _, middle, spread = INPUT[architecture]
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.02 if is_warm else 5e-4}, {"params": plain, "weight_decay": 0.0}]
    optimizer = (torch.optim.AdamW(groups, lr=lr) if is_warm else
                 torch.optim.SGD(groups, lr=lr, momentum=0.9, nesterov=True))
    steps = epochs * (len(pictures) // batch)
    last = out / "last.pt"
    mean, start = resume_from(last, model, optimizer, resume=resume)
    model.to(memory_format=torch.channels_last)
    model.train()
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing=0.05)
    m, s = np.array(middle, np.float32) * 255, np.array(spread, np.float32) * 255
    began, total = time.time(), 0.0
    for step in range(start, steps):
        at = batch_at(seed, step, len(pictures), batch)
        views = (views_of(pictures[at], np.random.default_rng([seed, step, 1])) - m) / s
        x = torch.from_numpy(np.ascontiguousarray(views)).permute(0, 3, 1, 2)    # already channels last in memory
        warm = min(1.0, (step + 1) / (0.12 * steps))
        for group in optimizer.param_groups:
            group["lr"] = lr * warm * max(0.002, 0.5 * (1 + math.cos(math.pi * step / steps)))
        seed_step(seed, step)
        loss = loss_of(model(x), torch.from_numpy(truth[at]))
        take_step(loss, optimizer, model.parameters(), most_norm=5.0)
        average_into(mean, model, step, most=0.998, lag=10)
        total += float(loss.detach())
        if (step + 1) % 50 == 0:
            log_step(out, step + 1, steps, {"loss": round(total / 50, 4)}, began=began, taken=step + 1 - start, digits=3)
            total = 0.0
        if (step + 1) % 150 == 0 or step + 1 in (steps, stop_after):
            save_checkpoint(last, model, optimizer, mean, step + 1)
        if step + 1 == stop_after:
            break
    return mean
