"""Physical retrievals by whole graphs over real measurements, each against its paper's formula written here again in plain numpy,
another library's figures or what was measured on the ground. Tables of figures stand with the source they were read from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray
from scipy import constants, optimize

from apps.core.geo.scene import SceneInfo
from tests.unit.tools.rasters import Bench, node_of, scene

Nodes = list[tuple[Any, ...]]
Array = NDArray[np.float64]
Held = tuple[SceneInfo, NDArray[Any]]


def read(path: Path, band: int = 1) -> Array:
    with rasterio.open(path) as src:
        return np.asarray(src.read(band), dtype=np.float64)


def taken(name: str, of: str, role: str) -> Nodes:
    """A scene's band as node ``name``."""
    return [(f"{name}_scene", "asset.scene", (), {"scene": of}), (name, "raster.product.band", [f"{name}_scene"], {"role": role})]


def got(node: str, name: str, inputs: dict[str, str], **coefficients: float) -> tuple[Any, ...]:
    """A retrieval of nodes."""
    return (node, "raster.product.retrieval", list(dict.fromkeys(inputs.values())),
            {"name": name, "inputs": inputs, "coefficients": coefficients})


def agrees(bench: Bench, nodes: Nodes, wanted: Array, valid: NDArray[np.bool_] | None = None, unit: str = "K") -> Array:
    """The last node is the array: each pixel as the layer keeps it (single precision), the mean in double. Gives the layer."""
    valid = np.ones(wanted.shape, dtype=bool) if valid is None else valid
    o = bench.execute(nodes)
    assert o.status.state == "ok", o.status.reason
    layer = bench.layers.read_raster(o.result.layers[0])
    assert layer.unit == unit and np.array_equal(layer.valid[0], valid)
    np.testing.assert_allclose(layer.data[0][valid], wanted[valid], rtol=2e-7, atol=1e-9 + 2e-7 * np.abs(wanted[valid]).max())
    o = bench.execute([*nodes, ("out", "raster.summarize.statistic", [nodes[-1][0]], {})])
    assert o.result.unit == unit and o.evidence.intermediate["valid_px"] == int(valid.sum())
    assert o.result.value == pytest.approx(wanted[valid].mean(), rel=1e-9, abs=1e-12)
    return np.asarray(layer.data[0], dtype=np.float64)


def table(columns: dict[str, list[float]], unit: str, band: str = "thermal1") -> tuple[Bench, Nodes, dict[str, Array]]:
    """Measurements as a scene of one row for each column, with a node of its name."""
    held, nodes, planes = [], [], {}
    for name, values in columns.items():
        planes[name] = np.array([values], dtype=np.float64)
        held.append(scene(planes[name][None], [band], unit=unit, scene_id=name))
        nodes += taken(name, name, band)
    return Bench(*held), nodes, planes


# --- Landsat 8 over Talca, 9 February 2016 ---------------------------------------------------------------------------------
BANDS = {"blue": 2, "green": 3, "red": 4, "nir": 5, "swir1": 6, "swir2": 7, "thermal1": 10, "thermal2": 11}


class Talca:
    """The crop's stored numbers, surface reflectance and metadata, and the scenes made of them."""

    def __init__(self, folder: Path):
        stem = folder / "LC82320832016040LGN00"
        self.dn = {r: read(Path(f"{stem}_band{b}.tif")) for r, b in BANDS.items()}
        self.sr = {r: read(Path(f"{stem}_sr_band{b}.tif")) / 1e4 for r, b in BANDS.items() if b < 10}
        lines = (line.partition("=") for line in Path(f"{stem}_MTL.txt").read_text().splitlines())
        self.mtl = {k.strip(): v.strip().strip('"') for k, _, v in lines}
        place: dict[str, Any] = {"crs": "EPSG:32619", "pixel": 30.0, "origin": (510495.0, -3650985.0)}
        stored = np.stack(list(self.dn.values()))
        above = np.stack([np.rint(p * 1e4) for p in self.sr.values()])
        self.scenes = (scene(stored, list(self.dn), scene_id="dn", **place),
                       scene(above, list(self.sr), scene_id="sr", unit="reflectance", scale=1e-4, **place))
        self.bench = Bench(*self.scenes)

    def number(self, name: str) -> float:
        return float(self.mtl[name])

    def light(self, band: int) -> Array:
        """Spectral radiance (USGS Landsat 8 handbook, section 5)."""
        role = next(r for r, b in BANDS.items() if b == band)
        return self.number(f"RADIANCE_MULT_BAND_{band}") * self.dn[role] + self.number(f"RADIANCE_ADD_BAND_{band}")

    def warmth(self, band: int) -> Array:
        """Brightness temperature (the same handbook)."""
        k1, k2 = (self.number(f"{k}_CONSTANT_BAND_{band}") for k in ("K1", "K2"))
        return np.asarray(k2 / np.log(k1 / self.light(band) + 1))

    @property
    def ndvi(self) -> Array:
        return (self.sr["nir"] - self.sr["red"]) / (self.sr["nir"] + self.sr["red"])

    @property
    def emissivity(self) -> Array:
        """Sobrino et al. 2008, IEEE TGRS 46: soil 0.973, vegetation 0.99, between them by the squared share of vegetation."""
        share = ((self.ndvi - 0.2) / (0.5 - 0.2)) ** 2
        return np.where(self.ndvi < 0.2, 0.973, np.where(self.ndvi > 0.5, 0.99, 0.973 + 0.017 * share))

    def thermal(self, band: int) -> Nodes:
        """Nodes d10, l10 and t10 (or 11): stored numbers, radiance, brightness temperature."""
        role = "thermal1" if band == 10 else "thermal2"
        k1, k2 = (self.number(f"{k}_CONSTANT_BAND_{band}") for k in ("K1", "K2"))
        return [*taken(f"d{band}", "dn", role),
                got(f"l{band}", "radiance", {"dn": f"d{band}"}, gain=self.number(f"RADIANCE_MULT_BAND_{band}"),
                    offset=self.number(f"RADIANCE_ADD_BAND_{band}")),
                got(f"t{band}", "brightness_temperature", {"radiance": f"l{band}"}, k1=k1, k2=k2)]

    def greenness(self) -> Nodes:
        """Nodes ndvi and e: NDVI of surface reflectance, emissivity."""
        return [("sr_scene", "asset.scene", (), {"scene": "sr"}),
                ("ndvi", "raster.product.index", ["sr_scene"], {"index": "ndvi"}), got("e", "emissivity_ndvi", {"ndvi": "ndvi"})]

    def surface(self) -> tuple[Nodes, Array]:
        """Surface temperature by the single channel with 1.2 g/cm² of water vapour: nodes, and the formula again."""
        return ([*self.thermal(10), *self.greenness(), got("lst", "lst_single_channel", {
            "bt": "t10", "radiance": "l10", "emissivity": "e"}, water_vapour=1.2)], single_channel(self, 1.2))


def single_channel(t: Talca, w: float) -> Array:
    """Jiménez-Muñoz et al. 2014, IEEE GRSL 11, equations 2 to 4 and table I (TIRS-1): matrix times (w², w, 1), bγ = 1324 K."""
    psi = np.array([[0.04019, 0.02916, 1.01523], [-0.38333, -1.50294, 0.20324], [0.00918, 1.36072, -0.27514]]) @ [w * w, w, 1]
    warmth, light = t.warmth(10), t.light(10)
    gamma = warmth**2 / (1324 * light)
    return np.asarray(gamma * ((psi[0] * light + psi[1]) / t.emissivity + psi[2]) + warmth - warmth**2 / 1324)


@pytest.fixture(scope="module")
def talca(shared_data: Path) -> Talca:
    return Talca(shared_data / "multispectral/landsat8_talca_2016")


# pylandtemp 0.0.1-alpha.1 (BrightnessTemperatureLandsat, K1 and K2 rounded to 0.01) on these two bands:
# mean, standard deviation, least, greatest, pixels [10, 20] and [100, 150]
PYLANDTEMP = {10: (300.230124, 1.522223, 295.30882, 305.56820, 300.795240, 299.383220),
              11: (298.223835, 1.200130, 294.26850, 302.52790, 299.065271, 297.533671)}


@pytest.mark.shared_data
@pytest.mark.parametrize("band", [10, 11])
def test_radiance_and_brightness_temperature_of_landsat_8(talca: Talca, band: int) -> None:
    agrees(talca.bench, talca.thermal(band)[:3], talca.light(band), unit="W/m2/sr/um")
    found = agrees(talca.bench, talca.thermal(band), talca.warmth(band))
    seen = (found.mean(), found.std(), found.min(), found.max(), found[10, 20], found[100, 150])
    assert seen == pytest.approx(PYLANDTEMP[band], abs=2e-3)


@pytest.mark.shared_data
@pytest.mark.parametrize("role", ["blue", "red", "nir", "swir2"])
def test_reflectance_at_the_top_of_the_atmosphere_by_both_ways(talca: Talca, role: str) -> None:
    """By the scale of reflectance, and by radiance over the sun's irradiance, which the metadata's greatest values tell."""
    band, sun = BANDS[role], talca.number("SUN_ELEVATION")
    scale, offset = (talca.number(f"REFLECTANCE_{k}_BAND_{band}") for k in ("MULT", "ADD"))
    wanted = (scale * talca.dn[role] + offset) / np.cos(np.radians(90 - sun))
    d = taken("d", "dn", role)
    one = agrees(talca.bench, [*d, got("r", "toa_reflectance", {"dn": "d"}, gain=scale, offset=offset, sun_elevation=sun)],
                 wanted, unit="reflectance")
    far = talca.number("EARTH_SUN_DISTANCE")
    esun = np.pi * far**2 * talca.number(f"RADIANCE_MAXIMUM_BAND_{band}") / talca.number(f"REFLECTANCE_MAXIMUM_BAND_{band}")
    by_light = np.pi * talca.light(band) * far**2 / (esun * np.cos(np.radians(90 - sun)))
    other = agrees(talca.bench, [
        *d, got("l", "radiance", {"dn": "d"}, gain=talca.number(f"RADIANCE_MULT_BAND_{band}"),
                offset=talca.number(f"RADIANCE_ADD_BAND_{band}")),
        got("r", "toa_reflectance_radiance", {"radiance": "l"}, esun=esun, sun_elevation=sun, distance_au=far)],
        by_light, unit="reflectance")
    assert np.abs(one - other).max() < 2e-4


@pytest.mark.shared_data
def test_the_dark_object_brings_blue_nearer_to_the_surface_reflectance(talca: Talca) -> None:
    sun = talca.number("SUN_ELEVATION")
    above = (2e-5 * talca.dn["blue"] - 0.1) / np.sin(np.radians(sun))
    # Chavez 1988: the darkest object of the scene is taken to be black; 0.1 % of the pixels may be darker
    dark = float(np.percentile(above, 0.1))
    found = agrees(talca.bench, [*taken("d", "dn", "blue"), got("r", "toa_reflectance", {"dn": "d"}, sun_elevation=sun),
                                 got("s", "dark_object", {"reflectance": "r"}, dark=dark)], above - dark, unit="reflectance")
    before, after = (float(np.abs(p - talca.sr["blue"]).mean()) for p in (above, found))
    assert before > 0.05 and after < before / 3


@pytest.mark.shared_data
def test_albedo_and_emissivity_of_surface_reflectance(talca: Talca) -> None:
    s = talca.sr
    # Liang 2001, RSE 76, table of Landsat TM and ETM+
    albedo = 0.356 * s["blue"] + 0.130 * s["red"] + 0.373 * s["nir"] + 0.085 * s["swir1"] + 0.072 * s["swir2"] - 0.0018
    found = agrees(talca.bench, [("sr", "asset.scene", (), {"scene": "sr"}), (
        "a", "raster.product.retrieval", ["sr"], {"name": "albedo_landsat"})], albedo, unit="1")
    assert 0.1 < found.mean() < 0.25  # orchards and fields
    agrees(talca.bench, talca.greenness(), talca.emissivity, unit="1")


@pytest.mark.shared_data
def test_single_channel_and_split_window_of_one_scene(talca: Talca) -> None:
    """Each against its formula; and both, which see different bands, within 3 K of each other."""
    nodes, wanted = talca.surface()
    one = agrees(talca.bench, nodes, wanted)
    t10, t11, w = talca.warmth(10), talca.warmth(11), 1.2
    apart = t10 - t11
    # Jiménez-Muñoz et al. 2014, equation 5 and table II; the R package water brings the same coefficients for this crop
    split = t10 + 1.378 * apart + 0.183 * apart**2 - 0.268 + (54.30 - 2.238 * w) * (1 - talca.emissivity)
    both = [*talca.thermal(10), *talca.thermal(11), *talca.greenness()]
    two = agrees(talca.bench, [*both, got("lst", "lst_split_window", {"t1": "t10", "t2": "t11", "emissivity": "e"},
                                          water_vapour=w)], split)
    assert abs(float(np.median(one - two))) < 1.5 and np.percentile(np.abs(one - two), 99) < 3


@pytest.mark.shared_data
def test_split_and_multi_channel_as_pylandtemp_has_them(talca: Talca) -> None:
    """Their coefficients (c1 = 1.387 as they write it, w = 0.013; McMillin 1975) given to ours, their figures of these bands."""
    both = [*talca.thermal(10), *talca.thermal(11), *talca.greenness()]
    t10, t11 = talca.warmth(10), talca.warmth(11)
    wanted = t10 + 1.387 * (t10 - t11) + 0.183 * (t10 - t11) ** 2 - 0.268 + (54.3 - 2.238 * 0.013) * (1 - talca.emissivity)
    found = agrees(talca.bench, [*both, got("lst", "lst_split_window", {"t1": "t10", "t2": "t11", "emissivity": "e"},
                                            c1=1.387, water_vapour=0.013)], wanted)
    assert (found.mean(), found.min(), found[100, 150]) == pytest.approx((304.287187, 297.47984, 302.849266), abs=3e-3)
    found = agrees(talca.bench, [*both, got("sst", "lst_multi_channel", {"t1": "t10", "t2": "t11"}, a0=-10.93 - 273.15,
                                            a1=1.035, a2=3.046)], 1.035 * t10 + 3.046 * (t10 - t11) - 10.93)
    assert (found.mean(), found.max(), found[10, 20]) == pytest.approx((305.919333, 314.97658, 305.662557), abs=5e-3)
    # McClain et al. 1985: degrees Celsius of kelvins; made for the sea, land is but the carrier here
    agrees(talca.bench, [*both, got("sst", "lst_multi_channel", {"t1": "t10", "t2": "t11"})],
           1.0346 * t10 + 2.5779 * (t10 - t11) - 283.21 + 273.15)


@pytest.mark.shared_data
def test_temperature_through_an_emissivity_gives_the_radiance_back(talca: Talca) -> None:
    """Artis and Carnahan 1982, T / (1 + λ T k / (h c) · ln ε): a body that warm sends ε B(T) = B(T seen), in Wien's region."""
    hc_k = constants.h * constants.c / constants.k * 1e6
    warmth, e = talca.warmth(10), talca.emissivity
    wanted = warmth / (1 + 10.895 * warmth / hc_k * np.log(e))
    nodes = [*talca.thermal(10), *talca.greenness()]
    found = agrees(talca.bench, [*nodes, got("lst", "lst_emissivity", {"bt": "t10", "emissivity": "e"})], wanted)
    agrees(talca.bench, [*nodes, got("lst", "lst_ndvi", {"bt": "t10", "ndvi": "ndvi"})], wanted)
    assert e * np.exp(-hc_k / (10.895 * found)) == pytest.approx(np.exp(-hc_k / (10.895 * warmth)), rel=1e-6)


def planck(um: Any, temperature: Any) -> Any:
    """Spectral radiance in W m⁻² sr⁻¹ µm⁻¹, by the constants of scipy."""
    m = um * 1e-6
    return 2e-6 * constants.h * constants.c**2 / m**5 / np.expm1(constants.h * constants.c / (m * constants.k * temperature))


# Effective wavelengths of ASTER's bands 10 to 14 and the bands' limits, µm (Gillespie et al. 1998; Yamaguchi et al. 1998)
ASTER = np.array([8.291, 8.634, 9.075, 10.657, 11.318])
ASTER_LIMITS = ((8.125, 8.475), (8.475, 8.825), (8.925, 9.275), (10.25, 10.95), (10.95, 11.65))


def separated(seen: Array) -> float:
    """Gillespie et al. 1998 for one pixel's five radiances, every temperature by a root finder."""

    def back(um: float, radiance: float) -> float:
        return float(optimize.brentq(lambda t: planck(um, t) - radiance, 150, 450, xtol=1e-10))

    warm = max(back(um, x / 0.99) for um, x in zip(ASTER, seen, strict=True))
    relative = seen / planck(ASTER, warm)
    relative = relative / relative.mean()
    e = relative * (0.994 - 0.687 * np.ptp(relative) ** 0.737) / relative.min()
    best = int(np.argmax(e))
    return back(ASTER[best], seen[best] / e[best])


@pytest.mark.shared_data
def test_separation_over_the_surfaces_of_talca(talca: Talca) -> None:
    """No radiances of five thermal bands were to be had: they are worked out of the crop's own temperature and cover, soil with
    the dip of quartz at 8 to 9 µm and leaves without. The tool against Gillespie et al. 1998 solved pixel by pixel by a
    root finder, and against the temperature that went in, within the 1.5 K that the authors state."""
    soil, leaf = np.array([0.82, 0.80, 0.83, 0.955, 0.965]), np.array([0.983, 0.983, 0.984, 0.982, 0.986])
    truth = single_channel(talca, 1.2)
    share = np.clip((talca.ndvi - 0.2) / 0.3, 0, 1)
    light = [(leaf[i] * share + soil[i] * (1 - share)) * planck(um, truth) for i, um in enumerate(ASTER)]
    names = [f"l{i}" for i in range(10, 15)]
    held = [scene(p[None], ["thermal1"], unit="W/m2/sr/um", scene_id=n) for n, p in zip(names, light, strict=True)]
    bench, nodes = Bench(*held), [n for name in names for n in taken(name, name, "thermal1")]
    o = bench.execute([*nodes, got("lst", "lst_separation", {n: n for n in names})])
    found = bench.layers.read_raster(o.result.layers[0]).data[0]

    for row, col in np.random.default_rng(3).integers(0, found.shape, (300, 2)):
        assert found[row, col] == pytest.approx(separated(np.array([p[row, col] for p in light])), abs=1e-4)
    assert np.abs(found - truth).max() < 1.5


# Emissivities of what was measured for the ECOSTRESS spectral library (Meerdink et al. 2019, RSE 230; Baldridge et al. 2009, RSE
# 113; spectra courtesy of the Jet Propulsion Laboratory, California Institute of Technology), as 1 less the measured reflectance,
# averaged over the limits of ASTER's five bands
MEASURED = {
    "granite H1, solid": (0.7664, 0.7302, 0.7148, 0.9041, 0.9359), "granite H2, solid": (0.7271, 0.6694, 0.6572, 0.8995, 0.9343),
    "shale phop005": (0.9136, 0.9104, 0.8709, 0.9455, 0.9527), "shale phop009": (0.9425, 0.9497, 0.9383, 0.9553, 0.9593),
    "shale, coarse": (0.9470, 0.9407, 0.9344, 0.9673, 0.9714), "sandstone, coarse": (0.8919, 0.9049, 0.8895, 0.9657, 0.9721),
    "quartzite, coarse": (0.6916, 0.7063, 0.6729, 0.9496, 0.9631), "dunite, fine": (0.9309, 0.9674, 0.9785, 0.9518, 0.9506),
    "alunite 3": (0.9505, 0.9185, 0.9219, 0.9523, 0.9598), "agave JPL060": (0.9835, 0.9820, 0.9804, 0.9783, 0.9787),
    "agave JPL062": (0.9772, 0.9763, 0.9714, 0.9735, 0.9720), "aloe JPL057": (0.9774, 0.9757, 0.9743, 0.9761, 0.9771),
    "beaucarnea JPL068": (0.9589, 0.9578, 0.9553, 0.9559, 0.9571), "cacalaco JPL067": (0.9764, 0.9700, 0.9693, 0.9731, 0.9708),
    "portulacaria JPL064": (0.9593, 0.9581, 0.9574, 0.9599, 0.9600), "sea water": (0.9829, 0.9838, 0.9847, 0.9901, 0.9904)}
POWDER = (0.8109, 0.7589, 0.7476, 0.6687, 0.8258)  # limestone ground fine: no band of it is near 1


def test_separation_of_measured_rocks_leaves_and_water() -> None:
    """Measured spectra sent through Planck's law over the whole of each band, at four temperatures: 16 surfaces are found again
    within the 1.5 K that Gillespie et al. state in nine of ten cases and within 2 K in all. A rock ground to powder, which no
    band sees near 1, breaks the law that the method rests on and is seen far too cold."""
    heat = np.array([270.0, 290.0, 310.0, 330.0])
    black = np.array([[planck(np.linspace(*limits, 201), t).mean() for t in heat] for limits in ASTER_LIMITS])
    kinds = np.array([*MEASURED.values(), POWDER])
    light = kinds.T[:, :, None] * black[:, None, :]
    names = [f"l{i}" for i in range(10, 15)]
    bench = Bench(*(scene(p[None], ["thermal1"], unit="W/m2/sr/um", scene_id=n) for n, p in zip(names, light, strict=True)))
    nodes = [n for name in names for n in taken(name, name, "thermal1")]
    o = bench.execute([*nodes, got("lst", "lst_separation", {n: n for n in names})])
    found = bench.layers.read_raster(o.result.layers[0]).data[0]
    wanted = np.array([[separated(light[:, k, i]) for i in range(len(heat))] for k in range(len(kinds))])
    assert found == pytest.approx(wanted, abs=1e-4)
    away = found[:-1] - heat
    assert np.abs(away).max() < 2 and (np.abs(away) <= 1.5).mean() > 0.9 and np.sqrt((away**2).mean()) < 1
    assert (found[-1] - heat < -6).all()


@pytest.mark.shared_data
def test_dryness_of_talca_by_a_regression_of_its_own(talca: Talca) -> None:
    """Sandholt et al. 2002: edges by least squares through the hottest and coldest pixel of each NDVI bin."""
    nodes, warm = talca.surface()
    ndvi, edges = talca.ndvi, np.linspace(0.2, 1.0, 81)
    at = np.digitize(ndvi, edges) - 1
    points = [(edges[k] + 0.005, warm[at == k].max(), warm[at == k].min()) for k in range(80) if (at == k).sum() >= 3]
    x, hot, cold = (np.array(p) for p in zip(*points, strict=True))
    design = np.stack([x, np.ones_like(x)], axis=1)
    dry, wet = (np.linalg.lstsq(design, y, rcond=None)[0] for y in (hot, cold))
    low, high = wet[0] * ndvi + wet[1], dry[0] * ndvi + dry[1]
    wanted, valid = np.clip((warm - low) / (high - low), 0, 1), (ndvi >= 0.2) & (high > low)
    graph = [*nodes, ("tvdi", "raster.product.tvdi", ["ndvi", "lst"], {})]
    found = agrees(talca.bench, graph, wanted, valid, unit="1")
    o = talca.bench.execute(graph)
    told = node_of(o, "tvdi")
    figures = [told[k] for k in ("dry_slope", "dry_intercept", "wet_slope", "wet_intercept")]
    assert figures == pytest.approx([*dry, *wet], rel=1e-9)
    assert told["n_bins"] == len(x) and dry[0] < 0  # the dry edge falls as plants cover the ground
    assert np.corrcoef(found[valid], warm[valid])[0, 1] > 0.5


@pytest.mark.shared_data
def test_evaporation_by_the_three_temperatures(talca: Talca) -> None:
    """Qiu et al. 1998: (Rn − G) − (Rnd − Gd) (Ts − Ta) / (Tsd − Ta). The hottest pixel stands for dry soil; the energies are
    chosen, none was measured there. All the energy is spent on water where the surface is as warm as the air."""
    nodes, warm = talca.surface()
    given = {"rn": 560.0, "g": 70.0, "rnd": 520.0, "gd": 110.0, "ta": 299.0, "tsd": float(warm.max())}
    wanted = (560 - 70) - (520 - 110) * (warm - 299) / (warm.max() - 299)
    found = agrees(talca.bench, [*nodes, got("spent", "evaporation_3t", {"ts": "lst"}, **given)], wanted, unit="W/m2")
    assert found.min() == pytest.approx(490 - 410) and found[np.abs(warm - 299) < 0.02] == pytest.approx(490, abs=1)


# --- Landsat 7 over Pennsylvania, 20 July and 25 November 2002 -------------------------------------------------------------
DAYS = {"july": "2002-07-20", "november": "2002-11-25"}
# gain and offset of band 6 in low and high gain, K1, K2: Chander et al. 2009, RSE 113, tables 4 and 7
LOW, HIGH, K = (0.067087, -0.07), (0.037205, 3.16), (666.09, 1282.71)
# gain and offset of July's bands 1, 3, 4, 5 and 7, sun elevation: documentation of the R package landsat (Goslee 2011);
# irradiance: Chander et al. 2009, table 4; distance 1 − 0.016729 cos(0.9856 (201 − 4)°)
SUN, FAR = 61.4, 1 - 0.016729 * np.cos(np.radians(0.9856 * (201 - 4)))
SOLAR = {"blue": (0.77569, -6.20, 1997.0), "red": (0.61922, -5.00, 1533.0), "nir": (0.63725, -5.10, 1039.0),
         "swir1": (0.12573, -1.00, 230.8), "swir2": (0.04373, -0.35, 84.90)}
ETM = {"blue": 1, "red": 3, "nir": 4, "swir1": 5, "swir2": 6, "thermal1": 7, "thermal2": 8}


@pytest.fixture(scope="module")
def pennsylvania(shared_data: Path) -> tuple[Bench, dict[str, dict[str, Array]]]:
    dn = {name: {r: read(shared_data / f"change/landsat7_p15r32_{day}.tif", b) for r, b in ETM.items()}
          for name, day in DAYS.items()}
    return Bench(*(scene(np.stack(list(p.values())), list(p), scene_id=name, date=DAYS[name], pixel=30.0, crs="EPSG:32618")
                   for name, p in dn.items())), dn


def warmed(dn: Array, gain: float, offset: float) -> Array:
    return np.asarray(K[1] / np.log(K[0] / (gain * dn + offset) + 1))


def warm_nodes(node: str, day: str, role: str, gain: float, offset: float) -> Nodes:
    return [*taken(f"{node}_dn", day, role), got(f"{node}_l", "radiance", {"dn": f"{node}_dn"}, gain=gain, offset=offset),
            got(node, "brightness_temperature", {"radiance": f"{node}_l"}, k1=K[0], k2=K[1])]


@pytest.mark.shared_data
@pytest.mark.parametrize("day", list(DAYS))
def test_both_gains_of_landsat_7_see_one_temperature(pennsylvania: Any, day: str) -> None:
    bench, dn = pennsylvania
    low = agrees(bench, warm_nodes("t", day, "thermal1", *LOW), warmed(dn[day]["thermal1"], *LOW))
    high = agrees(bench, warm_nodes("t", day, "thermal2", *HIGH), warmed(dn[day]["thermal2"], *HIGH))
    # a step of the low gain is about half a kelvin
    assert abs(float((low - high).mean())) < 0.3 and np.percentile(np.abs(low - high), 99) < 1


# MODIS Aqua, MYD11A2 (Wan et al. 2015), as the R package climatrends has it in temp_dat: surface temperatures by day and by
# night at ten places on 27 October 2013, in °C
AQUA = {"day": [33.1, 34.5, 31.6, 27.7, 33.0, 27.8, 33.0, 32.2, 32.8, 28.9],
        "night": [8.1, 9.3, 8.5, 1.5, 5.6, 5.9, 5.6, 4.5, 4.3, 2.7]}


def test_day_and_night_of_modis() -> None:
    bench, nodes, t = table({k: [x + 273.15 for x in v] for k, v in AQUA.items()}, "K")
    both = {"day": "day", "night": "night"}
    found = agrees(bench, [*nodes, got("x", "diurnal_range", both)], t["day"] - t["night"])
    assert found[0] == pytest.approx([25.0, 25.2, 23.1, 26.2, 27.4, 21.9, 27.4, 27.7, 28.5, 26.2], abs=1e-4)
    found = agrees(bench, [*nodes, got("x", "day_night_mean", both)], (t["day"] + t["night"]) / 2)
    assert found.mean() - 273.15 == pytest.approx((sum(AQUA["day"]) + sum(AQUA["night"])) / 20, abs=1e-4)


@pytest.mark.shared_data
def test_warm_and_cold_of_one_place(pennsylvania: Any) -> None:
    """No night of a scene with reflectances was to be had: a July day and a November day of one grid stand for the warm and the
    cold hour, so the figures prove the arithmetic over measured fields, not a daily course."""
    bench, dn = pennsylvania
    nodes = [*warm_nodes("day", "july", "thermal1", *LOW), *warm_nodes("night", "november", "thermal1", *LOW)]
    warm, cold = (warmed(dn[d]["thermal1"], *LOW) for d in DAYS)
    agrees(bench, [*nodes, got("x", "day_night_mean", {"day": "day", "night": "night"})], (warm + cold) / 2)
    found = agrees(bench, [*nodes, got("x", "diurnal_range", {"day": "day", "night": "night"})], warm - cold)
    assert 10 < found.mean() < 25
    # July's reflectance by radiance (Chander et al. 2009, equation 2), albedo (Liang 2001), thermal inertia (Price 1977)
    seen = {r: np.pi * (gain * dn["july"][r] + offset) * FAR**2 / (esun * np.cos(np.radians(90 - SUN)))
            for r, (gain, offset, esun) in SOLAR.items()}
    albedo = (0.356 * seen["blue"] + 0.130 * seen["red"] + 0.373 * seen["nir"] + 0.085 * seen["swir1"] + 0.072 * seen["swir2"]
              - 0.0018)
    for r, (gain, offset, esun) in SOLAR.items():
        nodes += [*taken(f"{r}_dn", "july", r), got(f"{r}_l", "radiance", {"dn": f"{r}_dn"}, gain=gain, offset=offset),
                  got(r, "toa_reflectance_radiance", {"radiance": f"{r}_l"}, esun=esun, sun_elevation=SUN, distance_au=FAR)]
    nodes.append(got("albedo", "albedo_landsat", {r: r for r in SOLAR}))
    agrees(bench, nodes, albedo, unit="1")
    with np.errstate(divide="ignore"):
        wanted = (1 - albedo) / (warm - cold)
    inertia = agrees(bench, [*nodes, got("x", "thermal_inertia", {"albedo": "albedo", "day": "day", "night": "night"})],
                     wanted, warm != cold, unit="1/K")
    assert 0.02 < np.nanmedian(inertia) < 0.08


# NOAA's SURFRAD station at Alamosa, Colorado, 1 January 2016, one-minute means in W/m², as pvlib keeps the day's file: heat
# radiated up and down in the cold of the morning and in the warmth of the day, sunlight down and up at 19:31 to 19:35 UTC
NIGHT = {"up": [226.3, 226.2, 226.4, 226.6, 226.6], "down": [164.9, 164.9, 164.9, 164.8, 164.8]}  # 13:12 to 13:16 UTC
DAY = {"up": [336.5, 336.3, 337.0, 338.0, 336.9], "down": [186.3, 186.5, 187.0, 187.6, 187.6]}  # 20:10 to 20:14 UTC
SUNLIGHT = {"down": [576.1, 576.1, 575.8, 575.4, 575.4], "up": [101.1, 101.1, 101.1, 101.3, 101.2]}


def test_thermal_inertia_of_a_day_and_night_that_were_measured() -> None:
    """One place, one day, from radiation to inertia in one graph: surface temperatures by Stefan and Boltzmann's law with an
    emissivity of 0.97, less what the ground throws back of the sky; albedo as light up over light down."""
    columns = {f"{part}_{way}": values for part, both in (("night", NIGHT), ("day", DAY), ("sun", SUNLIGHT))
               for way, values in both.items()}
    bench, nodes, seen = table(columns, "W/m2")
    for part in ("day", "night"):
        law = f"(({part}_up - 0.03 * {part}_down) / (0.97 * {constants.sigma:.12g})) ^ 0.25"
        nodes.append((part, "raster.product.math", [f"{part}_up", f"{part}_down"],
                      {"expression": law, "range": [150, 400], "unit": "K", "quantity": "lst"}))
    nodes.append(("albedo", "raster.product.math", ["sun_up", "sun_down"],
                  {"expression": "sun_up / sun_down", "range": [0, 1], "quantity": "albedo"}))
    warm, cold = (((seen[f"{p}_up"] - 0.03 * seen[f"{p}_down"]) / (0.97 * constants.sigma)) ** 0.25 for p in ("day", "night"))
    albedo = seen["sun_up"] / seen["sun_down"]
    assert 278 < warm.mean() < 279.5 and 251.5 < cold.mean() < 252.5 and 0.17 < albedo.mean() < 0.18
    agrees(bench, [*nodes, got("x", "diurnal_range", {"day": "day", "night": "night"})], warm - cold)
    inertia = agrees(bench, [*nodes, got("x", "thermal_inertia", {"albedo": "albedo", "day": "day", "night": "night"})],
                     (1 - albedo) / (warm - cold), unit="1/K")
    assert (np.abs(inertia - 0.031) < 0.001).all()


@pytest.mark.shared_data
def test_a_regression_on_three_thermal_bands(pennsylvania: Any) -> None:
    """The caller's own line: July's band 6 of low gain by the three others, coefficients by numpy's least squares."""
    bench, dn = pennsylvania
    planes = [warmed(dn["july"]["thermal2"], *HIGH), warmed(dn["november"]["thermal1"], *LOW),
              warmed(dn["november"]["thermal2"], *HIGH)]
    design = np.stack([np.ones(planes[0].size), *(p.ravel() for p in planes)], axis=1)
    a0, a1, a2, a3 = np.linalg.lstsq(design, warmed(dn["july"]["thermal1"], *LOW).ravel(), rcond=None)[0]
    nodes = [*warm_nodes("t1", "july", "thermal2", *HIGH), *warm_nodes("t2", "november", "thermal1", *LOW),
             *warm_nodes("t3", "november", "thermal2", *HIGH)]
    found = agrees(bench, [*nodes, got("lst", "lst_three_band", {n: n for n in ("t1", "t2", "t3")}, a0=a0, a1=a1, a2=a2, a3=a3)],
                   (design @ [a0, a1, a2, a3]).reshape(planes[0].shape))
    assert np.std(found - warmed(dn["july"]["thermal1"], *LOW)) < 0.3


# --- Sentinel-2 ------------------------------------------------------------------------------------------------------------
def sentinel(path: Path, roles: dict[str, int]) -> tuple[Held, dict[str, Array]]:
    planes = {r: read(path, b) for r, b in roles.items()}
    held = scene(np.stack(list(planes.values())), list(planes), unit="reflectance", scale=1e-4, nodata=0, scene_id="s2")
    return held, {r: np.where(p == 0, np.nan, p / 1e4) for r, p in planes.items()}


@pytest.mark.shared_data
@pytest.mark.parametrize("file", ["multispectral/s2_l1c_crop512_13band_32618.tif", "water_flood/Spain_7370579_S2Hand.tif"])
def test_water_vapour_by_the_ratio_of_two_bands(shared_data: Path, file: str) -> None:
    """Kaufman and Gao 1992, ((α − ln ratio) / β)², over bands 9 and 8A. Their α and β are of the wider bands of MODIS: over
    Sentinel-2's narrow band 9 the figure is not the vapour of the day, and a log line says so."""
    held, r = sentinel(shared_data / file, {"watervapour": 10, "nir08": 9})
    ratio = r["watervapour"] / r["nir08"]
    nodes = [("s", "asset.scene", (), {"scene": "s2"}), ("w", "raster.product.retrieval", ["s"], {
        "name": "water_vapour_ratio", "inputs": {"absorbing": "watervapour", "window": "nir08"}})]
    agrees(Bench(held), nodes, ((0.02 - np.log(ratio)) / 0.651) ** 2, np.isfinite(ratio), unit="g/cm2")


@pytest.mark.shared_data
def test_turbidity_of_the_flood_by_the_hand_label(shared_data: Path) -> None:
    """Dogliotti et al. 2015, A ρ / (1 − ρ / C) with A = 228.1, C = 0.1641 at 645 nm, where the hand label is water. The darkest
    water is taken as the air's own light; reflectance at or beyond C is masked, not made up."""
    held, r = sentinel(shared_data / "water_flood/Spain_7370579_S2Hand.tif", {"red": 4})
    label = read(shared_data / "water_flood/Spain_7370579_LabelHand.tif")
    mask = scene(label[None], ["class"], unit="1", nodata=-1, scene_id="label")
    water = label == 1
    dark = float(np.nanpercentile(r["red"][water], 0.1))
    rho = r["red"] - dark
    with np.errstate(all="ignore"):
        wanted = 228.1 * rho / (1 - rho / 0.1641)
    valid = water & np.isfinite(rho) & (rho < 0.1641)
    nodes = [*taken("r", "s2", "red"), *taken("l", "label", "class"), got("rho", "dark_object", {"reflectance": "r"}, dark=dark),
             got("t", "turbidity", {"red": "rho"}), ("m", "raster.product.class_values", ["l"], {"values": [1]}),
             ("w", "raster.product.apply_mask", ["t", "m"], {})]
    found = agrees(Bench(held, mask), nodes, wanted, valid, unit="FNU")
    # a river in flood carries mud, and no more of it than the formula was made for
    assert valid.sum() > 60_000 and 5 < np.median(found[valid]) < 100
    clear, muddy = (r["red"][valid] < np.median(r["red"][valid])), (r["red"][valid] > np.median(r["red"][valid]))
    assert found[valid][clear].max() <= found[valid][muddy].min()


# GISTAQ, Universidad Tecnológica Nacional, Resistencia (vhgauto/gistaq_parana, MIT): water sampled at eight points each where the
# Paraná and the Paraguay meet, turbidity in the laboratory, beside Sentinel-2's red reflectance of the same day and points,
# corrected by ACOLITE
SAMPLED: dict[str, tuple[list[float], list[float]]] = {
    "2023-05-11": ([0.128799, 0.123898, 0.104498, 0.078357, 0.056602, 0.031564, 0.028727, 0.025837],
                   [185.5, 127, 67.5, 35.5, 15, 4, 4.5, 6]),
    "2024-05-20": ([0.123875, 0.125759, 0.122905, 0.115548, 0.109895, 0.099589, 0.095937, 0.086913],
                   [168, 161, 130, 94, 63, 53, 34, 27]),
    "2024-05-30": ([0.122111, 0.124243, 0.116056, 0.106108, 0.100478, 0.092517, 0.087037, 0.082784],
                   [135, 137, 88, 54, 41, 29, 23, 21])}
# The same on a day of haze or glint: at 1.6 µm, where water is black, seven of the points are seen at 0.05 to 0.08
HAZY: tuple[list[float], list[float]] = ([0.133137, 0.127540, 0.118764, 0.137781, 0.147886, 0.149636, 0.149930],
                                         [39.5, 39, 29.5, 20, 19, 17.5, 17])


def test_turbidity_beside_the_samples_of_two_rivers() -> None:
    """The formula as published, equal, and near what the laboratory found: a correlation of 0.97, half of the 24 within 26 %.
    On a day whose haze was left in the reflectance it tells three to twenty times too much: it is for corrected water alone."""
    rho, measured = (np.concatenate(c) for c in zip(*SAMPLED.values(), strict=True))

    def told(values: Array) -> Array:
        bench, nodes, seen = table({"rho": list(values)}, "reflectance", band="red")
        wanted = 228.1 * seen["rho"] / (1 - seen["rho"] / 0.1641)
        return np.asarray(agrees(bench, [*nodes, got("t", "turbidity", {"red": "rho"})], wanted, unit="FNU")[0])

    found = told(rho)
    assert np.corrcoef(found, measured)[0, 1] > 0.96 and np.corrcoef(np.log(found), np.log(measured))[0, 1] > 0.97
    assert np.median(np.abs(found / measured - 1)) < 0.26 and 1 < np.median(found / measured) < 1.2
    assert np.sqrt(np.mean((found - measured) ** 2)) < 22 and abs(np.mean(found - measured)) < 4
    for values, samples in SAMPLED.values():
        assert np.corrcoef(told(np.array(values)), samples)[0, 1] > 0.97
    hazy, few = (np.array(c) for c in HAZY)
    assert (told(hazy) > 3 * few).all() and (told(hazy)[4:] > 15 * few[4:]).all()


# --- fires -----------------------------------------------------------------------------------------------------------------
# NASA FIRMS, MODIS Terra and Aqua, collection 6 near real time, 23 to 25 May 2018, south-east Asia (free of any restriction):
# brightness of band 21/22 in K, of band 31 in K, pixel along scan and track in km, fire radiative power in MW
FIRES = [(390.4, 305.9, 1.1, 1.0, 216.7), (365.3, 296.6, 1.1, 1.0, 103.7), (361.9, 292.3, 1.1, 1.1, 107.2),
         (355.0, 295.9, 1.0, 1.0, 67.1), (353.7, 295.9, 1.0, 1.0, 65.9), (352.9, 304.2, 1.1, 1.0, 67.7),
         (349.8, 305.1, 1.0, 1.0, 48.2), (349.1, 296.6, 1.0, 1.0, 55.3), (346.5, 300.8, 1.0, 1.0, 47.7),
         (344.4, 304.2, 1.0, 1.0, 39.6), (342.6, 297.3, 1.0, 1.0, 41.9), (341.9, 301.7, 1.0, 1.0, 36.5)]


def test_fire_power_of_real_fires_is_near_nasas() -> None:
    """Kaufman et al. 1998, 4.34e-19 (T⁸ − Tb⁸), and Wooster et al. 2003, σ / a (L − Lb) with a = 3.0e-9 W m⁻⁴ sr⁻¹ µm⁻¹ K⁻⁴,
    over measured fires. NASA's collection 6 goes by the second: Kaufman's law is equal at 390 K and 40 % more at 342 K."""
    t4, around, scan, track, power = (np.array([c]) for c in zip(*FIRES, strict=True))
    nasa = power / (scan * track)
    bench, nodes, _ = table({"t4": t4[0].tolist(), "around": around[0].tolist()}, "K")
    wooster = constants.sigma / 3.0e-9 * (planck(3.96, t4) - planck(3.96, around))
    found = agrees(bench, [*nodes, got("f", "fire_radiative_power_radiance", {"t4": "t4", "background": "around"})], wooster,
                   unit="MW/km2")
    # band 31 stands for the background of band 21, and the pixels' sides are told to 0.1 km
    assert found == pytest.approx(nasa, rel=0.2) and np.median(np.abs(found / nasa - 1)) < 0.08
    for one, cold, there in zip(t4[0], around[0], nasa[0], strict=True):
        bench, nodes, _ = table({"t4": [one]}, "K")
        kaufman = agrees(bench, [*nodes, got("f", "fire_radiative_power", {"t4": "t4"}, background=cold)],
                         np.array([[4.34e-19 * (one**8 - cold**8)]]), unit="MW/km2")[0, 0]
        assert 0.97 < kaufman / there < (1.05 if one > 380 else 1.2 if one > 360 else 1.45), one


# --- passive microwaves ----------------------------------------------------------------------------------------------------
# NSIDC-0630 version 1.3 (Brodzik et al. 2018; "no constraints on data access or use"): brightness temperatures in K of SSMIS on
# DMSP F17, morning of 1 January 2010, ten places of the northern plains of America on EASE-Grid 2.0 (x from −1,397 km in steps of
# 250 km, y 2,159, 2,116 and 2,072 km); 19 GHz and 37 GHz, horizontal
SSMIS = {"t18h": [232.58, 230.85, 228.64, 228.50, 222.83, 226.20, 226.74, 225.65, 220.65, 225.93],
         "t37h": [207.69, 210.17, 197.12, 195.26, 185.44, 230.37, 188.93, 176.54, 189.09, 232.93]}
# NoSREx III at Sodankylä (Lemmetyinen et al. 2016, Geosci. Instrum. Method. Data Syst. 5, 403), as the data of Sandells et al.
# 2022 hold it: radiometer on a tower at 50°, in K, at 06 UTC on 20 December 2011, 10 and 20 January, 1 February, 10 and 20 March
# 2012; depth of the snow by an acoustic sensor, cm
TOWER = {"h10": [245.77, 248.20, 252.05, 248.05, 252.92, 251.36], "h18": [234.64, 233.11, 246.24, 248.54, 250.82, 239.03],
         "v18": [262.83, 254.75, 263.47, 261.58, 263.35, 262.16], "h37": [210.78, 212.99, 227.12, 222.81, 215.79, 211.20],
         "v37": [242.93, 235.01, 246.58, 236.95, 232.10, 228.60]}
DEPTH = np.array([35.03, 45.87, 56.06, 54.23, 76.72, 72.35])


def test_snow_depth_of_satellite_and_of_the_tower_beside_the_stick() -> None:
    """Chang et al. 1987: 1.59 cm/K (T18H − T37H). On the tower, beside the depth that was measured: the law is rough, and least
    so for shallow snow."""
    bench, nodes, seen = table(SSMIS, "K")
    found = agrees(bench, [*nodes, got("d", "snow_depth_chang", {"t18h": "t18h", "t37h": "t37h"})],
                   np.maximum(0, 1.59 * (seen["t18h"] - seen["t37h"])), unit="cm")[0]
    assert found[[5, 9]].tolist() == [0, 0] and (np.delete(found, [5, 9]) > 25).all()
    bench, nodes, seen = table(TOWER, "K")
    found = agrees(bench, [*nodes, got("d", "snow_depth_chang", {"t18h": "h18", "t37h": "h37"})],
                   1.59 * (seen["h18"] - seen["h37"]), unit="cm")[0]
    assert found[0] == pytest.approx(DEPTH[0], abs=3) and np.sqrt(np.mean((found - DEPTH) ** 2)) < 25
    assert np.corrcoef(found, DEPTH)[0, 1] > 0.5


def test_differences_and_ratios_of_polarizations_and_frequencies() -> None:
    bench, nodes, t = table(TOWER, "K")
    v, h, high = t["v18"], t["h18"], t["v37"]
    found = agrees(bench, [*nodes, got("x", "polarization_difference", {"tv": "v18", "th": "h18"})], v - h)
    assert (found > 10).all() and (found < 35).all()  # snow at 50°: vertical is the warmer
    ratio = agrees(bench, [*nodes, got("x", "polarization_ratio", {"tv": "v18", "th": "h18"})], (v - h) / (v + h), unit="1")
    assert ratio == pytest.approx(found / (v + h), rel=1e-6)
    agrees(bench, [*nodes, got("x", "frequency_difference", {"low": "v18", "high": "v37"})], v - high)
    gradient = agrees(bench, [*nodes, got("x", "frequency_ratio", {"low": "v18", "high": "v37"})], (high - v) / (high + v),
                      unit="1")
    assert (gradient < 0).all()  # dry snow scatters 37 GHz more
    weights = {"w1": 0.5, "w2": 0.3, "w3": 0.2}
    agrees(bench, [*nodes, got("x", "multi_frequency_temperature", {"t1": "h10", "t2": "h18", "t3": "h37"}, **weights)],
           np.average(np.stack([t["h10"], t["h18"], t["h37"]]), axis=0, weights=list(weights.values())))


# Mean temperatures (18 V, 18 H, 37 V) that AMSR-E saw over open water, first-year and multi-year ice of the northern hemisphere
# in ESA's round robin of sea-ice algorithms (Ivanova et al. 2015, The Cryosphere 9, 1797), where the ice is known: none or all
WATER, FIRST, OLD = (np.array(t) for t in ((183.72, 108.46, 209.81), (251.56, 237.16, 246.29), (219.66, 201.66, 187.18)))
SEA = [WATER, FIRST, OLD, *(WATER + s * (ice - WATER) for ice in (FIRST, OLD) for s in (0.25, 0.5, 0.75)), (FIRST + OLD) / 2]
SHARES = np.array([0, 1, 1, 0.25, 0.5, 0.75, 0.25, 0.5, 0.75, 1])
# Of these ten, in %, before they are cut to 100: NSIDC's own programme (pm_icecon, calc_nasateam_conc), with its tie points of F8
# and with those it fitted to AMSR2 (19 V, 19 H, 37 V of open water, first-year, multi-year)
NSIDC_F8 = [0.0, 100.3713, 105.8476, 18.2429, 45.1295, 72.5012, 18.8436, 46.8165, 75.7993, 103.0612]
NSIDC_AMSR = [0.0, 102.4544, 114.4652, 23.7541, 50.4079, 76.6380, 25.8916, 55.2658, 84.7899, 108.3330]
AMSR = {"ow": (190.55, 109.60, 211.20), "fy": (253.07, 234.73, 244.16), "my": (225.80, 196.75, 193.78)}


@pytest.mark.parametrize(("points", "theirs"), [({}, NSIDC_F8), (AMSR, NSIDC_AMSR)])
def test_sea_ice_of_known_ice_and_water_as_nsidc_has_it(points: dict[str, tuple[float, ...]], theirs: list[float]) -> None:
    channels = dict(zip(("t19v", "t19h", "t37v"), np.stack(SEA, axis=1).tolist(), strict=True))
    bench, nodes, _ = table(channels, "K")
    given = {f"{kind}_{c}": t for kind, three in points.items() for c, t in zip(("19v", "19h", "37v"), three, strict=True)}
    o = bench.execute([*nodes, got("c", "sea_ice_nasa_team", {n: n for n in channels}, **given)])
    found = bench.layers.read_raster(o.result.layers[0]).data[0][0]
    assert found == pytest.approx(np.clip(np.array(theirs) / 100, 0, 1), abs=2e-6)
    assert np.abs(found - SHARES).max() < 0.11


# --- whose coefficients they are -------------------------------------------------------------------------------------------
@pytest.mark.shared_data
def test_coefficients_of_another_sensor_are_told(shared_data: Path, talca: Talca) -> None:
    (info, planes), _ = sentinel(shared_data / "water_flood/Spain_7370579_S2Hand.tif", {"watervapour": 10, "nir08": 9})
    params = {"name": "water_vapour_ratio", "inputs": {"absorbing": "watervapour", "window": "nir08"}}
    nodes = [("s", "asset.scene", (), {"scene": "s2"}), ("w", "raster.product.retrieval", ["s"], params)]

    def said(sensor: str, **more: Any) -> list[tuple[str, str]]:
        bench = Bench((info.model_copy(update={"sensor": sensor}), planes))
        o = bench.execute([nodes[0], (*nodes[1][:3], {**params, **more})])
        return [(line.level, line.message) for line in o.status.log if "MODIS bands 19" in line.message]

    common = "Column water vapour by band ratio: alpha, beta stand at their defaults, which are of MODIS bands 19 and 2; "
    assert said("Sentinel-2 MSI") == [("warning", f"{common}s2.tif is of Sentinel-2 MSI.")]
    assert said("") == [("info", f"{common}of which sensor s2.tif is, is not known.")]
    assert said("MODIS") == [] and said("Sentinel-2 MSI", coefficients={"alpha": 0.1, "beta": 0.9}) == []
    nodes, _ = talca.surface()
    for sensor, level in (("Landsat 8/9 OLI-TIRS", None), ("Landsat 7 ETM+", "warning")):
        bench = Bench(*((i.model_copy(update={"sensor": sensor}), p) for i, p in talca.scenes))
        told = [line.level for line in bench.execute(nodes).status.log if "formula is of Landsat 8 band 10" in line.message]
        assert told == ([level] if level else [])


def test_light_of_the_air_is_told() -> None:
    """The hazy day's trap: turbidity and albedo are of reflectance at the surface. Of a level 1 product, or of reflectance that
    the graph itself made above the air, a warning says so; of a level 2 product, or less the darkest object, nothing does."""
    info, stored = scene(np.full((6, 2, 2), 0.05), ["red", "blue", "nir", "swir1", "swir2", "dn"], unit="reflectance")

    def said(name: str, nodes: Nodes) -> list[tuple[str, str]]:
        log = Bench((info.model_copy(update={"name": name}), stored)).execute(nodes).status.log
        return [(line.level, line.message) for line in log if "at the surface" in line.message]

    red = taken("r", "s", "red")
    mud = [*red, got("t", "turbidity", {"red": "r"})]
    kept = [*red, got("dark", "dark_object", {"reflectance": "r"}, dark=0.01), got("t", "turbidity", {"red": "dark"})]
    light = [("s", "asset.scene", (), {"scene": "s"}), ("a", "raster.product.retrieval", ["s"], {"name": "albedo_landsat"})]
    one, two = "S2A_MSIL1C_20230511T135711_N0509_R067_T21JUJ.tif", "S2A_MSIL2A_20230511T135711_N0509_R067_T21JUJ.tif"
    ((level, words),) = said(one, mud)
    assert level == "warning" and one in words and "many times too high" in words and "dark_object" in words
    assert said(two, mud) == [] and said(one, kept) == [] and said(two, light) == []
    assert [line[0] for line in said("crop.tif", mud)] == ["info"]
    assert [line[0] for line in said("LC08_L1TP_232083_20160209_02_T1.tif", light)] == ["warning"]
    made = [*red, ("d", "raster.product.math", ["r"], {"expression": "r * 1", "range": [0, 70000], "unit": "DN"}),
            got("up", "toa_reflectance", {"dn": "d"}, gain=1.0, offset=0.0, sun_elevation=90.0),
            got("t", "turbidity", {"red": "up"})]
    assert [line[0] for line in said(two, made)] == ["warning"]
