"""Masks beyond what is read whole: shares, areas and counts are verified strip by strip, with memory for one strip."""

from __future__ import annotations

import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.core.digests import digest_bytes, digest_file
from apps.core.errors import FaultError
from apps.core.geo.grid import Grid
from apps.core.geo.measures import area_of_mask_m2
from apps.imagery.layers import ArtifactLayerStore
from apps.verification.checks import run_checks
from apps.verification.limits import Limits
from tests.unit.verification import samples as s
from tests.unit.verification.samples import Sample


class Files:
    """Content-addressed files in a folder."""

    def __init__(self, root: Path):
        self.root = root

    def put(self, data: bytes | Path, *, media_type: str = "") -> str:
        digest = digest_file(data) if isinstance(data, Path) else digest_bytes(data)
        target = self.root / digest[7:]
        if isinstance(data, Path):
            shutil.copyfile(data, target)
        else:
            target.write_bytes(data)
        return digest

    def path(self, digest: str) -> Path:
        return self.root / digest[7:]


def large(sample: Sample, rows: int = 7) -> Sample:
    """The same case where four pixels are too many to be read whole, with a store that reads strips of seven rows."""
    layers = sample.bench.layers

    class Strips:
        def __getattr__(self, name: str) -> Any:
            if name == "read_mask":
                raise AssertionError("a large mask was read whole")
            return getattr(layers, name)

        def mask_strips(self, ref: Any) -> Iterator[tuple[int, Any, Any]]:
            mask, valid = layers.read_mask(ref)
            for top in range(0, len(mask), rows):
                yield top, mask[top : top + rows], valid[top : top + rows]

    made = sample.but(limits=Limits(max_layer_px=4))
    made.bench = type("B", (), {"layers": Strips(), "question": sample.bench.question, "stored": sample.bench.stored})()  # type: ignore[assignment]
    return made


def outcome(sample: Sample, check: str) -> str:
    return run_checks(sample.case(), [check])[0][0].outcome


@pytest.mark.parametrize("check, make, wrong", [
    ("consistency.area_recomputes", s.area, lambda: s.area().but({"/result/value": 1.0})),
    ("consistency.share_recomputes", s.share, lambda: s.share().but({"/result/value": 0.99})),
    ("consistency.mask_count_on_record", s.water, lambda: s.water().but({"/evidence/intermediate/mask_px": 12})),
])
def test_large_masks_are_checked_as_small_ones(check: str, make: Callable[[], Sample], wrong: Callable[[], Sample]) -> None:
    assert outcome(make(), check) == outcome(large(make()), check) == "passed"
    assert outcome(wrong(), check) == outcome(large(wrong()), check) == "failed"


def test_a_store_without_strips_leaves_a_large_mask_open() -> None:
    sample = s.water().but(limits=Limits(max_layer_px=4))
    assert not hasattr(sample.bench.layers, "mask_strips")
    assert outcome(sample, "consistency.mask_count_on_record") == "inconclusive"


def test_strips_of_a_stored_mask_are_the_mask_and_take_little_memory(tmp_path: Path) -> None:
    grid = Grid(crs="EPSG:32632", transform=(10, 0, 500_000, 0, -10, 5_400_000), width=6000, height=5000)
    rows, columns = np.ogrid[:5000, :6000]
    mask, valid = (rows // 37 + columns // 53) % 3 == 0, (rows + columns) % 1009 != 0
    store = ArtifactLayerStore(Files(tmp_path))
    ref = store.put_mask(mask, valid, grid, label="water")
    n = area = 0.0
    tracemalloc.start()
    for top, part, known in store.mask_strips(ref):
        assert np.array_equal(part, (mask & valid)[top : top + len(part)]) and np.array_equal(known, valid[top : top + len(part)])
        n += np.count_nonzero(part)
        area += area_of_mask_m2(part, grid.window(0, top, grid.width, len(part))).area_m2
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n == ref.n == (mask & valid).sum()
    assert area == pytest.approx(area_of_mask_m2(mask & valid, grid).area_m2, rel=1e-9)
    assert peak < 120e6            # of 30 million pixels the mask as float64 areas alone would take 240 MB


def test_strips_of_something_else_are_refused(tmp_path: Path) -> None:
    store = ArtifactLayerStore(Files(tmp_path))
    grid = Grid(crs="EPSG:32632", transform=(10, 0, 0, 0, -10, 0), width=8, height=8)
    ref = store.put_mask(np.ones((8, 8), bool), np.ones((8, 8), bool), grid, label="x")
    raster = store.put_raster(raster_of(grid), label="x")
    with pytest.raises(FaultError, match="no mask"):
        list(store.mask_strips(ref.model_copy(update={"artifact": raster.artifact})))


def raster_of(grid: Grid) -> Any:
    from apps.core.geo.bands import Band
    from apps.core.geo.raster import MaskedRaster

    return MaskedRaster(np.ones((1, 8, 8), np.float32), np.ones((1, 8, 8), bool), grid, (Band(index=1, role="index"),), "1")
