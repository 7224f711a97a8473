"""Benchmarks: ours beside a named peer, alternately in one run on this machine, as ratios with their spread. Never a test."""

from apps.evaluation.benchmarks import ask, cog, detection, raster, series, tiles, verification
from apps.evaluation.benchmarks.pairs import Benchmark, Row

BENCHMARKS: dict[str, Benchmark] = {
    b.name: b
    for module in (verification, tiles, ask, raster, cog, series, detection)
    for b in module.BENCHMARKS
}
__all__ = ["BENCHMARKS", "Benchmark", "Row"]
