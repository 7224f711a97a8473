"""Plans of physical quantities: temperatures, emissivity, dryness, thermal inertia, water and air, fires, snow and sea ice.

Which graph gives a quantity follows from what the bands are: a product of surface temperature is taken as it is, radiances and
stored numbers go through the published steps. What an image does not hold (the air's water vapour, gains of a sensor) is never
taken without a word: it stands in the answer's warnings, or is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from apps.agent.planner.analyses import quantity_said
from apps.agent.planner.analysis_heat import HeatAnalyses
from apps.agent.planner.analysis_pieces import Nodes
from apps.agent.planner.fields import RefusalError
from apps.agent.planner.lexicon import missing_roles
from apps.agent.planner.physical_pieces import Product
from apps.agent.planner.physical_words import PRODUCTS
from apps.agent.units import unit_sign
from apps.core.evidence.plan import AnswerRecipe
from apps.core.geo.scene import SceneInfo

_SIGNS = {"above": ">", "over": ">", "greater than": ">", "more than": ">", "at least": ">=", "below": "<", "under": "<",
          "less than": "<", "at most": "<=", "warmer": ">", "hotter": ">", "colder": "<", "cooler": "<"}  # fmt: skip


class PhysicsAnalyses(HeatAnalyses):
    """Plans of physical quantities by published formulas."""

    def _plan_physical(self) -> AnswerRecipe:
        made = self._product()
        self._limit_to(made)
        made.nodes.append(self._statistic_of(made.last))
        phrase = self._title_of(made.title)
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", *made.scenes)
        return self._value(self._execute(made.nodes, f"{phrase}."), phrase)

    def _plan_physical_map(self) -> AnswerRecipe:
        made = self._product()
        title = f"{made.title[0].upper()}{made.title[1:]}"
        self._say(f"a map of the {made.title}", *made.scenes)
        return self._layers((self._execute(made.nodes, f"{title}."),), title)

    def _plan_physical_part(self) -> AnswerRecipe:
        is_warmth = self._product_name() in ("surface", "brightness", "diurnal", "day_night")
        if is_warmth and not self.asked.get("limunit"):
            raise RefusalError("A limit of temperature in kelvins or in °C? Write “above 300 K” or “above 27 °C”.",
                               "BAD_ARGUMENT", {"form": ["threshold"]})  # fmt: skip
        made = self._product()
        out, unit, word = self._part("mask")
        if word == "Area":
            self._needs_ground(made.scenes[0])
        sign = self._sign("limop", "rel")
        limit = float(self.asked.get("limit"))
        made.nodes += [self._node("raster.product.threshold", [made.last], "mask", op=sign, value=limit, unit=made.unit), out]
        phrase = f"{word} where the {made.title} is {sign} {limit:g} {unit_sign(made.unit)}".rstrip()
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", *made.scenes)
        return self._value(self._execute(made.nodes, f"{phrase}."), phrase, unit)

    def _product_name(self) -> str:
        said = self.asked.get("phys")
        return next((n for words, n in PRODUCTS.items() if re.fullmatch(words, said)), "surface")

    def _product(self) -> Product:
        name = self._product_name()
        if self.asked.get("chan") and name != "brightness":
            raise RefusalError("One thermal band has a brightness temperature; other temperatures are made of the bands "
                               "that they need.",
                               "BAD_ARGUMENT", {"form": ["band"]})  # fmt: skip
        build: Callable[[], Product] = getattr(self, f"_make_{name}")
        made = build()
        self._check_region(*made.scenes)
        unknown = sorted(set(self._given()) - self._used)
        if unknown:
            raise RefusalError(f"The {made.title} is made without {' and '.join(unknown).replace('_', ' ')} here: leave it out.",
                               "BAD_ARGUMENT", {"form": unknown})  # fmt: skip
        self._in_celsius(made)
        self.warnings += made.notes
        return made

    def _day_and_night(self) -> tuple[Nodes, SceneInfo, SceneInfo]:
        """Nodes ``day`` and ``night``: surface temperatures of two images whose names say which is which."""
        held = [s for s in self._in_dates(self._capable()) if len(s.bands_with_role("lst")) == 1]
        by = {
            w: [s for s in held if re.search(w, f"{s.name} {s.bands_with_role('lst')[0].description}", re.I)]
            for w in ("day", "night")
        }
        if len(by["day"]) != 1 or len(by["night"]) != 1 or by["day"] == by["night"]:
            raise RefusalError(
                "Two images of the surface temperature are needed, and which is of the day and which of the night: give "
                "files whose "
                f"names say day and night. {len(held)} image{'s' * (len(held) != 1)} with a surface temperature "
                f"{'are' if len(held) != 1 else 'is'} here.",
                "NEEDS_BANDS",
                {"roles": ["lst"]},
            )
        day, night = by["day"][0], by["night"][0]
        if day.grid != night.grid:
            raise RefusalError("The images of day and night lie on different grids.", "NO_ANSWER", {"scenes": True})
        units = {self._band(s, "lst").unit for s in (day, night)}
        if units != {"K"}:
            raise RefusalError(f"Temperatures of day and night are needed in K; they are in {' and '.join(sorted(units))}.",
                               "NEEDS_BANDS", {"unit": "K"})  # fmt: skip
        nodes: Nodes = []
        self._take(nodes, day, "lst", "day")
        self._take(nodes, night, "lst", "night")
        return nodes, day, night

    def _make_diurnal(self) -> Product:
        nodes, day, night = self._day_and_night()
        last = self._retrieval(nodes, "range", "diurnal_range", {"day": "day", "night": "night"})
        return Product(nodes, last, "day less night temperature", (day, night), "K")

    def _make_day_night(self) -> Product:
        nodes, day, night = self._day_and_night()
        last = self._retrieval(nodes, "both", "day_night_mean", {"day": "day", "night": "night"})
        return Product(nodes, last, "temperature in the middle of day and night", (day, night), "K")

    def _make_albedo(self) -> Product:
        bands = ("blue", "red", "nir", "swir1", "swir2")
        scene = self._with(*bands, why="Albedo")
        self._reflects(scene, "Albedo", bands)
        nodes: Nodes = []
        for role in bands:
            self._take(nodes, scene, role, role)
        last = self._retrieval(nodes, "albedo", "albedo_landsat", {r: r for r in bands})
        return Product(nodes, last, "broadband albedo by Landsat's bands (Liang 2001)", (scene,))

    def _make_inertia(self) -> Product:
        nodes, day, night = self._day_and_night()
        bands = ("blue", "red", "nir", "swir1", "swir2")
        scene = self._with(*bands, why="Thermal inertia takes the albedo, which")
        self._reflects(scene, "Albedo", bands)
        if scene.grid != day.grid:
            raise RefusalError("Reflectances and temperatures lie on different grids.", "NO_ANSWER", {"scenes": True})
        for role in bands:
            self._take(nodes, scene, role, role)
        self._retrieval(nodes, "albedo", "albedo_landsat", {r: r for r in bands})
        last = self._retrieval(nodes, "inertia", "thermal_inertia", {"albedo": "albedo", "day": "day", "night": "night"})
        return Product(nodes, last, "apparent thermal inertia", (day, night, scene), "1/K")

    def _make_turbidity(self) -> Product:
        scene = self._with("red", "ndwi", why="Turbidity, of water found by NDWI,")
        self._reflects(scene, "Turbidity", ("red",))
        nodes: Nodes = []
        self._take(nodes, scene, "red", "red")
        self._take(nodes, scene, "ndwi", "ndwi")
        nodes += [
            self._node("raster.product.threshold", ["ndwi"], "water", op=">", value=0.0),
            self._node("raster.product.apply_mask", ["red", "water"], "red_of_water"),
        ]
        self._retrieval(nodes, "turbidity", "turbidity", {"red": "red_of_water"})
        notes = [("Turbidity is that of the pixels with NDWI > 0, by a law of the red band with coefficients at 645 nm "
                  "(Dogliotti 2015); where "
                  "red reflectance is 0.164 or more it tells nothing.")]  # fmt: skip
        return Product(nodes, "turbidity", "turbidity of the water", (scene,), "FNU", notes)

    def _make_vapour(self) -> Product:
        window = "nir08" if any("nir08" in s.roles for s in self._capable()) else "nir"
        scene = self._with("watervapour", window, why="Water vapour by the ratio of two bands")
        self._reflects(scene, "Water vapour", ("watervapour", window))
        nodes: Nodes = []
        self._take(nodes, scene, "watervapour", "absorbing")
        self._take(nodes, scene, window, "window")
        last = self._retrieval(nodes, "vapour", "water_vapour_ratio", {"absorbing": "absorbing", "window": "window"})
        notes = [("The two coefficients of the ratio are of MODIS bands 19 and 2 (Kaufman and Gao 1992): of another sensor "
                  "the figure shows "
                  "where there is more water vapour, not how much.")]  # fmt: skip
        return Product(nodes, last, "column water vapour by the ratio of two bands", (scene,), "g/cm2", notes)

    def _make_fire(self) -> Product:
        scene = self._with("mir", why="Fire radiative power")
        if self._band(scene, "mir").unit != "K":
            raise RefusalError(f"Fire radiative power is made of the temperature at 4 µm in K; the band of {scene.name} is in "
                               f"{self._band(scene, 'mir').unit}.", "NEEDS_BANDS", {"unit": "K"})  # fmt: skip
        background = self._coefficient("background")
        if background is None:
            raise RefusalError("Fire radiative power is that above the ground around the fire: how warm is it at 4 µm? "
                               "Write “with "
                               "background temperature 300 K”.", "NO_ANSWER", {"coefficients": ["background"]})  # fmt: skip
        nodes: Nodes = []
        self._take(nodes, scene, "mir", "t4")
        nodes.append(self._node("raster.product.math", ["t4"], "ground", expression=f"where(t4 > 0, {background!r}, "
                                                                                    f"{background!r})",
                                range=[150, 400], unit="K", quantity="temperature"))  # fmt: skip
        last = self._retrieval(nodes, "power", "fire_radiative_power_radiance", {"t4": "t4", "background": "ground"})
        return Product(nodes, last, f"fire radiative power above {background:g} K", (scene,), "MW/km2")

    def _channel(self, nodes: Nodes, name: str, ghz: str, polarization: str) -> SceneInfo:
        """A channel of a radiometer as node ``name``: the one image whose name tells frequency and polarization."""
        found = [
            s
            for s in self._in_dates(self._capable())
            if len(s.bands) == 1
            and re.search(
                rf"(?<![\d.])(?:{ghz})(?:\.\d+)?(?: ?ghz)?[ _-]?{polarization}(?![a-z])",
                f"{s.name} {s.bands[0].description}",
                re.I,
            )
        ]
        first = ghz.partition("|")[0]
        if len(found) != 1 or found[0].bands[0].unit != "K":
            why = (
                f"{len(found)} images are"
                if len(found) != 1
                else f"its unit is {found[0].bands[0].unit}, and it must be K: it is"
            )
            raise RefusalError(
                "Brightness temperatures in K of the channels are needed, each in a file of one band whose name tells "
                "frequency and "
                f"polarization (like …{first}{polarization}.tif); {why} of {first} GHz {polarization.upper()}.",
                "NEEDS_BANDS",
                {"unit": "K"},
            )
        scene = found[0]
        nodes.append(self._node("raster.product.band", [self._scene_node(nodes, scene)], name, role=scene.bands[0].role))
        return scene

    def _channels(self, wanted: Mapping[str, tuple[str, str]]) -> tuple[Nodes, tuple[SceneInfo, ...]]:
        nodes: Nodes = []
        scenes = tuple(self._channel(nodes, n, *c) for n, c in wanted.items())
        if len({s.grid for s in scenes}) > 1:
            raise RefusalError("The channels lie on different grids.", "NO_ANSWER", {"scenes": True})
        return nodes, scenes

    def _make_snow(self) -> Product:
        nodes, scenes = self._channels({"t18h": ("18|19", "h"), "t37h": ("37|36", "h")})
        last = self._retrieval(nodes, "snow", "snow_depth_chang", {"t18h": "t18h", "t37h": "t37h"})
        notes = ["Chang's law of snow depth is rough: beside six measured mornings it was 19 cm off in the root mean square."]
        return Product(nodes, last, "snow depth by Chang's law", scenes, "cm", notes)

    def _make_ice(self) -> Product:
        nodes, scenes = self._channels({"t19v": ("19|18", "v"), "t19h": ("19|18", "h"), "t37v": ("37|36", "v")})
        last = self._retrieval(nodes, "ice", "sea_ice_nasa_team", {n: n for n in ("t19v", "t19h", "t37v")})
        notes = ["The tie points of ice and water are SSM/I F8's of the north: those of other sensors and of the south differ."]
        return Product(nodes, last, "sea-ice concentration (NASA Team)", scenes, "1", notes)

    def _limit_to(self, made: Product) -> None:
        """Only the pixels where another index or band is beyond a number: 'where NDVI > 0.6'."""
        said = self.asked.get("cond")
        if not said:
            return
        name = quantity_said(said)
        scene = next((s for s in made.scenes if not missing_roles(s, name)), None) or self._with(name, why=self.words.title(name))
        if scene.grid != made.scenes[0].grid:
            raise RefusalError(f"{scene.name} and {made.scenes[0].name} lie on different grids.", "NO_ANSWER", {"scenes": True})
        at = name if any(n["id"] == name for n in made.nodes) else self._take(made.nodes, scene, name, "condition")
        if self.asked.get("condlow"):
            low, high = float(self.asked.get("condlow")), float(self.asked.get("condhigh"))
            limits, told = [(">=", low), ("<=", high)], f"{low:g} ≤ {self.words.title(name)} ≤ {high:g}"
        else:
            sign, limit = self._sign("condop"), float(self.asked.get("condval"))
            limits, told = [(sign, limit)], f"{self.words.title(name)} {sign} {limit:g}"
        masks = [
            self._node("raster.product.threshold", [at], f"where{i}", op=op, value=value)
            for i, (op, value) in enumerate(limits, start=1)
        ]
        made.nodes += masks
        where = "where1"
        if len(masks) > 1:
            where = "where"
            made.nodes.append(self._node("raster.product.logic", [m["id"] for m in masks], where, op="and"))
        made.nodes.append(self._node("raster.product.apply_mask", [made.last, where], "kept"))
        made.last = "kept"
        made.title += f" where {told}"

    def _sign(self, *groups: str) -> str:
        """The sign of a comparison that the words of the first group that is said stand for."""
        said = next((w for w in map(self.asked.get, groups) if w), "")
        return _SIGNS.get(said, said)
