"""What the recipes share of a run: its arguments, what a step draws and takes, the running mean of the weights, and the log."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.errors import UserError
from apps.tools.zoo.runtime import torch_module

MOST = 1_000_000_000


def run_parser(description: str | None, add_arguments: Callable[[argparse.ArgumentParser], None], prog: str | None = None
               ) -> argparse.ArgumentParser:
    """Data, place, resume and seed, and then what the recipe adds; ``prog`` is what the help calls the program."""
    parser = argparse.ArgumentParser(prog, description=description)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="labelled pictures, laid out as told above")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="gets checkpoint, log and weights")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help="the same seed draws the same pictures")
    add_arguments(parser)
    return parser


def whole(least: int, *, step: int = 1) -> Callable[[str], int]:
    """A type for argparse: a whole number that is not below ``least`` and a multiple of ``step``."""
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= MOST or value % step:
            of = f", a multiple of {step}" if step > 1 else ""
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from {least:,} to {MOST:,}{of}")
        return value

    return read


def rate(text: str) -> float:
    """A type for argparse: a step size, above 0 and up to 10."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 10:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number above 0 and up to 10")
    return value


def check_pictures(n: int, split: str) -> None:
    """UserError UNREADABLE where a split has no pictures."""
    if n == 0:
        raise UserError("UNREADABLE", "There is nothing to train on.", f"The folder has no pictures of the split “{split}”.",
                        "Give --data a folder that is laid out as --help tells.")


def check_batch(n: int, batch: int) -> None:
    """UserError BAD_ARGUMENT where the pictures do not fill one batch."""
    if batch > n:
        raise UserError("BAD_ARGUMENT", f"A batch of {batch:,} cannot be filled.", f"There are {n:,} pictures.",
                        "Give a smaller --batch, or more pictures.")


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
