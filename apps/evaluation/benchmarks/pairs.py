"""How two things are timed fairly on a noisy machine: in turns, each round giving one ratio."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: ours and the peer's (median, least, greatest), and the ratio ours ÷ peer by round."""

    what: str
    ours: tuple[float, float, float]
    peer_name: str = ""
    peer: tuple[float, float, float] | None = None
    ratio: tuple[float, float, float] | None = None
    unit: str = "s"
    note: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A named set of comparisons. ``run`` gets the size that the person asked for (None: the benchmark's own)."""

    name: str
    what: str
    run: Callable[[int | None], list[Row]]


def spread(values: list[float]) -> tuple[float, float, float]:
    """(median, least, greatest)."""
    return statistics.median(values), min(values), max(values)


def in_turns(ours: Callable[[], Any], peer: Callable[[], Any], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of each, ``rounds`` times, the order changing from round to round; one unmeasured round warms both."""
    ours()
    peer()
    mine: list[float] = []
    theirs: list[float] = []
    for i in range(rounds):
        for work, kept in ((ours, mine), (peer, theirs)) if i % 2 == 0 else ((peer, theirs), (ours, mine)):
            began = time.perf_counter()
            work()
            kept.append(time.perf_counter() - began)
    return mine, theirs


def compared(
    what: str, ours: list[float], peer_name: str, peer: list[float], *, unit: str = "s", note: str = "", **detail: Any
) -> Row:
    """A row of paired measurements."""
    ratios = [a / b for a, b in zip(ours, peer, strict=True) if b > 0]
    return Row(what, spread(ours), peer_name, spread(peer), spread(ratios), unit, note, detail)


def in_process(code: str, *arguments: str, timeout_s: float = 900.0) -> dict[str, float]:
    """Runs Python ``code`` in a fresh process; seconds as the code itself prints them on its last line, and its peak RSS in MB.

    RuntimeError with the last line of its errors where it fails.
    """
    began = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    try:
        out, err = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise RuntimeError(f"no end within {timeout_s:g} s") from None
    if child.returncode:
        raise RuntimeError((err.strip().splitlines() or ["no message"])[-1][:300])
    seconds, value, peak, cpu = (out.strip().splitlines()[-1] + " nan nan nan").split()[:4]
    wall = time.perf_counter() - began
    return {"seconds": float(seconds), "value": float(value), "rss_mb": float(peak), "cpu_s": float(cpu), "wall_s": wall}


# what a measured child prints at its end: its own seconds, its value, its peak RSS in MB, and its processor's seconds: those of
# what it measured, where it marked the start as ``_cpu``
CHILD_END = """
import resource as _r
_u = _r.getrusage(_r.RUSAGE_SELF)
print(_seconds, _value, _u.ru_maxrss / 1024, _u.ru_utime + _u.ru_stime - globals().get("_cpu", 0.0))
"""


def peak_rss_mb() -> float:
    """Peak resident memory of this process, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
