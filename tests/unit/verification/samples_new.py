"""Observations of the newer operators over the shipped imagery, for the examples of their checks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from tests.unit.tools.rasters import Bench, from_file
from tests.unit.verification.samples import NDVI, NDWI_ABOVE_0, SHIPPED, S, Sample, ask, box, graph, objects, water_by, written

LANDSAT = {"blue": 1, "green": 2, "red": 3, "nir": 4}


def island() -> Bench:
    """Sentinel-2 over the south coast of England, 10 m."""
    return Bench(from_file(SHIPPED / "geopandas_s2a_l2a_fishbourne.tif", {"blue": 1, "green": 2, "red": 3, "nir": 4}))


def landsat(day: str = "2002-07-20", scene_id: str = "s") -> Any:
    return from_file(SHIPPED / f"landsat7_p15r32_{day}.tif", LANDSAT, scene_id=scene_id, date=day)


def told(sample: Sample, op: str, **values: Any) -> Sample:
    """The same observation whose evidence of an operator's node says something else (``...`` removes)."""
    ids = [n["id"] for n in sample.observation.arguments["nodes"] if n["op"] == op]  # type: ignore[union-attr, index, call-overload]
    nodes: Any = sample.observation.evidence.intermediate["nodes"]
    at = next(k for k, n in enumerate(nodes) if n["id"] == ids[0])
    return sample.but({f"/evidence/intermediate/nodes/{at}/{name}": value for name, value in values.items()})


@lru_cache
def coregistered() -> Sample:
    """A Landsat scene and itself as if it had been put 3 columns and 2 rows away."""
    info, stored = landsat()
    away = np.roll(stored, (2, 3), axis=(1, 2))
    moved = (info.model_copy(update={"scene_id": "t", "artifact": "sha256:" + "7" * 64}), away)
    band = {"role": "nir"}
    return ask(
        Bench((info, stored), moved),
        "Put the second image on the first.",
        "layer",
        "execute",
        graph(
            S,
            ("s2", "asset.scene", (), {"scene": "t"}),
            ("a", "raster.product.band", ("s2",), band),
            ("b", "raster.product.band", ("s1",), band),
            ("c", "raster.product.coregister", ("a", "b"), {"most_px": 10}),
        ),
    )


@lru_cache
def reprojected() -> Sample:
    return ask(
        island(),
        "Show NDVI in EPSG:3857 at 20 m.",
        "layer",
        "execute",
        graph(S, NDVI, ("r", "raster.product.reproject", ("i",), {"crs": "EPSG:3857", "resolution": 20, "method": "bilinear"})),
    )


def put_elsewhere(sample: Sample) -> Sample:
    """The raster lies two kilometres further east."""
    ref = sample.observation.result.layers[0]
    assert ref.grid is not None
    a, b, c, d, e, f = ref.grid.transform
    return sample.but({"/result/layers/0/grid/transform": [a, b, c + 2000, d, e, f]})


@lru_cache
def autocorrelated() -> Sample:
    return ask(
        Bench(landsat()),
        "How alike are neighbouring pixels of NDVI?",
        "number",
        "execute",
        graph(S, NDVI, ("out", "raster.summarize.moran", ("i",), {})),
    )


@lru_cache
def burnt() -> Sample:
    """Classes of dNBR between a July and a November of Landsat 7."""
    roles = {"nir": 4, "swir2": 6}
    july, november = (
        from_file(SHIPPED / f"landsat7_p15r32_{day}.tif", roles, scene_id=name, date=day)
        for name, day in (("s", "2002-07-20"), ("t", "2002-11-25"))
    )
    index = {"index": "nbr"}
    return ask(
        Bench(july, november),
        "Area of each burn severity class between 2002-07-20 and 2002-11-25 in ha",
        "table",
        "execute",
        graph(
            S,
            ("s2", "asset.scene", (), {"scene": "t"}),
            ("a", "raster.product.index", ("s1",), index),
            ("b", "raster.product.index", ("s2",), index),
            ("d", "raster.product.difference", ("a", "b"), {"mode": "loss"}),
            ("c", "raster.product.classify", ("d",), {"preset": "burn_severity"}),
            ("out", "raster.summarize.class_areas", ("c",), {"unit": "ha"}),
        ),
    )


@lru_cache
def months(text: str, op: str, **params: Any) -> Sample:
    """Twelve dates of MODIS NDVI, tested or listed."""
    held = [
        from_file(path, {"ndvi": 1}, scene_id=f"s{k}", date=path.stem[-10:])
        for k, path in enumerate(sorted((SHIPPED / "mod13q1_sinop").glob("*.jp2")), start=1)
    ]
    nodes = [node for k in range(1, 13) for node in (
        (f"a{k}", "asset.scene", (), {"scene": f"s{k}"}), (f"b{k}", "raster.product.band", (f"a{k}",), {"role": "ndvi"}))]
    inputs = tuple(f"b{k}" for k in range(1, 13))
    if op == "asset.catalog":
        nodes, inputs = [], ()
    return ask(Bench(*held), text, "number", "execute", graph(*nodes, ("out", op, inputs, params)))


def tested() -> Sample:
    return months("Mann-Kendall test of NDVI", "raster.summarize.series_analysis", analysis="mann_kendall")


def listed() -> Sample:
    return months("Which dates are missing, if there is one every 16 days?", "asset.catalog", source="question", revisit_days=16)


@lru_cache
def placed() -> Sample:
    return ask(island(), "Where is the image?", "text", "execute", graph(S, ("out", "asset.bounds", ("s1",), {})))


@lru_cache
def looked_at() -> Sample:
    """The quality of a Sentinel-2 scene of which a third is fill."""
    arguments = {"image_paths": ["s"], "objective": "quality", "mode": "evidence"}
    return ask(island(), "How noisy is the image?", "text", "perceive", arguments)


@lru_cache
def hot() -> Sample:
    return ask(
        Bench(landsat()),
        "Where are hot spots of NDVI?",
        "layer",
        "execute",
        graph(S, NDVI, ("g", "raster.product.getis_ord", ("i",), {"size": 5})),
    )


@lru_cache
def coloured() -> Sample:
    return ask(
        island(),
        "Show NDVI in colours.",
        "layer",
        "execute",
        graph(S, NDVI, ("c", "image.colours", ("i",), {"low": 0.0, "high": 0.8})),
    )


@lru_cache
def charted() -> Sample:
    return ask(
        island(),
        "Show the histogram of NDVI.",
        "layer",
        "execute",
        graph(S, NDVI, ("h", "raster.summarize.histogram", ("i",), {"bins": 12}), ("c", "image.chart", ("h",), {})),
    )


@lru_cache
def annotated() -> Sample:
    """A photo of the shipped ones with boxes of an earlier observation drawn on it."""
    info, stored = from_file(SHIPPED / "OSBS_029.tif", {"red": 1, "green": 2, "blue": 3})
    found = objects([box(20 + 60 * i, 40, 50 + 60 * i, 80) for i in range(5)], Bench((info, stored)))
    made = ask(
        found.bench,
        "Draw the trees on the photo.",
        "layer",
        "execute",
        graph(S, ("a", "image.annotate", ("s1",), {"layers": [{"observation": found.observation.id}]})),
        (found.observation,),
    )
    return made


def drawn(sample: Sample, **values: Any) -> Sample:
    """What was drawn first says something else."""
    nodes: Any = sample.observation.evidence.intermediate["nodes"]
    at = next(k for k, n in enumerate(nodes) if "drawn" in n)
    return sample.but({f"/evidence/intermediate/nodes/{at}/drawn/0/{k}": v for k, v in values.items()})


def picture_elsewhere(sample: Sample) -> Sample:
    at, ref = next((k, r) for k, r in enumerate(sample.observation.result.layers) if r.grid is not None)
    assert ref.grid is not None
    a, b, c, d, e, f = ref.grid.transform
    return sample.but({f"/result/layers/{at}/grid/transform": [a, b, c + 40 * a, d, e, f]})


@lru_cache
def shore() -> Sample:
    """Water of the island's scene by NDWI."""
    return ask(
        island(),
        "Where is water?",
        "layer",
        "perceive",
        water_by(**NDWI_ABOVE_0),
    )


@lru_cache
def refined() -> Sample:
    first = shore()
    return ask(
        first.bench,
        "Where is water?",
        "layer",
        "perceive",
        water_by(kind="refine", band_px=3, seed={"observation": first.observation.id}),
        (first.observation,),
    )


def with_mask(sample: Sample, mask: NDArray[np.bool_]) -> Sample:
    at, ref = next((k, r) for k, r in enumerate(sample.observation.result.layers) if r.kind == "mask")
    assert ref.grid is not None
    _, valid = sample.bench.layers.read_mask(ref)
    new = sample.bench.layers.put_mask(mask, valid, ref.grid, label=ref.label, scene_id=ref.source_scene_id)
    return sample.but({f"/result/layers/{at}": new.model_dump(mode="json")})


def leaked() -> Sample:
    """The refined mask has run over a block of the land, far from the first one's edge."""
    made = refined()
    mask, valid = made.bench.layers.read_mask(made.observation.result.layers[0])
    far = ndimage.distance_transform_edt(~(mask & valid))
    row, col = np.unravel_index(int(np.argmax(np.where(valid, far, 0))), far.shape)
    out = mask.copy()
    out[max(0, row - 3) : row + 4, max(0, col - 3) : col + 4] = True
    return with_mask(made, out)


@lru_cache
def shoreline() -> Sample:
    """The length of the shore: a strip of water along the land of the island's scene, measured."""
    bench, first = shore().bench, shore()
    ref = first.observation.layer("mask")
    assert ref is not None and ref.grid is not None
    mask, valid = bench.layers.read_mask(ref)
    land = ndimage.binary_opening(~mask & valid, iterations=2)
    strip = ndimage.binary_dilation(land, iterations=4) & ~ndimage.binary_dilation(land) & valid
    held = with_mask(first, strip).observation
    return ask(
        bench,
        "How long is the shore in km?",
        "number",
        "measure",
        {
            "sources": [
                {"name": "water", "mode": "regions", "layer": {"observation": held.id, "label": held.result.layers[0].label}}
            ],
            "spec": {"metric": "length", "subject": "water", "unit": "km"},
        },
        (held,),
    )


@lru_cache
def place() -> Sample:
    """A kind of place over six windows of the shipped orthophoto."""
    info, stored = from_file(SHIPPED / "riotiler_hro_colorado_26913.tif", {"red": 1, "green": 2, "blue": 3})
    bench = Bench((info, stored))
    names = ["road"] * 4 + ["field", "out of scope"]
    ring = [[0, 0], [60, 0], [60, 60], [0, 60], [0, 0]]
    windows = [
        {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}, "properties": {"class": name, "score": 0.9}}
        for name in names
    ]
    ref = bench.layers.put_features(windows, kind="polygons", crs="image", label="windows", scene_id="s")
    made = written(
        bench,
        "perceive",
        kind="class",
        value="road",
        question="What kind of place is this?",
        task_type="scene_class",
        form="class",
        coarse="scene",
        layers=[ref],
        source={"thresholds": {"probability": 0.5}},
        intermediate={"windows": 6, "windows_out_of_scope": 1},
        validity={"layer_status": "complete"},
    )
    return made.but({"/result/items": [{"class": "road", "p": 0.72, "windows": 4}, {"class": "field", "p": 0.25, "windows": 1}]})


EXAMPLES: dict[str, tuple[Any, Any, str]] = {
    "geometry.shift_believable": (
        coregistered,
        lambda: told(coregistered(), "raster.product.coregister", shift_px=[80.0, 9.0], shift_length_px=80.505),
        "failed",
    ),
    "geometry.new_grid_as_asked": (reprojected, lambda: put_elsewhere(reprojected()), "failed"),
    "geometry.refined_edge_only": (refined, leaked, "failed"),
    "geometry.picture_lies_as_its_scene": (annotated, lambda: picture_elsewhere(annotated()), "failed"),
    "consistency.length_recomputes": (shoreline, lambda: shoreline().but({"/result/unit": "m"}), "failed"),
    "consistency.moran_recomputes": (
        autocorrelated,
        lambda: autocorrelated().but({"/result/value": 0.93 * float(autocorrelated().observation.result.value or 0)}),
        "failed",
    ),
    "consistency.classes_recount": (
        burnt,
        lambda: burnt().but({"/result/items/1/n_px": int(str(burnt().observation.result.items[1]["n_px"])) + 40}),
        "failed",
    ),
    "consistency.bands_match_source": (
        looked_at,
        lambda: looked_at().but({"/result/items/3/mean": 0.66 * float(str(looked_at().observation.result.items[3]["mean"]))}),
        "failed",
    ),
    "consistency.shift_matches_source": (
        coregistered,
        lambda: told(coregistered(), "raster.product.coregister", shift_px=[-2.0, -3.0]),
        "failed",
    ),
    "consistency.rank_trend_recomputes": (
        tested,
        lambda: tested().but({"/result/value": -float(tested().observation.result.value or 0)}),
        "failed",
    ),
    "consistency.place_matches_scene": (
        placed,
        lambda: placed().but({"/result/items/0/west": 0.02 + float(str(placed().observation.result.items[0]["west"]))}),
        "failed",
    ),
    "consistency.catalog_matches_scenes": (listed, lambda: told(listed(), "asset.catalog", gaps=[]), "failed"),
    "consistency.picture_shows_its_layers": (annotated, lambda: drawn(annotated(), n=3), "failed"),
    "consistency.colours_hold_the_values": (coloured, lambda: told(coloured(), "image.colours", low=0.3), "failed"),
    "consistency.chart_shows_its_items": (charted, lambda: told(charted(), "image.chart", n=11), "failed"),
    "consistency.class_is_the_likeliest": (place, lambda: place().but({"/result/value": "field"}), "failed"),
}
