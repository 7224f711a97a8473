"""Vector layers as one GeoPackage, written by OGR in a limited process of its own: the web process loads no vector driver.

What is written are layers of ours, but their labels and attributes come of questions and files: names of layers and columns are
made safe here, everything else is a value.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from apps.core.errors import FaultError, UserError
from apps.imagery import ingest

# One file serves a desktop program; more features than these are fetched layer by layer.
MAX_FEATURES = 200_000
WRITE_SECONDS = 120
MAX_COLUMNS = 60
# What the writer itself calls its columns.
RESERVED = frozenset({"fid", "geom", "ogc_fid", "rowid", "oid", "_rowid_", "more"})
_COLUMN = re.compile(r"[a-z][a-z0-9_]{0,59}")
_RESULT_BYTES = 2**20
Value = str | int | float | bool | None


class GeoPackageLayer(BaseModel):
    """One layer to be written. ``crs`` None: pixel coordinates (x right, y down), kept in the undefined Cartesian system (-1).

    ``features`` are GeoJSON features. ``geometry_type`` is written where there are none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,59}$")
    crs: str | None
    description: str = Field(max_length=1000)
    geometry_type: Literal["Point", "Polygon"]
    features: list[dict[str, Any]]


class Written(BaseModel):
    """What the process says that it wrote: layer → number of features."""

    model_config = ConfigDict(extra="forbid")
    layers: dict[str, int]


def safe_name(text: str, taken: Sequence[str] = (), most: int = 60) -> str:
    """A name of ``a-z0-9_`` that begins with a letter, is at most ``most`` long and is not among ``taken``."""
    plain = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    name = (plain if plain[:1].isalpha() else f"layer_{plain}".rstrip("_"))[:most].rstrip("_")
    at, n = name, 1
    while at in taken:
        n += 1
        at = f"{name[: most - len(str(n)) - 1]}_{n}"
    return at


def columns_of(features: Sequence[dict[str, Any]]) -> dict[str, list[Value]]:
    """Attributes by column, one value a feature. A name that is no column's, and a value that is no scalar or not of its
    column's type, stands as JSON in ``more``."""
    held = [f.get("properties") or {} for f in features]
    names = [n for n in dict.fromkeys(k for p in held for k in p) if isinstance(n, str)]
    columns: dict[str, list[Value]] = {}
    for name in names:
        if len(columns) >= MAX_COLUMNS or not _COLUMN.fullmatch(name) or name in RESERVED:
            continue
        values = [p.get(name) for p in held]
        kinds = {type(v) for v in values if v is not None}
        if kinds == {int, float}:
            values, kinds = [None if v is None else float(v) for v in values], {float}
        if len(kinds) == 1 and kinds <= {str, int, float, bool}:
            # what does not fit 64 bits is no integer of the file
            if kinds == {int} and not all(v is None or -(2**63) <= v < 2**63 for v in values):
                continue
            columns[name] = values
        elif not kinds:
            columns[name] = [None] * len(held)
    rest = [{k: v for k, v in p.items() if k not in columns} for p in held]
    if any(rest):
        columns["more"] = [json.dumps(r, ensure_ascii=False) if r else None for r in rest]
    return columns


def geopackage_bytes(layers: Sequence[GeoPackageLayer]) -> bytes:
    """The layers as one GeoPackage, in their order.

    UserError TOO_LARGE beyond MAX_FEATURES; ValueError where two layers have one name or there is none; FaultError where the
    writing process broke.
    """
    if not layers or len({layer.name for layer in layers}) != len(layers):
        raise ValueError("a GeoPackage needs layers, each with a name of its own")
    n = sum(len(layer.features) for layer in layers)
    if n > MAX_FEATURES:
        raise UserError(
            "TOO_LARGE", "The layers are too large for one GeoPackage.",
            f"They hold {n:,} features; {MAX_FEATURES:,} are written.",
            "Take the layers one by one from their observations.", status=413,
        )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="rsure-geopackage-") as work:
        folder = Path(work)
        job = [layer.model_dump(mode="json") | {"columns": columns_of(layer.features)} for layer in layers]
        (folder / "job.json").write_text(json.dumps(job, allow_nan=False))
        command = [*ingest.walled(folder), sys.executable, "-s", "-m", "apps.imagery.geopackage_process", str(folder)]
        code = ingest.run_limited(command, folder, skipped="", seconds=WRITE_SECONDS)
        result, file = folder / "result.json", folder / "layers.gpkg"
        if code != 0 or not result.exists() or not file.exists():
            raise FaultError(f"the process that writes the GeoPackage ended with {code}")
        written = ingest.result_of(result, Written, "geopackage", _RESULT_BYTES)
        if written.layers != {layer.name: len(layer.features) for layer in layers}:
            raise FaultError("the GeoPackage does not hold all features")
        return file.read_bytes()
