"""Benchmarks: ours beside a named peer, alternately in one run on this machine, as ratios with their spread. Never a test."""

from apps.evaluation.benchmarks import ask, detection, raster, tiles, verification
from apps.evaluation.benchmarks.pairs import Benchmark, Row

BENCHMARKS: dict[str, Benchmark] = {
    b.name: b for b in (*verification.BENCHMARKS, *tiles.BENCHMARKS, *ask.BENCHMARKS, *raster.BENCHMARKS, *detection.BENCHMARKS)
}
__all__ = ["BENCHMARKS", "Benchmark", "Row"]
