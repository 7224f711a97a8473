"""Map tiles of one COG: ours against plain rio-tiler, which opens, reads, rescales and renders for each tile."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from apps.evaluation.assembly import bench_door
from apps.evaluation.benchmarks.imagery import repeated_scene
from apps.evaluation.benchmarks.pairs import Benchmark, Row, compared, in_turns, spread
from apps.imagery import tiles
from apps.imagery.readers import open_scene
from apps.imagery.statistics import scene_statistics

SIDE_PX = 4096
CLIENTS = 16
TILES = 60


def _addresses(bounds: tuple[float, float, float, float], zooms: tuple[int, ...], n: int) -> list[tuple[int, int, int]]:
    import math

    west, south, east, north = bounds
    out = []
    for i in range(n):
        z = zooms[i % len(zooms)]
        k = ((i * 37) % n) / n
        lon, lat = west + (east - west) * (0.05 + 0.9 * k), south + (north - south) * (0.05 + 0.9 * ((i * 53) % n) / n)
        x = int((lon + 180) / 360 * 2**z)
        y = int((1 - math.asinh(math.tan(math.radians(lat))) / math.pi) / 2 * 2**z)
        out.append((z, x, y))
    return out


def run(size: int | None) -> list[Row]:
    """A ``size``² (4096) four-band uint16 COG; one client tile by tile, then 16 clients at once."""
    from rio_tiler.io import Reader

    side = size or SIDE_PX
    with tempfile.TemporaryDirectory(prefix="rsure-bench-") as scratch:
        path = repeated_scene(Path(scratch), side)
        info, cog = bench_door(Path(scratch)).describe(path, {1: "blue", 2: "green", 3: "red", 4: "nir"}, "bench", None)
        with open_scene(info, cog) as reader:
            statistics_of = scene_statistics(reader)
        view = tiles.View((3, 2, 1))
        limits = [tiles.stretch_range(statistics_of, b, "percent") for b in (3, 2, 1)]

        def ours(at: tuple[int, int, int]) -> Any:
            rgba = tiles.bounded(lambda: tiles.scene_rgba(info, cog, statistics_of, view, *at))
            return None if rgba is None else tiles.encode(rgba)

        def plain(at: tuple[int, int, int]) -> Any:
            z, x, y = at
            with Reader(str(cog)) as source:
                image = source.tile(x, y, z, indexes=(3, 2, 1))
            image.rescale(in_range=limits)
            return image.render(img_format="PNG")

        places = _addresses(info.grid.lonlat_bounds(), (12, 13, 14), TILES)
        mine: list[float] = []
        theirs: list[float] = []
        for at in places:
            a, b = in_turns(lambda at=at: ours(at), lambda at=at: plain(at), 1)  # type: ignore[misc]
            mine += a
            theirs += b
        rows = [
            compared(
                "tile p50, one client",
                [1000 * v for v in mine],
                "plain rio-tiler",
                [1000 * v for v in theirs],
                unit="ms",
                note=f"{TILES} tiles of {side}² × 4 uint16",
            )
        ]
        rows += _many(ours, plain, places)
    return rows


def _many(ours: Callable[[Any], Any], plain: Callable[[Any], Any], places: list[tuple[int, int, int]]) -> list[Row]:
    import time

    def timed(work: Callable[[Any], Any], at: tuple[int, int, int]) -> float:
        began = time.perf_counter()
        work(at)
        return 1000 * (time.perf_counter() - began)

    figures: dict[str, list[list[float]]] = {"ours": [], "plain": []}
    with ThreadPoolExecutor(CLIENTS) as pool:
        for _ in range(3):
            for name, work in (("ours", ours), ("plain", plain)):
                figures[name].append(list(pool.map(lambda at, w=work: timed(w, at), places * 2)))  # type: ignore[misc]
    rows = []
    for percent in (50, 99):
        mine, theirs = ([statistics.quantiles(v, n=100)[percent - 1] for v in figures[who]] for who in ("ours", "plain"))
        ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
        rows.append(
            Row(f"tile p{percent}, {CLIENTS} clients", spread(mine), "plain rio-tiler", spread(theirs), spread(ratios), "ms")
        )
    return rows


BENCHMARKS = (Benchmark("tiles", "map tiles, one client and 16", run),)
