"""What quality bands flag beside what is taken out: of the asked region, and of more than a dozen scenes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from apps.core.geo.bands import Band
from apps.tools.execute.left_in import left_in
from apps.tools.region import RegionMask
from tests.unit.tools.rasters import Bench, scene


def landsat(scene_id: str, qa: np.ndarray) -> Any:
    """A red band and a quality band of Collection 2 (USGS LSDS-1619, table 6-3: bit 2 cirrus, 3 cloud)."""
    info, stored = scene(np.stack([np.full(qa.shape, 500), qa]).astype("uint16"), ["red", "qa"], scene_id=scene_id)
    bands = tuple(b.model_copy(update={"scheme": "landsat_c2"}) if b.role == "qa" else b for b in info.bands)
    return info.model_copy(update={"bands": bands}), stored


def mean_nodes(k: int, scene_id: str) -> list[tuple[Any, ...]]:
    return [(f"s{k}", "asset.scene", (), {"scene": scene_id}),
            (f"r{k}", "raster.product.band", [f"s{k}"], {"role": "red", "quality_mask": "auto"})]  # fmt: skip


def test_every_scene_of_many_is_looked_at_and_told_in_one_line() -> None:
    """Before, the thirteenth and later were not looked at."""
    qa = np.full((20, 20), 21824)
    scenes = []
    for k in range(15):
        one = qa.copy()
        one[:, :k] |= 4  # cirrus in so many of 20 columns
        scenes.append(landsat(f"t{k}", one))
    bench = Bench(*scenes)
    nodes = [n for k in range(15) for n in mean_nodes(k, f"t{k}")]
    o = bench.execute([*nodes, ("c", "raster.product.composite", [f"r{k}" for k in range(15)], {}),
                       ("out", "raster.summarize.statistic", ["c"], {})])  # fmt: skip
    assert o.status.state == "ok", o.status.reason
    told = o.evidence.intermediate["quality_left_in"]
    assert {k: v.get("cirrus", 0) for k, v in told.items()} == {f"t{k}": pytest.approx(k / 20) for k in range(15)}
    said = [line.message for line in o.status.log if "beside what was left out" in line.message]
    (line,) = said
    assert line.startswith("The quality bands of 14 of 15 scenes flag up to cirrus on 70.0 % of what was asked for")


@pytest.mark.parametrize("side", [1024, 60])
def test_the_share_is_that_of_the_region_looked_at_whole_or_by_samples(side: int) -> None:
    rng = np.random.default_rng(2)
    qa = np.where(rng.random((300, 400)) < 0.3, 21824 | 4, 21824)
    qa[:, 200:] = 21824 | 4
    info, stored = landsat("s", qa)
    bench = Bench((info, stored))
    triangle = {"type": "Polygon", "coordinates": [[[20, 20], [180, 20], [180, 280], [20, 20]]]}
    region = RegionMask.of(triangle, "image", info.grid)
    band: Band = info.bands[1]
    found = left_in(bench._open(info), band, "landsat_c2", ("cloud",), region, side)
    inside = region.mask((0, 0, 400, 300))
    truth = ((qa & 4) > 0)[inside].mean()
    assert 0.25 < truth < 0.35 and found["cirrus"] == pytest.approx(truth, abs=1e-12 if side == 1024 else 0.04)
