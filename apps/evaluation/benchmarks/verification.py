"""What verification costs: milliseconds an observation and its share of a run, by kind of run.

Every kind is run with pixels that were never looked at ("first look": the judge decodes them itself) and again with the pixels
that the judge still holds from the run before, as it does when a scene is asked about more than once.
"""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from apps.evaluation.assembly import bench_door
from apps.evaluation.benchmarks.imagery import dated_scenes, repeated_scene
from apps.evaluation.benchmarks.pairs import Benchmark, Row, spread
from apps.evaluation.faultbench.cases import FISH_ROLES, BenchCase, bench_cases
from apps.evaluation.faultbench.runner import Bench
from apps.imagery.sample import FOLDER as SAMPLES
from apps.verification.planes import forget_pixels

ROUNDS = 3
LARGE_PX = 10_000
SERIES_DATES = 60
SERIES_PX = 1200


@dataclass
class _Kind:
    """What was measured of one kind of run."""

    judged_ms: list[float] = field(default_factory=list)
    per_run_ms: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    run_s: list[float] = field(default_factory=list)


def _large(folder: Path, side: int) -> list[BenchCase]:
    path = repeated_scene(folder, side)
    ask = "What is the mean NDVI?", "How many km2 have NDVI above 0.4?"
    return [BenchCase(f"large-{i}", (path.name,), text, lambda p: 0.0, roles=FISH_ROLES) for i, text in enumerate(ask)]


def _long(folder: Path, dates: int, side: int) -> list[BenchCase]:
    names = tuple(p.name for p in dated_scenes(folder, dates, side))
    roles = {1: "nir", 2: "red"}
    return [BenchCase("long", names, "What is the linear trend of NDVI per year?", lambda p: 0.0, roles=roles)]


def _measure(bench: Bench, cases: Sequence[BenchCase], rounds: int, before: Callable[[], None]) -> _Kind:
    out = _Kind()
    for case in cases:
        for _ in range(rounds):
            before()
            state, _, seconds = bench.run(case, None, "verification", None)
            spent = [d.elapsed_s for o in state.observations.values() for d in o.decisions]
            out.judged_ms += [1000 * s for s in spent]
            out.per_run_ms.append(1000 * sum(spent))
            out.shares.append(100 * sum(spent) / seconds)
            out.run_s.append(seconds)
    return out


def run(size: int | None) -> list[Row]:
    """Each kind ``size`` times (3 by default). A share is of one run's seconds without a database."""
    rounds = size or ROUNDS
    shipped = [c for c in bench_cases() if not c.is_shared]
    short = [c for c in shipped if not c.name.startswith(("sinop", "trees", "vehicles", "given", "place"))]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="rsure-bench-") as scratch:
        folder = Path(scratch)
        kinds: list[tuple[str, list[BenchCase], int]] = [
            ("short index question", short, rounds),
            ("twelve dates", [c for c in shipped if c.name.startswith("sinop")], rounds),
            ("classical detector, trees", [c for c in shipped if c.name.startswith("trees")], rounds),
            (f"{SERIES_DATES} dates of {SERIES_PX}²", _long(folder, SERIES_DATES, SERIES_PX), 1),
            (f"scene of {LARGE_PX}²", _large(folder, LARGE_PX), 1),
        ]
        if importlib.util.find_spec("torch"):
            kinds.insert(3, ("vision model", [c for c in bench_cases() if c.name == "vehicles-count"], 1))
        from apps.evaluation.faultbench.command import shared_folder

        every = [c for _, cases, _ in kinds for c in cases]
        bench = Bench(bench_door(folder), every, [SAMPLES, folder, shared_folder()], folder)
        judged: list[float] = []
        for name, cases, times in kinds:
            here = [c for c in cases if c in bench.cases]
            if not here:
                continue
            for case in here:
                bench.question(case)  # ingest is not the run's time
            bench.run(here[0], None, "none", None)  # nor are imports
            for look, before in (("first look", forget_pixels), ("pixels held", lambda: None)):
                found = _measure(bench, here, times, before)
                if name in ("short index question", "twelve dates", "classical detector, trees"):
                    judged += found.judged_ms
                rows.append(
                    Row(
                        f"{name}, {look}: share of the run",
                        spread(found.shares),
                        unit="%",
                        note=f"{statistics.median(found.judged_ms):.1f} ms an observation, "
                        f"{statistics.median(found.per_run_ms):.1f} ms a run of {statistics.median(found.run_s):.2f} s, "
                        f"{len(found.run_s)} runs",
                    )
                )
    tail = statistics.quantiles(judged, n=20)[-1] if len(judged) > 1 else judged[0]
    return [
        Row("verification of one observation", spread(judged), unit="ms", note=f"p95 {tail:.1f} ms over {len(judged)}"),
        *rows,
    ]


BENCHMARKS = (Benchmark("verify", "milliseconds of verification an observation, and its share of the run", run),)
