"""The process that writes a GeoPackage: ``python -m apps.imagery.geopackage_process FOLDER``, started by
``geopackage.geopackage_bytes``. It limits itself, reads ``FOLDER/job.json`` and leaves ``layers.gpkg`` and ``result.json`` with
what it finds in the file when it opens it again. No Django here."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from apps.imagery.ingest_process import serve

# "Undefined Cartesian": the row that every GeoPackage has for coordinates without a place on the globe (OGC 12-128r18, table 3).
UNDEFINED_CARTESIAN = -1


def run(folder: Path) -> dict[str, Any]:
    """What ``result.json`` holds: the fields of Written."""
    import pyogrio

    target = folder / "layers.gpkg"
    layers = json.loads((folder / "job.json").read_text())
    for layer in layers:
        _write(target, layer)
    return {"layers": {layer["name"]: int(pyogrio.read_info(target, layer=layer["name"])["features"]) for layer in layers}}


def _write(target: Path, layer: dict[str, Any]) -> None:
    import numpy as np
    import pyogrio
    import shapely

    shapes = [shapely.from_geojson(json.dumps(f["geometry"])) if f.get("geometry") else None for f in layer["features"]]
    kinds = {s.geom_type for s in shapes if s is not None} or {layer["geometry_type"]}
    single = {k.removeprefix("Multi") for k in kinds}
    is_multi = len(kinds) > 1 or next(iter(kinds)).startswith("Multi")
    kind = "Unknown" if len(single) > 1 else f"{'Multi' if is_multi else ''}{next(iter(single))}"
    fields, data, masks = [], [], []
    for name, values in layer["columns"].items():
        missing = np.array([v is None for v in values], dtype=bool)
        fields.append(name)
        masks.append(missing)
        data.append(_array(values))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that pixel coordinates have no CRS is meant
        pyogrio.raw.write(
            target,
            np.array(shapely.to_wkb(np.array(shapes, dtype=object)), dtype=object).reshape(len(shapes)),
            data,
            fields,
            field_mask=masks,
            layer=layer["name"],
            driver="GPKG",
            geometry_type=kind,
            promote_to_multi=is_multi and kind != "Unknown",
            crs=layer["crs"],
            layer_options={"FID": "fid", "GEOMETRY_NAME": "geom", "DESCRIPTION": layer["description"]}
            | {"IDENTIFIER": layer["name"]}
            | ({} if layer["crs"] else {"SRID": str(UNDEFINED_CARTESIAN)}),
        )


def _array(values: list[Any]) -> Any:
    """One column: missing values stand as 0 or '' behind their mask."""
    import numpy as np

    kinds = {type(v) for v in values if v is not None}
    if kinds == {bool}:
        return np.array([bool(v) for v in values])
    if kinds == {int}:
        return np.array([v or 0 for v in values], dtype=np.int64)
    if kinds == {float}:
        return np.array([0.0 if v is None else v for v in values], dtype=np.float64)
    return np.array([None if v is None else str(v) for v in values], dtype=object)


if __name__ == "__main__":
    sys.exit(serve(run))
