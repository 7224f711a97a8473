"""Analyses named in words: which graph each becomes, what is said where something is missing, and what is left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.agent.arguments import validate_plan
from apps.agent.planner import analysis_heat, analysis_physics
from apps.agent.planner.analyses import read_analysis
from apps.agent.planner.analysis_plans import plan_analysis
from apps.agent.planner.offline import OfflinePlanner
from apps.core.evidence.plan import Plan, Question
from apps.core.geo import Band, SceneInfo
from apps.tools.execute.operators import OPERATORS
from apps.tools.execute.retrievals import RETRIEVALS
from tests.unit.agent.scripted import question, scene
from tests.unit.agent.test_offline import REFUSED, SETS, UNDERSTOOD

MORE: dict[str, list[SceneInfo]] = {
    "dem": [scene("d", roles=("elevation",)).model_copy(update={"bands": (Band(index=1, role="elevation", unit="m"),)})],
    "radars": [scene(f"v{i}", roles=("vv",), acquired=f"2014-0{i}-01") for i in (1, 2)],
    "bare_dem": [scene("d", roles=("elevation",))],
    "unnamed": [scene("d", roles=("gray",))],
    "pan": [scene("p", roles=("pan", "red", "green", "blue"))],
    "maps": [scene("m1", roles=("class",), acquired="2000-06-01"), scene("m2", roles=("class",), acquired="2010-06-01")],
    "landsat8": [scene("l", roles=(), name="LC82320832016040LGN00.tif").model_copy(update={"bands": tuple(
        Band(index=i, role=r, unit="DN" if "thermal" in r else "reflectance")
        for i, r in enumerate(("blue", "green", "red", "nir", "thermal1"), start=1))})],
    "quality": [scene("q").model_copy(update={"bands": (*scene("q").bands, Band(index=5, role="qa", scheme="landsat_c2"))})],
    "pictures": [scene("x", roles=("red", "green", "blue"), crs=None, acquired="2019-01-01"),
                 scene("y", roles=("red", "green", "blue"), crs=None, acquired="2020-01-01")],
    "degrees": [scene("g", crs="EPSG:4326").model_copy(update={"grid": scene("g").grid.model_copy(update={
        "crs": "EPSG:4326", "transform": (0.001, 0.0, 10.0, 0.0, -0.001, 50.0)})})],
}  # fmt: skip


def plan(which: str, text: str, **more: Any) -> Plan:
    return OfflinePlanner().plan(question(text, (SETS | MORE)[which], **more))


def ops(made: Plan) -> list[str]:
    """What each step does: its operators after the scene, short, or the mode."""
    out = []
    for s in made.steps:
        if s.tool == "execute":
            nodes: Any = s.arguments["nodes"]
            out.append(" ".join(n["op"].rsplit(".", 1)[-1] for n in nodes if n["op"] != "asset.scene"))
        else:
            spec: Any = s.arguments.get("spec")
            out.append(str(s.arguments.get("mode") or spec["metric"]))
    return out


# Surface temperature by the single channel: band 10, radiance, brightness, NDVI, emissivity.
HEAT = "band retrieval retrieval index retrieval retrieval "
PLANNED: list[tuple[str, str, list[str], str]] = [
    # grids
    ("one", "What is the mean NDVI at 60 m?", ["index reproject statistic"], "value"),
    ("one", "maximum NDVI at 30 m resolution", ["index reproject statistic"], "value"),
    ("one", "Mean NDVI in EPSG:3857", ["index reproject statistic"], "value"),
    ("one", "mean NDVI in UTM zone 31N at 20 m", ["index reproject statistic"], "value"),
    ("one", "Resample the NDVI to 30 m", ["index reproject"], "layers"),
    ("one", "Reproject the red band to EPSG:2056 at 20 m.", ["band reproject"], "layers"),
    # two images
    ("pair", "How far are the two images shifted against each other?", ["band band coregister agreement"], "reading"),
    ("pair", "By how many pixels are the two images misaligned?", ["band band coregister agreement"], "reading"),
    ("pair", "What is the shift between the two images in metres?", ["band band coregister agreement"], "reading"),
    ("pair", "Are the two images co-registered?", ["band band coregister agreement"], "reading"),
    ("pictures", "How far are the two images shifted?", ["change"], "reading"),
    ("pair", "How much did NDVI change after co-registration?", ["index index coregister difference statistic"], "value"),
    ("pair", "What is the correlation of NDVI between the two images?", ["index index agreement"], "value"),
    ("pair", "What share of the image changed between the two dates?", ["change", "ratio"], "value"),
    ("pair", "How many hectares changed?", ["change", "area"], "value"),
    ("pair", "How much area changed?", ["change", "area"], "value"),
    ("pair", "How much land has changed between the two images?", ["change", "area"], "value"),
    ("pair", "What changed between the two images?", ["change"], "layers"),
    ("pair", "What share of the image changed using the model MyNet?", ["change", "ratio"], "value"),
    # space
    ("one", "Is NDVI spatially clustered?", ["index moran"], "clustered"),
    ("one", "Is the NDVI clustered or random?", ["index moran"], "clustered"),
    ("one", "What is Moran's I of NDVI?", ["index moran"], "value"),
    ("one", "How many hot spots of NDVI are there?", ["index getis_ord threshold", "count"], "value"),
    ("one", "What share of the image is NDVI hot spots?", ["index getis_ord threshold share"], "value"),
    ("one", "Where are the cold spots of NDVI?", ["index getis_ord threshold"], "layers"),
    # classes
    ("classes", "What is the area of each class in ha?", ["band class_areas"], "classes"),
    ("classes", "Which area does each class have?", ["band class_areas"], "classes"),
    ("classes", "What area does each land cover class cover in km2?", ["band class_areas"], "classes"),
    ("classes", "How much area is covered by each class?", ["band class_areas"], "classes"),
    ("maps", "Which classes changed into which?", ["band band transitions"], "transitions"),
    ("maps", "Transition matrix between 2000 and 2010", ["band band transitions"], "transitions"),
    ("maps", "What share of the land cover changed its class?", ["band band transitions"], "value"),
    # terrain
    ("dem", "What is the mean slope?", ["band terrain statistic"], "value"),
    ("dem", "What is the mean slope in degrees?", ["band terrain statistic"], "value"),
    ("dem", "How steep is the terrain?", ["band terrain statistic"], "value"),
    ("dem", "What share of the area faces south?", ["band terrain threshold threshold logic share"], "value"),
    ("dem", "How many hectares are steeper than 15 degrees?", ["band terrain threshold area"], "value"),
    ("dem", "What is the relief?", ["band statistic statistic calculate"], "value"),
    ("dem", "Mean local relief in 5 x 5 pixels", ["band terrain statistic"], "value"),
    ("dem", "slope classes in km2", ["band terrain classify class_areas"], "classes"),
    ("dem", "Show the hillshade", ["band terrain"], "layers"),
    ("dem", "Show the aspect", ["band terrain"], "layers"),
    # dates
    ("series", "NDVI anomaly in August 2014", [("band " * 12 + "anomaly statistic")], "value"),
    ("series", "What was the z-score of NDVI in 2014-02 against the other dates?", ["band " * 12 + "anomaly statistic"], "value"),
    ("series", "How unusual was NDVI in March 2014?", ["band " * 12 + "anomaly statistic"], "value"),
    ("pair", "What is the mean dNBR?", ["index index difference statistic"], "value"),
    ("pair", "Area of each burn severity class in ha", ["index index difference classify class_areas"], "classes"),
    ("pair", "How many hectares burned with high severity?", ["index index difference classify class_values area"], "value"),
    ("series", "Mean NDVI of the median composite of 2014", ["band " * 8 + "composite statistic"], "value"),
    ("series", "Median composite of NDVI", ["band " * 12 + "composite"], "layers"),
    ("series", "Mean NDVI of the greenest composite", ["band " * 12 + "composite statistic"], "value"),
    ("pair", "Mean red of the greenest-pixel composite", ["band band index index best_pixel statistic"], "value"),
    ("series", "NDVI by month", ["band composite statistic"] * 12, "rows"),
    ("series", "Mean NDVI by year", ["band " * 4 + "composite statistic", "band " * 8 + "composite statistic"], "rows"),
    ("series", "Is the NDVI trend significant?", ["band " * 12 + "series_analysis"], "significant"),
    ("series", "Mann-Kendall test of NDVI", ["band " * 12 + "series_analysis"], "value"),
    ("series", "When did NDVI change abruptly?", ["band " * 12 + "series_analysis"], "break"),
    # bands
    ("pan", "Pan-sharpen the red band", ["band band band band pansharpen"], "layers"),
    ("pan", "Pan-sharpen the image", ["band band band band pansharpen"] * 3, "layers"),
    ("pan", "mean of the pan-sharpened green band", ["band band band band pansharpen statistic"], "value"),
    ("one", "Show the first principal component", ["band band band band pca"], "layers"),
    ("one", "How much variance is explained by the first two principal components?", ["band band band band pca"], "reading"),
    ("one", "What is the mean fractional vegetation cover?", ["index vegetation_cover statistic"], "value"),
    # physical quantities
    ("landsat8", "What is the mean land surface temperature?", [HEAT + "statistic"], "value"),
    ("landsat8", "mean temperature in °C", [HEAT + "math statistic"], "value"),
    ("landsat8", "maximum surface temperature where NDVI > 0.6", [HEAT + "threshold apply_mask statistic"], "value"),
    ("landsat8", "How hot is the ground in celsius?", [HEAT + "math statistic"], "value"),
    ("landsat8", "Map the land surface temperature", [HEAT.strip()], "layers"),
    ("landsat8", "How many hectares are warmer than 30 °C?", [HEAT + "math threshold area"], "value"),
    ("landsat8", "What is the mean dryness index?", [HEAT + "tvdi statistic"], "value"),
    ("landsat8", "mean emissivity", ["index retrieval statistic"], "value"),
    # formulas, distributions, trends of each pixel
    ("one", "ratio of nir to red", ["ratio statistic"], "value"),
    ("one", "What is the mean of (nir - red) / (nir + red)?", ["normalized_difference statistic"], "value"),
    ("one", "mean of ndvi - ndwi", ["index index math statistic"], "value"),
    ("one", "Histogram of NDVI", ["index histogram", "index statistic", "index statistic", "index histogram chart"], "histogram"),
    ("one", "Where is the centre of the water?", ["index threshold centroid"], "centre"),
    ("one", "Show NDVI in colours", ["index", "index colours"], "layers"),
    ("one", "Mark the water on the image", ["regions", "annotate"], "layers"),
    ("one", "Annotate the image", ["annotate"], "pictured"),
    ("one", "Solve x^2 = 2 for x between 0 and 2", ["solve"], "value"),
    ("quality", "What share of the pixels is clear?", ["qa_mask math threshold share"], "value"),
    ("quality", "share of clouds by the QA band", ["qa_mask share"], "value"),
    ("series", "Plot NDVI over time", ["band " * 12 + "series", "band " * 12 + "series chart"], "charted"),
    ("series", "Where does NDVI rise?", ["band " * 12 + "pixel_trend threshold"], "layers"),
    ("series", "Map of the NDVI trend", ["band " * 12 + "pixel_trend"], "layers"),
    ("series", "What share of the pixels has a significant NDVI trend?", ["band " * 12 + "pixel_trend threshold share"], "value"),
    # the image itself
    ("png", "How noisy is the image?", ["evidence"], "quality"),
    ("png", "Is the image blurred?", ["evidence"], "quality"),
    ("png", "Are there any stripes in the image?", ["evidence"], "quality"),
    ("png", "What share of the pixels is saturated?", ["evidence"], "quality"),
    ("one", "What is the valid share of the image?", ["evidence"], "value"),
    ("one", "What is the cloud cover?", ["evidence"], "reading"),
    ("png", "What does the text say?", ["document"], "written"),
    ("png", "Read the text in the image.", ["document"], "written"),
    ("one", "Where is the image?", ["bounds"], "bounds"),
    # what there is
    ("series", "Which dates are missing from the series?", ["catalog"], "missing"),
    ("series", "Are there gaps in the series, if there is one every 16 days?", ["catalog"], "missing"),
    ("series", "How many images are there?", ["catalog"], "held"),
    ("series", "Which Sentinel-2 L2A images are there in the project in 2014?", ["catalog"], "held"),
    ("series", "How many Landsat 8 scenes are in the STAC folder?", ["catalog"], "held"),
    ("series", "Which dates are missing in the STAC API, if there is one every 5 days?", ["catalog"], "missing"),
    ("series", "Which MODIS dates are missing from the series in the project?", ["catalog"], "missing"),
]


@pytest.mark.parametrize(("which", "text", "wanted", "kind"), PLANNED, ids=[t for _, t, _, _ in PLANNED])
def test_each_analysis_becomes_its_graph(which: str, text: str, wanted: list[str], kind: str) -> None:
    made = plan(which, text)
    assert ops(made) == wanted, made.reason
    assert made.answer is not None and made.answer.kind == kind and made.understood
    validate_plan(made, frozenset(s.scene_id for s in (SETS | MORE)[which]))


def test_what_is_resampled_is_gathered_or_interpolated_by_the_ratio_of_the_pixels() -> None:
    def node(text: str, which: str = "one") -> Any:
        nodes: Any = plan(which, text).steps[0].arguments["nodes"]
        return next(n["params"] for n in nodes if n["op"] == "raster.product.reproject")

    assert node("Mean NDVI at 60 m") == {"resolution": 60, "method": "average"}
    assert node("Mean NDVI at 12 m") == {"resolution": 12, "method": "bilinear"}
    assert node("Mean NDVI at 60 m by nearest neighbour") == {"resolution": 60, "method": "nearest"}
    assert node("Mean NDVI at 0.06 km") == {"resolution": 60, "method": "average"}
    assert node("Mean NDVI in EPSG:3857") == {"crs": "EPSG:3857", "method": "bilinear"}
    # the year 2056 is none
    assert node("Mean NDVI in EPSG:2056 at 20 m") == {"crs": "EPSG:2056", "resolution": 20, "method": "average"}


def test_the_sectors_of_aspect_go_round_the_north() -> None:
    def limits(wind: str) -> tuple[Any, ...]:
        nodes: Any = plan("dem", f"What share of the area faces {wind}?").steps[0].arguments["nodes"]
        by = {n["id"]: n["params"] for n in nodes}
        return by["from"]["value"], by["to"]["value"], by["mask"]["op"]

    assert limits("south") == (135, 225, "and") and limits("north") == (315, 45, "or")
    assert limits("north-east") == (22.5, 67.5, "and") and limits("northwest") == (292.5, 337.5, "and")


def test_flat_and_steep_are_told_apart() -> None:
    def limit(text: str) -> Any:
        nodes: Any = plan("dem", text).steps[0].arguments["nodes"]
        return next(n["params"] for n in nodes if n["op"] == "raster.product.threshold")

    assert limit("What area is steeper than 15 degrees?") == {"op": ">", "value": 15}
    assert limit("What share of the terrain is flatter than 5°?") == {"op": "<", "value": 5}
    assert limit("What share of the area has slopes of at most 5 degrees?") == {"op": "<=", "value": 5}


def test_the_model_keeps_its_own_spelling_and_the_region_is_passed_on() -> None:
    region = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
    made = plan("pair", "What share of the image changed using the model MyNet-2.1?", region=region, region_crs="image")
    assert made.steps[0].arguments["options"] == {"model": "MyNet-2.1"}
    assert all(s.arguments["region"] == region for s in made.steps)


REFUSED_HERE: list[tuple[str, str, str, str]] = [
    ("one", "Resample the image to 30 m", "NO_ANSWER", "which index or band"),
    ("png", "Mean brightness in EPSG:3857", "NEEDS_BANDS", "Brightness"),
    ("degrees", "Mean NDVI at 60 m", "NEEDS_CRS", "no size in degrees"),
    ("one", "Mean NDVI in EPSG:4326 at 60 m", "NEEDS_CRS", "no size in degrees"),
    ("one", "Mean NDVI in EPSG:999999", "NEEDS_CRS", "no CRS that is known"),
    ("one", "How far are the two images shifted?", "NEEDS_DATES", "two images"),
    ("pictures", "What is the shift between the two images in metres?", "NEEDS_GSD", "ground sampling distance"),
    ("one", "How much did NDVI change after co-registration?", "NEEDS_DATES", "two images"),
    ("one", "How many hot spots are there?", "NO_ANSWER", "which index or band"),
    ("one", "What is the area of each class?", "NEEDS_BANDS", "Class"),
    ("classes", "Which classes changed into which?", "NEEDS_DATES", "two images"),
    ("one", "What is the relief?", "NEEDS_BANDS", "levation"),
    ("dem", "What is the mean aspect?", "NO_ANSWER", "direction"),
    ("dem", "Mean local relief in 4 x 4 pixels", "BAD_ARGUMENT", "odd"),
    ("dem", "Mean local relief in 5 x 7 pixels", "BAD_ARGUMENT", "square"),
    ("bare_dem", "What is the mean slope in degrees?", "NEEDS_BANDS", "Say that its unit is m"),
    ("unnamed", "What is the mean slope?", "NEEDS_BANDS", "Elevation needs a band"),
    ("series", "What is the NDVI anomaly?", "NEEDS_DATES", "which date"),
    ("series", "NDVI anomaly in 2014", "NEEDS_DATES", "date of one"),
    ("pair", "NDVI anomaly in July 2002", "NEEDS_DATES", "three other dates"),
    ("s2", "Area of each burn severity class", "NEEDS_DATES", "two images"),
    ("one", "NDVI by month", "NEEDS_DATES", "2 dates"),
    ("radars", "Mean VV of the greenest composite", "NEEDS_BANDS", "no nir and no red band"),
    ("one", "Pan-sharpen the image", "NEEDS_BANDS", "panchromatic"),
    ("pan", "Pan-sharpen the near infrared band", "NO_ANSWER", "red, green and blue"),
    ("dem", "Show the first principal component", "NEEDS_BANDS", "several bands"),
    ("one", "What is Moran's I of NDVI in the selected region?", "NEEDS_REGION", "none is drawn"),
    ("one", "How noisy is the image without clouds?", "NO_ANSWER", "they are not"),
    ("pictures", "Where is the image?", "NEEDS_DATES", "images fit"),
    ("png", "Where is the image?", "NEEDS_CRS", "coordinate system"),
    ("pair", "What share of the image changed in hectares?", "BAD_ARGUMENT", "ha"),
]


@pytest.mark.parametrize(("which", "text", "code", "says"), REFUSED_HERE, ids=[f"{w}: {t}" for w, t, _, _ in REFUSED_HERE])
def test_what_an_analysis_lacks_is_said(which: str, text: str, code: str, says: str) -> None:
    made = plan(which, text)
    assert made.steps == () and made.answer is None
    assert (made.code, says in made.reason) == (code, True), made.reason


# Near misses: each says something that no phrase holds. None of them may be answered with what it resembles.
NEAR_MISSES = [
    ("one", "What is the mean temperature at 2 m?"), ("one", "What is the mean NDVI at 60 m altitude?"),
    ("one", "What is the mean NDVI at 60 miles?"), ("one", "mean NDVI within 60 m of the road"),
    ("one", "Mean NDVI in EPSG:3857 of the forest"), ("one", "mean NDVI at 60 m and 30 m"),
    ("one", "Resample the NDVI to 30 m with cubic splines"), ("one", "mean NDVI in UTM zone 99N"),
    ("pair", "How far are the two ships shifted?"), ("pair", "How far did the river shift?"),
    ("pair", "How much did NDVI change after the fire?"),
    ("pair", "How much did NDVI change after co-registration in the forest?"),
    ("one", "Is NDVI clustered around the lake?"), ("one", "Is NDVI spatially clustered in winter and summer?"),
    ("one", "Moran's I of NDVI and NDWI"), ("one", "How many fire hot spots of NDVI are there?"),
    ("one", "How many hot spots of NDVI and EVI are there?"), ("one", "What share of the hot spots of NDVI is water?"),
    ("classes", "Area of each class of buildings"), ("classes", "Which area does each class of trees have?"),
    ("pair", "How much area of the forest changed?"), ("classes", "area of each class in metres per second"),
    ("maps", "Which classes changed into forest?"), ("maps", "Which classes changed into which in the park?"),
    ("dem", "Mean slope of the roofs"), ("dem", "mean slope of the river"), ("dem", "slope stability"),
    ("dem", "What share of the buildings faces south?"), ("dem", "What share faces the sea?"),
    ("dem", "How many hectares are steeper than the average?"), ("dem", "relief of the tax burden"),
    ("dem", "hillshade at noon"), ("dem", "What is the height difference between the two peaks?"),
    ("series", "NDVI anomaly caused by drought in March 2014"), ("series", "NDVI anomaly in March 2014 against 2012"),
    ("series", "Mean NDVI of the cloudiest composite"), ("series", "NDVI by farmer"), ("series", "NDVI by month and region"),
    ("series", "weekly NDVI"), ("pair", "How many hectares burned with unknown severity?"),
    ("pair", "Which building burned with high severity?"), ("pair", "mean dNBR of the houses"),
    ("pan", "Pan-sharpen the image with Gram-Schmidt"), ("one", "How much variance is explained by NDVI?"),
    ("one", "fifth principal component"), ("one", "How noisy is the street?"), ("one", "Is the image beautiful?"),
    ("one", "Is the image blurred by motion?"), ("one", "quality of life in the image"),
    ("png", "What does the text mean?"), ("png", "Who wrote the text?"), ("png", "Translate the text in the image"),
    ("png", "What does the sign on the left say?"), ("pair", "What share of the forest changed?"),
    ("pair", "What changed in the government?"), ("pair", "What share of the image changed using the model A or B?"),
    ("pair", "Why did the image change?"), ("series", "Which dates are best?"), ("series", "Which pages are missing?"),
    ("series", "Which dates will be missing?"), ("series", "How many ships are missing?"),
    ("one", "What is the cloud cover tomorrow?"), ("one", "How cloudy is it usually?"), ("one", "Where is the airport?"),
    ("series", "Is the NDVI trend dangerous?"), ("series", "When did NDVI change hands?"),
    ("pair", "correlation of NDVI and rainfall between the two images"),
]  # fmt: skip


@pytest.mark.parametrize(("which", "text"), NEAR_MISSES, ids=[t for _, t in NEAR_MISSES])
def test_a_near_miss_is_no_analysis_and_is_not_answered_by_another(which: str, text: str) -> None:
    asked = question(text, (SETS | MORE)[which])
    assert plan_analysis(asked) is None
    assert OfflinePlanner().plan(asked).steps == ()


def test_what_the_parser_of_measurements_reads_is_left_to_it() -> None:
    taken = [t for w, t, _ in UNDERSTOOD if read_analysis(question(t or "?", SETS[w])) is not None]
    # the slope of a series over time is no slope of the ground, which is told by the scenes
    assert [t for t in taken if plan_analysis(question(t, SETS["series"])) is not None] == []
    assert [t for w, t, *_ in REFUSED if t and plan_analysis(question(t, SETS[w])) is not None] == []


# Operators that no phrase reaches, and why.
BY_GRAPH_ALONE = {
    "raster.product.amplitude": "complex samples are a matter of the file: who has them names the band and what is made of it",
    "raster.product.focal": "which filter, of which size and edge is a graph's: smoothed pixels have other figures than asked",
    "raster.product.resample": "onto another image's grid: plans of two images do it where their grids differ",
}


# Retrievals that no phrase reaches, and why.
RETRIEVALS_BY_GRAPH_ALONE = {
    **dict.fromkeys(("toa_reflectance", "toa_reflectance_radiance", "dark_object"),
                    "makes an input of other figures; a product of level 2, or scale and offset at ingest, give reflectance"),
    **dict.fromkeys(("lst_emissivity", "lst_ndvi"), "leave the air out, which the single channel of the words does not"),
    "lst_multi_channel": "its coefficients are NOAA-7's, of which no profile is kept",
    "lst_separation": "five thermal bands, of which two have a role",
    "lst_three_band": "its coefficients are the caller's own regression",
    "evaporation_3t": "four energies and two temperatures that no image tells",
    **dict.fromkeys(("polarization_difference", "polarization_ratio", "frequency_difference", "frequency_ratio",
                     "multi_frequency_temperature"), "of which channels of a radiometer is a graph's to say"),
    "fire_radiative_power": "the law that NASA left for the one by radiance, which is asked for in words",
}  # fmt: skip


def test_the_list_of_retrievals_that_no_words_reach_is_current() -> None:
    asked = "".join(Path(str(m.__file__)).read_text(encoding="utf-8") for m in (analysis_heat, analysis_physics))
    reached = {name for name in RETRIEVALS if f'"{name}"' in asked}
    assert set(RETRIEVALS) - reached == set(RETRIEVALS_BY_GRAPH_ALONE)


def test_the_list_of_operators_that_no_words_reach_is_current() -> None:
    """Over every phrase of the planner's tests. An operator that words come to reach leaves the list, a new one enters it."""
    reached: set[str] = set()
    for which, text in [*((w, t) for w, t, *_ in UNDERSTOOD), *((w, t) for w, t, *_ in PLANNED)]:
        for step in OfflinePlanner().plan(question(text, (SETS | MORE)[which])).steps:
            nodes: Any = step.arguments.get("nodes", [])
            reached |= {n["op"] for n in nodes}
    # zones come from vector files, which test_offline_things asks with
    reached |= {"vector.zones", "raster.summarize.zonal"}
    assert set(OPERATORS) - reached == set(BY_GRAPH_ALONE)


@pytest.mark.parametrize(("text", "statistic", "method", "title"), [
    ("Median NDVI by year", "median", "median", "Median NDVI by year (median composites)"),
    ("What is the maximum NDVI by month?", "max", "max", "Maximum NDVI by month (max composites)"),
    ("monthly minimum NDVI", "min", "min", "Minimum NDVI by month (min composites)"),
    ("maximum NDVI composites by year", "mean", "max", "Mean NDVI by year (max composites)"),
    ("NDVI by year", "mean", "mean", "Mean NDVI by year (mean composites)"),
])  # fmt: skip
def test_a_statistic_by_month_or_year_is_that_of_the_pixels_too(text: str, statistic: str, method: str, title: str) -> None:
    """The greatest by month is no mean of the pixels' greatest; only of composites the mean is told."""
    made = plan("series", text)
    for s in made.steps:
        nodes: Any = s.arguments["nodes"]
        assert (nodes[-1]["params"]["statistic"], nodes[-2]["params"]["method"]) == (statistic, method)
    assert made.answer is not None and made.answer.options["phrase"] == title


def test_a_band_is_told_of_with_an_of() -> None:
    made = plan("pair", "Mean red of the greenest composite").answer
    assert made is not None and made.options["phrase"] == "Mean of the red band of the greenest composite of 2 dates"


def test_a_catalogue_is_asked_for_place_period_sensor_and_level() -> None:
    def catalogue(text: str, **more: Any) -> Any:
        nodes: Any = plan("series", text, **more).steps[0].arguments["nodes"]
        return nodes[0]["params"]

    here = list((SETS | MORE)["series"][0].grid.lonlat_bounds())
    asked = catalogue("Which Sentinel-2 L2A images are there in the project between 2014-01-01 and 2014-06-30?")
    assert asked == {"source": "project", "sensor": "sentinel-2", "level": "L2A", "bbox": pytest.approx(here),
                     "start": "2014-01-01", "end": "2014-06-30"}
    drawn = {"type": "Polygon", "coordinates": [[[10.0, 48.0], [11.0, 48.0], [11.0, 49.0], [10.0, 48.0]]]}
    asked = catalogue("How many level 1C scenes are in the STAC API?", region=drawn)
    assert asked == {"source": "api", "level": "L1C", "bbox": [10.0, 48.0, 11.0, 49.0]}
    assert catalogue("Which images are in the catalogue?")["source"] == "all"
    assert catalogue("Which images are there?") == {"source": "question"}
    assert plan("pictures", "Which images are in the project?").code == "NEEDS_REGION"


def test_options_of_a_multiple_choice_are_matched() -> None:
    made = plan("one", "Is NDVI spatially clustered?", choices={"A": "Yes", "B": "No"})
    assert made.answer is not None and (made.answer.kind, made.answer.options["of"]) == ("choice", "clustered")
    assert made.task.answer_form == "choice"
    made = plan("dem", "What is the mean slope?", choices={"A": "5", "B": "15"})
    assert made.answer is not None and made.answer.options["mode"] == "nearest"
    assert Question(text="x", scenes=()).choices == {}
