"""How two things are timed fairly on a noisy machine: in turns, each round giving one ratio."""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
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


def row_of(what: str, ours: list[dict[str, float]], name: str, peer: list[dict[str, float]]) -> Row:
    """A row of what ``in_process`` gave in turns, with processor time, peak memory, and a word where the values differ."""
    cpu, peer_cpu = (spread([r["cpu_s"] for r in rs])[0] for rs in (ours, peer))
    return Row(
        what,
        spread([r["seconds"] for r in ours]),
        name,
        spread([r["seconds"] for r in peer]),
        spread([a["seconds"] / b["seconds"] for a, b in zip(ours, peer, strict=True)]),
        "s",
        note=f"peak RSS {max(r['rss_mb'] for r in ours):.0f} MB against {max(r['rss_mb'] for r in peer):.0f}; processor "
        f"{cpu:.1f} s against {peer_cpu:.1f}{difference(ours[0], peer[0])}",
        detail={"value": ours[0]["value"], "peer_value": peer[0]["value"]},
    )


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
# what it measured, where it marked the start as ``_cpu``; processes that it started count with it. The kernel's ru_maxrss of a
# process begins with the size of the one that started it, so the peak is that of the memory map (VmHWM)
CHILD_END = """
import resource as _r
_u, _c = _r.getrusage(_r.RUSAGE_SELF), _r.getrusage(_r.RUSAGE_CHILDREN)
_own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(_seconds, _value, max(_own, _c.ru_maxrss if _c.ru_utime > 0.05 else 0) / 1024,
      _u.ru_utime + _u.ru_stime - globals().get("_cpu", 0.0) + _c.ru_utime + _c.ru_stime)
"""


def lacks_memory(name: str, needed_mb: float) -> str:
    """Why a peer that needs that much memory is skipped here, or ''."""
    free = next(int(line.split()[1]) / 1024 for line in Path("/proc/meminfo").read_text().splitlines()
                if line.startswith("MemAvailable:"))
    if needed_mb < 0.8 * free:
        return ""
    return f"{name} (would need {needed_mb / 1024:.1f} GB of memory, {free / 1024:.1f} GB are free)"


def add_present(programs: dict[str, str], peers: Iterable[tuple[str, str, Any, float]]) -> None:
    """Adds the peers that can run here to ``programs``, and says on standard error why others are skipped. A peer is (name, code,
    whether it is installed, bytes of memory that it needs)."""
    skipped = []
    for name, code, is_here, n_bytes in peers:
        why = lacks_memory(name, n_bytes / 2**20) if is_here else f"{name} (not installed)"
        if why:
            skipped.append(why)
        else:
            programs[name] = code
    if skipped:
        print("skipped: " + ", ".join(skipped), file=sys.stderr)


def lacks_disk(folder: str, needed_mb: float) -> str:
    """Why nothing of that size is written to ``folder``, or ''."""
    free = shutil.disk_usage(folder).free / 2**20
    return "" if needed_mb < 0.9 * free else (
        f"This needs {needed_mb / 1024:.1f} GB for scratch files, and {folder} has {free / 1024:.1f} GB; set TMPDIR to a larger "
        "disk, or ask for a smaller size.")  # fmt: skip


def difference(ours: dict[str, float], peer: dict[str, float]) -> str:
    """A word of warning where a peer's value is another one: its time then says nothing."""
    a, b = ours["value"], peer["value"]
    return "" if math.isnan(b) or b == 0.0 or math.isclose(a, b, rel_tol=1e-6) else f"; THE VALUES DIFFER: {a!r} and {b!r}"
