"""Products as their makers deliver them, through ingest and the tools: how many pixels of each value a quality band holds was
counted in the product's own file, and what it should come to is what USGS and ESA say of that product in its metadata; and a
surface temperature from the bands that USGS made it of.

The files themselves are not kept here: the tests lay the counted or read values out as a raster under the product's own name, so
that the reading of the name, of the fill, of the scale and of the bits is that of a delivered file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray
from rasterio.transform import from_origin

from apps.core.evidence.observation import Observation
from apps.imagery.hints import SceneHints
from apps.imagery.ingest_convert import convert
from apps.imagery.inspect import inspect_file
from apps.imagery.readers import open_scene
from tests.unit.tools.rasters import Bench

S = ("s1", "asset.scene", (), {"scene": "s"})

# Landsat 8, Collection 2, level 2 (USGS, public domain), as stactools-packages/landsat keeps them with their metadata, each
# thinned to 512 × 512 pixels: how many have which value, and CLOUD_COVER of the product's MTL, in %. Over ice and snow of
# Greenland, the Colombian Andes, and two scenes that are all cloud: over Tennessee and over Antarctica.
LANDSAT = {
    "LC08_L2SP_005009_20150710_20200908_02_T2": (54.65, {
        1: 124772, 22280: 73833, 23826: 813, 23888: 2497, 24082: 2909, 24144: 634, 29986: 440, 30048: 52484, 30242: 1178,
        30304: 1310, 55052: 1274}),
    "LC08_L2SP_008059_20191201_20200825_02_T1": (81.02, {
        1: 81507, 21762: 679, 21824: 20724, 21952: 85, 22018: 996, 22080: 525, 22280: 136562, 23826: 1798, 23888: 6411,
        24082: 2260, 24144: 718, 55052: 9857, 56598: 9, 56660: 2, 56854: 11}),
    "LC08_L2SP_017036_20130419_20200913_02_T2": (100.00, {1: 86129, 22280: 1377, 55052: 174638}),
    "LC08_L2SR_099120_20191129_20201016_02_T2": (100.00, {1: 134818, 55052: 127326}),
}  # fmt: skip
# USGS LSDS-1619 version 2.0, section 6.1: bit 0 is the lowest
USGS_BITS = ("fill", "dilated_cloud", "cirrus", "cloud", "shadow", "snow", "clear", "water")
# The same guide, table 6-3: values, and the flags it sets in them. The products above have 21762 for what it calls 21826, a
# dilated cloud over land, and 21952 for its 21888, water: their bit 6 is off under a dilated cloud and on over clear water.
USGS_WORDS = {
    21824: {"clear"}, 21826: {"dilated_cloud", "clear"}, 21888: {"water"}, 21890: {"dilated_cloud", "water"},
    22080: {"clear"}, 22144: {"water"}, 22280: {"cloud"}, 23888: {"shadow", "clear"}, 23952: {"shadow", "water"}}  # fmt: skip

# Sentinel-2A, tile 29UNU, 5 October 2022, baseline 04.00 (S2A_MSIL2A_20221005T115411_N0400_R023_T29UNU_20221005T164454;
# contains modified Copernicus Sentinel data 2022), as stactools-packages/sentinel2 kept it: pixels of each class in the SCL of
# 20 m, and the percentages of its MTD_MSIL2A.xml, of the tile for nodata and of what is seen for the others
SCL = {0: 12182447, 3: 1850623, 4: 4681208, 5: 179437, 6: 366262, 7: 146768, 8: 6805190, 9: 1903294, 10: 2024755, 11: 116}
ESA = {
    "nodata": 40.419397, "saturated": 0.0, "dark": 0.0, "shadow": 10.305484, "vegetation": 26.068041, "bare": 0.999223,
    "water": 2.039587, "unclassified": 0.817301, "cloud": 37.895766 + 10.598791, "cirrus": 11.275166, "snow": 6.46e-4,
}  # fmt: skip
ESA_CLOUD_COVERAGE = 59.769726


def delivered(folder: Path, name: str, values: NDArray[np.generic]) -> Bench:
    """The values as a file of that name and form, looked at and copied as by ingest, and read as the site reads its copies."""
    path, copy = folder / "delivered", folder / "copy.tif"
    form = {"driver": "JP2OpenJPEG", "QUALITY": "100", "REVERSIBLE": "YES"} if name.endswith("jp2") else {"driver": "GTiff"}
    place = from_origin(499980, 6000000, 60, 60)
    with rasterio.open(path, "w", width=values.shape[1], height=values.shape[0], count=1, dtype=values.dtype,
                       crs="EPSG:32629", transform=place, **form) as out:  # fmt: skip
        out.write(values, 1)
    info = inspect_file(path, name, SceneHints(), scene_id="s", artifact="sha256:q").info
    convert(path, copy, name, SceneHints())
    bench = Bench((info, np.zeros((1, 1, 1))))
    bench.box._open_scene = lambda held: open_scene(held, copy)  # type: ignore[method-assign]
    return bench


def laid_out(counts: dict[int, int], width: int, dtype: str) -> NDArray[np.generic]:
    """A raster that holds each value so many times."""
    return np.repeat(list(counts), list(counts.values())).astype(dtype).reshape(-1, width)


def share(bench: Bench, *flags: str) -> float:
    """The share of the seen pixels that raise one of the flags, by the band's own scheme."""
    o: Observation = bench.execute([S, ("m", "raster.product.qa_mask", ["s1"], {"flags": list(flags)}),
                                    ("out", "raster.summarize.share", ["m"], {})])  # fmt: skip
    assert o.status.state == "ok", o.status.reason
    assert isinstance(o.result.value, float) and o.result.unit == "1"
    return o.result.value


@pytest.mark.parametrize("product", LANDSAT)
def test_landsats_own_cloud_cover_is_found_in_its_quality_band(product: str, tmp_path: Path) -> None:
    """USGS counted the clouds over the whole scene; of every fifteenth row and column here."""
    cover, counts = LANDSAT[product]
    assert sum(counts.values()) == 512 * 512
    bench = delivered(tmp_path, f"{product}_QA_PIXEL.TIF", laid_out(counts, 512, "uint16"))
    band = bench.question.scenes[0].bands[0]
    assert (band.role, band.scheme, band.nodata) == ("qa", "landsat_c2", 1.0)
    assert 100 * share(bench, "cloud") == pytest.approx(cover, abs=0.06)
    values = np.array([v for v in counts if v != 1], dtype=">u2")
    weights = np.array([n for v, n in counts.items() if v != 1])
    bits = np.unpackbits(values.view(np.uint8).reshape(-1, 2), axis=1)[:, ::-1].astype(bool)
    for i, flag in enumerate(USGS_BITS):
        assert share(bench, flag) == pytest.approx(weights[bits[:, i]].sum() / weights.sum(), abs=1e-12), flag
    left_out = bits[:, USGS_BITS.index("cloud")] | bits[:, USGS_BITS.index("dilated_cloud")] | bits[:, USGS_BITS.index("shadow")]
    assert share(bench, "cloud", "dilated_cloud", "shadow") == pytest.approx(weights[left_out].sum() / weights.sum(), abs=1e-12)


def test_landsats_values_say_what_usgs_says_of_them(tmp_path: Path) -> None:
    held = np.array([[1, *USGS_WORDS]], dtype=np.uint16)
    bench = delivered(tmp_path, "LC08_L2SP_008059_20191201_20200825_02_T1_QA_PIXEL.TIF", held)
    for flag in USGS_BITS[1:]:
        o = bench.execute([S, ("m", "raster.product.qa_mask", ["s1"], {"flags": [flag]})])
        mask, valid = bench.layers.read_mask(o.result.layers[0])
        assert valid[0].tolist() == [False] + [True] * len(USGS_WORDS)  # 1 is fill
        assert mask[0, 1:].tolist() == [flag in words for words in USGS_WORDS.values()], flag


def test_esas_percentages_are_found_in_the_scene_classification(tmp_path: Path) -> None:
    """Every hundredth pixel of the tile's 30 million, so shares hold to a thousandth of a percent."""
    counts = {k: round(n / 100) for k, n in SCL.items()}
    counts[0] += 549 * 549 - sum(counts.values())
    bench = delivered(tmp_path, "T29UNU_20221005T115411_SCL_20m.jp2", laid_out(counts, 549, "uint8"))
    band = bench.question.scenes[0].bands[0]
    assert (band.role, band.scheme, band.nodata) == ("qa", "sentinel2_scl", 0.0)
    assert 100 * counts[0] / 549**2 == pytest.approx(ESA["nodata"], abs=1e-3)
    for flag, percent in ESA.items():
        if flag != "nodata":
            assert 100 * share(bench, flag) == pytest.approx(percent, abs=1e-3), flag
    assert 100 * share(bench, "cloud", "cirrus") == pytest.approx(ESA_CLOUD_COVERAGE, abs=1e-3)
    # what a product leaves out by itself: cloud, cirrus and shadow
    clear = 100 - 100 * share(bench, "cloud", "shadow", "cirrus")
    assert clear == pytest.approx(100 - ESA_CLOUD_COVERAGE - ESA["shadow"], abs=1e-3)


# LC08_L2SP_008059_20191201_20200825_02_T1, twelve clear pixels from the coldest to the warmest, stored numbers of its bands
# ST_TRAD (radiance at the sensor), ST_URAD and ST_DRAD (of the air, up and down), ST_ATRAN, ST_EMIS and ST_B10
THERMAL = {
    "TRAD": [6704, 8339, 8433, 8526, 8592, 8804, 8824, 8947, 8926, 8956, 9001, 9561],
    "URAD": [5110, 4903, 4830, 5041, 5148, 4921, 5001, 4828, 4973, 5045, 5065, 4854],
    "DRAD": [2140, 2077, 2054, 2126, 2160, 2085, 2109, 2049, 2101, 2115, 2127, 2060],
    "ATRAN": [3391, 3692, 3713, 3474, 3331, 3675, 3551, 3769, 3580, 3492, 3483, 3710],
    "EMIS": [9816, 9845, 9848, 9833, 9851, 9846, 9849, 9842, 9817, 9840, 9793, 9618],
    "B10": [32059, 43710, 44596, 45284, 45864, 46335, 46719, 47041, 47304, 47562, 47829, 50724],
}
K10 = (774.8853, 1321.0789)  # its MTL, K1_CONSTANT_BAND_10 and K2


def test_usgs_surface_temperature_from_the_bands_it_was_made_of(tmp_path: Path) -> None:
    """From stored numbers to kelvins in one graph: the air's own light off, through its transmission, the sky's reflection off,
    over the emissivity, to a temperature by K1 and K2. USGS inverts a table over the whole band; half a kelvin apart at most,
    0.15 K in the median."""
    copies, infos = {}, []
    for key, values in THERMAL.items():
        name = f"LC08_L2SP_008059_20191201_20200825_02_T1_ST_{key}.TIF"
        kind, fill = ("uint16", 0) if key == "B10" else ("int16", -9999)
        path, copies[key] = tmp_path / key, tmp_path / f"{key}.tif"
        with rasterio.open(path, "w", driver="GTiff", width=13, height=1, count=1, dtype=kind, nodata=fill, crs="EPSG:32618",
                           transform=from_origin(500000, 100000, 30, 30)) as out:  # fmt: skip
            out.write(np.array([[*values, fill]], dtype=kind), 1)
        infos.append(inspect_file(path, name, SceneHints(), scene_id=key, artifact=f"sha256:{key}").info)
        convert(path, copies[key], name, SceneHints())
    assert {i.scene_id: i.bands[0].unit for i in infos} == {
        "TRAD": "W/m2/sr/um", "URAD": "W/m2/sr/um", "DRAD": "W/m2/sr/um", "ATRAN": "1", "EMIS": "1", "B10": "K"}  # fmt: skip
    bench = Bench(*((info, np.zeros((1, 1, 1))) for info in infos))
    bench.box._open_scene = lambda held: open_scene(held, copies[held.scene_id])  # type: ignore[method-assign]
    nodes: list[tuple[object, ...]] = []
    for info in infos:
        key = info.scene_id.lower()
        nodes += [(f"{key}_scene", "asset.scene", (), {"scene": info.scene_id}),
                  (key, "raster.product.band", [f"{key}_scene"], {"role": info.bands[0].role})]  # fmt: skip
    surface = "((trad - urad) / atran - (1 - emis) * drad) / emis"
    nodes += [("light", "raster.product.math", ["trad", "urad", "drad", "atran", "emis"],
               {"expression": surface, "range": [-30, 100], "unit": "W/m2/sr/um", "quantity": "radiance"}),
              ("lst", "raster.product.retrieval", ["light"],
               {"name": "brightness_temperature", "inputs": {"radiance": "light"}, "coefficients": {"k1": K10[0], "k2": K10[1]}}),
              ("away", "raster.product.math", ["lst", "b10"],
               {"expression": "lst - b10", "range": [-50, 50], "unit": "K"})]  # fmt: skip
    o = bench.execute(nodes)
    assert o.status.state == "ok", o.status.reason
    layer = bench.layers.read_raster(o.result.layers[0])
    assert layer.valid[0, 0].tolist() == [True] * 12 + [False]
    away = layer.data[0, 0, :12]
    assert np.abs(away).max() < 0.5 and np.median(np.abs(away)) < 0.15
    t, u, d = (np.array(THERMAL[k]) * 1e-3 for k in ("TRAD", "URAD", "DRAD"))
    tau, e = (np.array(THERMAL[k]) * 1e-4 for k in ("ATRAN", "EMIS"))
    light = ((t - u) / tau - (1 - e) * d) / e
    wanted = K10[1] / np.log(K10[0] / light + 1) - (np.array(THERMAL["B10"]) * 0.00341802 + 149)
    assert away == pytest.approx(wanted, abs=1e-4)
