"""What verification costs: milliseconds an observation and its share of a run, over the bench's honest questions."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from apps.evaluation.assembly import bench_door
from apps.evaluation.benchmarks.pairs import Benchmark, Row, spread
from apps.evaluation.faultbench.cases import bench_cases
from apps.evaluation.faultbench.runner import Bench
from apps.imagery.sample import FOLDER as SAMPLES

ROUNDS = 3


def run(size: int | None) -> list[Row]:
    """Each shipped question ``size`` times (3 by default) with verification; the peer is the same run's tools."""
    per_observation: list[float] = []
    shares: list[float] = []
    against_tools: list[float] = []
    with tempfile.TemporaryDirectory(prefix="rsure-bench-") as scratch:
        bench = Bench(bench_door(Path(scratch)), [c for c in bench_cases() if not c.is_shared], [SAMPLES], Path(scratch))
        for case in bench.cases:
            for _ in range(size or ROUNDS):
                state, _, seconds = bench.run(case, None, "verification", None)
                spent = [d.elapsed_s for o in state.observations.values() for d in o.decisions]
                per_observation += spent
                shares.append(sum(spent) / seconds)
                if state.cost.tools_s > 0:
                    against_tools.append(sum(spent) / state.cost.tools_s)
    milliseconds = [1000 * s for s in per_observation]
    tail = statistics.quantiles(milliseconds, n=20)[-1] if len(milliseconds) > 1 else milliseconds[0]
    return [
        Row(
            "verification of one observation", spread(milliseconds), unit="ms", note=f"p95 {tail:.1f} ms over {len(milliseconds)}"
        ),
        Row("verification, share of the run", spread([100 * s for s in shares]), unit="%"),
        Row(
            "verification ÷ tools in the same run",
            spread(against_tools),
            "the run's own tools",
            (1.0, 1.0, 1.0),
            spread(against_tools),
            unit="×",
        ),
    ]


BENCHMARKS = (Benchmark("verify", "milliseconds of verification an observation, and its share of the run", run),)
