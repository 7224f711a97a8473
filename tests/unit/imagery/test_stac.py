"""A folder of STAC items as a catalogue: what is read, and what is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from apps.imagery.stac import stac_items

ITEM: dict[str, Any] = {
    "type": "Feature", "stac_version": "1.0.0", "id": "S2B_32TQM_20240601_0_L2A", "collection": "sentinel-2-l2a",
    "bbox": [10.0, 45.0, 11.0, 46.0], "geometry": None,
    "properties": {"datetime": "2024-06-01T23:30:00-02:00", "platform": "sentinel-2b", "instruments": ["msi"], "gsd": 10,
                   "eo:cloud_cover": 25.0, "processing:level": "L2A"},
    "assets": {"red": {"href": "../../../etc/passwd", "eo:bands": [{"name": "B04", "common_name": "red"}]},
               "nir": {"href": "https://example.org/B08.tif", "bands": [{"name": "B08", "eo:common_name": "nir"}]},
               "swir": {"href": "x", "eo:bands": [{"common_name": "swir16"}]}},
}  # fmt: skip


def test_an_item_as_the_specification_writes_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/item.json").write_text(json.dumps(ITEM))
    (found,) = stac_items(tmp_path)
    assert found == {
        "id": "S2B_32TQM_20240601_0_L2A", "date": "2024-06-02", "end_date": None,
        "sensor": "sentinel-2b msi", "collection": "sentinel-2-l2a",
        "level": "L2A", "roles": ["nir", "red", "swir1"], "bbox": [10.0, 45.0, 11.0, 46.0], "gsd_m": 10.0, "cloud_share": 0.25,
    }  # fmt: skip


def test_what_is_no_item_is_left_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps(ITEM))
    folder = tmp_path / "stac"
    folder.mkdir()
    (folder / "link.json").symlink_to(outside)
    (folder / "catalog.json").write_text(json.dumps({"type": "Catalog", "stac_version": "1.0.0"}))
    (folder / "plain.geojson").write_text(json.dumps({"type": "Feature", "properties": {}}))
    (folder / "broken.json").write_text("{")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "large.json").write_text(json.dumps(ITEM | {"note": "x" * 3_000_000}))
    assert stac_items(folder) == ()
    odd = ITEM | {"bbox": [0, 0, float("inf"), 1], "properties": {"datetime": "yesterday", "eo:cloud_cover": 400}, "assets": 3}
    (folder / "odd.json").write_text(json.dumps(odd))
    (found,) = stac_items(folder)
    assert (found["bbox"], found["date"], found["cloud_share"], found["roles"]) == (None, None, None, [])
