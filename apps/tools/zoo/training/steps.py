"""What the recipes share of a run: its arguments, what a step draws and takes, the running mean of the weights, and the log."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.tools.zoo.runtime import torch_module


def run_parser(description: str | None, add_arguments: Callable[[argparse.ArgumentParser], None]) -> argparse.ArgumentParser:
    """Data, place, resume and seed, and then what the recipe adds."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    add_arguments(parser)
    return parser


def batch_at(seed: int, step: int, n: int, batch: int) -> NDArray[np.int64]:
    """Which of ``n`` pictures a step sees: every epoch of n // batch steps goes through them in an order of its own."""
    per_epoch = n // batch
    order = np.random.default_rng([seed, step // per_epoch]).permutation(n)
    return order[(step % per_epoch) * batch:(step % per_epoch + 1) * batch]


def seed_step(seed: int, step: int) -> None:
    """Sets torch's generator (dropout's) for one step, so that a resumed run draws what an unbroken one draws there."""
    torch_module().manual_seed(seed * 1_000_003 + step)


def take_step(loss: Any, optimizer: Any, parameters: Iterable[Any], *, most_norm: float) -> None:
    """One step of the optimizer down the loss, the gradient's norm over ``parameters`` cut to ``most_norm``."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch_module().nn.utils.clip_grad_norm_(parameters, most_norm)
    optimizer.step()


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


def log_step(out: Path, step: int, steps: int, found: dict[str, Any], *, began: float, taken: int, digits: int) -> None:
    """A line of log.jsonl: the step (from 1), what was found, and seconds a step of the ``taken`` ones since ``began``."""
    line = {"step": step, "of": steps, **found, "s_per_step": round((time.time() - began) / taken, digits)}
    with (out / "log.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
