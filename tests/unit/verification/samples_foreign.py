"""Observations as other tools make them: without the call or inputs on record, over regions beside the image, of years without
dates, of files that lost features, and of values that were averaged before."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tests.unit.tools.rasters import UTM, Bench
from tests.unit.verification import samples as s
from tests.unit.verification.samples import NDVI, S, Sample, ask, graph, optical
from tests.unit.verification.samples_layers import Make, over_landsat

# The band names of Sentinel-2's files, in the order of the scene's roles.
NAMES = ("B02", "B03", "B04", "B08")


def named(names: tuple[str, ...], wavelengths: tuple[float | None, ...] = (None,) * 4) -> Sample:
    """The mean NDVI of the coast, of a file that calls its bands so."""
    made = s.mean()
    assert made.question is not None
    (first,) = made.question.scenes
    told = [
        b.model_copy(update={"description": n, "wavelength_nm": w})
        for b, n, w in zip(first.bands, names, wavelengths, strict=True)
    ]
    scene = first.model_copy(update={"bands": tuple(told), "sensor": "Sentinel-2 MSI"})
    return made.but(question=made.question.model_copy(update={"scenes": (scene,)}))


def deviation(*nodes: Any, text: str = "What is the standard deviation of NDVI?") -> Sample:
    return over_landsat(
        text, *nodes, ("out", "raster.summarize.statistic", (nodes[-1][0] if nodes else "i",), {"statistic": "std"})
    )


def coarse_deviation() -> Sample:
    """The deviation of means over 90 m, asked for at 90 m, taken for that of the pixels."""
    made = over_landsat(
        "What is the standard deviation of NDVI at 90 m?",
        ("r", "raster.product.reproject", ("i",), {"resolution": 90, "method": "average"}),
        ("out", "raster.summarize.statistic", ("r",), {"statistic": "std"}),
    )
    return asked(made, "What is the standard deviation of NDVI?")


def asked(sample: Sample, text: str) -> Sample:
    assert sample.question is not None
    return sample.but({"/task/question": text}, question=sample.question.model_copy(update={"text": text}))


@lru_cache
def in_region(left: int, right: int) -> Sample:
    """Mean NDVI between two columns of the coast, which is 80 columns wide."""
    box = {"type": "Polygon", "coordinates": [[[left, 15], [right, 15], [right, 50], [left, 50], [left, 15]]]}
    nodes = graph(S, NDVI, ("out", "raster.summarize.statistic", ("i",), {"statistic": "mean"}))
    call = {**nodes, "region": box, "region_crs": "image"}
    return ask(
        Bench(optical(), region=box, region_crs="image"), "What is the mean NDVI in this region?", "number", "execute", call
    )


def of_periods(*periods: str) -> Sample:
    """The mean NDVI of periods, told of the five dates from October 2013 to February 2014 at Sinop, south of the equator."""
    return s.series().but({"/result/items": [{"period": p, "value": 0.6} for p in periods]})


def with_lost(**told: Any) -> Sample:
    """The two zones of a file that holds a third feature, without geometry."""
    made = s.zoned()
    assert made.observation.arguments
    nodes: Any = made.observation.arguments["nodes"]
    at = next(k for k, n in enumerate(nodes) if n["op"] == "vector.zones")
    held, _ = made.bench.layers.read_vector(nodes[at]["params"]["vector"])
    lost = {"type": "Feature", "geometry": None, "properties": {"name": "third"}}
    ref = made.bench.layers.put_features([*held, lost], kind="polygons", crs=UTM, label="three.geojson")
    evidence: Any = made.observation.evidence.intermediate["nodes"]
    record = next(k for k, n in enumerate(evidence) if n["id"] == nodes[at]["id"])
    changes = {f"/arguments/nodes/{at}/params/vector": ref.artifact}
    return made.but(changes | {f"/evidence/intermediate/nodes/{record}/{k}": v for k, v in told.items()})


def moved_north(metres: float, crs: str) -> Sample:
    """The coast as if its file named another zone, and its northings were so many metres larger."""
    made = s.mean()
    assert made.question is not None
    (first,) = made.question.scenes
    a, b, c, d, e, f = first.grid.transform
    grid = first.grid.model_copy(update={"crs": crs, "transform": (a, b, c, d, e, f + metres)})
    scene = first.model_copy(update={"grid": grid})
    return made.but(question=made.question.model_copy(update={"scenes": (scene,)}), has_reader=False)


def by_formula(expression: str, text: str = "What is the mean NDVI?") -> Sample:
    """The mean of a formula over the bands of the coast."""
    nodes = graph(
        S,
        ("i", "raster.product.math", ("s1",), {"expression": expression, "range": [-100, 100]}),
        ("out", "raster.summarize.statistic", ("i",), {"statistic": "mean"}),
    )
    return ask(Bench(optical()), text, "number", "execute", nodes)


def percentile(percent: float) -> Sample:
    params = {"statistic": "percentile", "percentile": percent}
    nodes = graph(S, NDVI, ("out", "raster.summarize.statistic", ("i",), params))
    return ask(Bench(optical()), "What is the 90th percentile of NDVI?", "number", "execute", nodes)


def turned(how: str = "axes") -> Sample:
    """The crowns of the forest with their axes exchanged, upside down, or on a lattice that has nothing to do with them."""
    made = {
        "axes": lambda x0, y0, x1, y1: (y0, x0, y1, x1),
        "upside down": lambda x0, y0, x1, y1: (x0, 400 - y1, x1, 400 - y0),
        "right": lambda *corners: corners,
    }
    if how == "lattice":
        at = [(x, y) for x in range(0, 380, 40) for y in range(0, 380, 40)]
        return s.found_instead([s.scored((x, y, x + 20, y + 20), 0.8) for x, y in at])
    held = [f["properties"] for f in s.found().bench.layers.read_features(s.found().observation.result.layers[0])]
    return s.found_instead([s.scored(made[how](*p["box"]), p["score"]) for p in held])


EXAMPLES: dict[str, tuple[Make, Make, str]] = {
    "consistency.pixel_counts_agree": (s.series, lambda: s.series().but({"/result/items/2/n_valid": 4800}), "failed"),
    "consistency.formula_told_as_called": (
        s.mean,
        lambda: s.mean().but({"/evidence/source/formulas/i": "(red - nir) / (nir + red)"}),
        "failed",
    ),
    "contract.call_on_record": (
        s.mean,
        lambda: s.mean().but({"/arguments": {}, "/arguments_passed": {}}),
        "inconclusive",
    ),
    "radiometry.bands_as_files_name_them": (
        lambda: named(NAMES),
        lambda: named(("B02", "B03", "B08", "B04")),
        "failed",
    ),
    "consistency.spread_over_measured_pixels": (deviation, coarse_deviation, "failed"),
    "completeness.features_lost_are_told": (lambda: with_lost(n_lost=1), with_lost, "failed"),
    "completeness.region_on_the_images": (lambda: in_region(20, 60), lambda: in_region(60, 140), "failed"),
    "completeness.periods_have_dates": (lambda: of_periods("summer 2014"), lambda: of_periods("2014"), "failed"),
    "consistency.numbers_on_record_agree": (
        lambda: s.measured("area"),
        lambda: s.measured("area").but({"/evidence/intermediate/numerator": 1300}),
        "failed",
    ),
    "consistency.rows_of_zones_agree": (s.zoned, lambda: s.zoned().but({"/result/items/0/n_valid": 900}), "failed"),
    "contract.quantity_as_computed": (s.mean, lambda: s.mean().but({"/result/quantity": "ndwi"}), "failed"),
    "contract.plain_figure_as_asked": (s.mean, lambda: by_formula("(nir - green) / (nir + green)"), "failed"),
    "contract.percentile_as_asked": (lambda: percentile(90), lambda: percentile(10), "failed"),
    "contract.extreme_as_asked": (s.lowest, lambda: asked(s.lowest(), "On which date is NDVI highest?"), "failed"),
    "contract.index_shows_the_target": (s.water, lambda: s.water().but({"/arguments/regions_method/side": "below"}), "failed"),
    "geometry.boxes_where_the_picture_parts": (s.found, turned, "failed"),
    "contract.classes_as_called": (s.found, lambda: s.found_instead([s.box(*c, "car") for c in s.CARS]), "failed"),
    "completeness.quality_mask_is_one": (
        lambda: s.watched().but({"/evidence/validity/quality_mask": {"scene": "s", "band": 3}}),
        lambda: s.watched().but({"/evidence/validity/quality_mask": {"scene": "s", "band": 1}}),
        "failed",
    ),
    "geometry.scene_where_its_crs_is": (s.mean, lambda: moved_north(5_200_000, "EPSG:32730"), "failed"),
}
