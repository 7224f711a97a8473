"""Plans of physical quantities: temperatures, emissivity, dryness, thermal inertia, water and air, fires, snow and sea ice.

Which graph gives a quantity follows from what the bands are: a product of surface temperature is taken as it is, radiances and
stored numbers go through the published steps. What an image does not hold (the air's water vapour, gains of a sensor) is never
taken without a word: it stands in the answer's warnings, or is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from apps.agent.planner.analyses import Asked, quantity_said
from apps.agent.planner.analysis_pieces import AnalysisPieces, Nodes
from apps.agent.planner.fields import RefusalError
from apps.agent.planner.lexicon import missing_roles, role_list
from apps.agent.planner.physical_words import COEFFICIENTS, PRODUCTS
from apps.agent.units import unit_sign
from apps.core.evidence.plan import AnswerRecipe, Question
from apps.core.geo.bands import Band
from apps.core.geo.scene import SceneInfo

_RADIANCE = "W/m2/sr/um"
# USGS, Landsat 8 level 1 metadata (MTL): the same in each scene of this satellite. (gain, offset, K1, K2)
_LANDSAT8 = {"thermal1": (3.342e-4, 0.1, 774.8853, 1321.0789), "thermal2": (3.342e-4, 0.1, 480.8883, 1201.1442)}
_IS_LANDSAT8 = re.compile(r"(?:^|[^a-z0-9])(?:l[co]?0?8(?=[^0-9]|\d{6})|landsat.?8(?!/9))", re.IGNORECASE)
# Names of products whose thermal numbers are temperatures already.
_LEVEL2 = re.compile(r"(?:^|[^a-z0-9])(?:bt|st|lst|l2sp|l2sr|l2a)(?![a-z])", re.IGNORECASE)
_SURFACE = re.compile(r"(?:^|[^a-z])(?:st_b(?:6|06|10)|lst|land.surface.temperature|surface.temperature)(?![a-z])", re.IGNORECASE)
_SIGNS = {"above": ">", "over": ">", "greater than": ">", "more than": ">", "at least": ">=", "below": "<", "under": "<",
          "less than": "<", "at most": "<=", "warmer": ">", "hotter": ">", "colder": "<", "cooler": "<"}  # fmt: skip
_WATER_VAPOUR = 2.0


@dataclass(slots=True)
class Product:
    """A quantity on its way: the nodes, the last one's name, what it is called, and the scenes that it is made of."""

    nodes: Nodes
    last: str
    title: str
    scenes: tuple[SceneInfo, ...]
    unit: str = "1"
    notes: list[str] = field(default_factory=list)


class PhysicsAnalyses(AnalysisPieces):
    """Plans of physical quantities by published formulas."""

    def __init__(self, question: Question, asked: Asked) -> None:
        super().__init__(question, asked)
        self._used: set[str] = set()

    # --- which plan ----------------------------------------------------------------------------------------------------------
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

    # --- what the words give -------------------------------------------------------------------------------------------------
    def _given(self) -> dict[str, float]:
        names = "|".join(f"(?P<n{i}>{words})" for i, words in enumerate(COEFFICIENTS))
        keys = list(COEFFICIENTS.values())
        out = {}
        for m in re.finditer(rf"\b(?:{names})(?: of| =| is|:)? ?(?P<v>-?\d+(?:\.\d+)?(?:e-?\d+)?)", self.asked.get("given")):
            name = next(keys[int(k[1:])] for k, v in m.groupdict().items() if k != "v" and v)
            out[name] = float(m["v"])
        return out

    def _coefficient(self, name: str) -> float | None:
        """The number that the words give, or None."""
        value = self._given().get(name)
        if value is not None:
            self._used.add(name)
        return value

    def _vapour(self, notes: list[str]) -> float:
        value = self._coefficient("water_vapour")
        if value is None:
            notes.append(
                f"The image does not tell the water vapour of the air: {_WATER_VAPOUR:g} g/cm² is assumed. Write “with water "
                "vapour 1.2” to take another figure: over a summer's fields 0.8 g/cm² more made the ground 0.9 K warmer."
            )
        elif not 0 <= value <= 8:
            raise RefusalError("A column of water vapour lies between 0 and 8 g/cm².", "BAD_ARGUMENT", {"form": ["water_vapour"]})
        return _WATER_VAPOUR if value is None else value

    # --- scenes and bands ----------------------------------------------------------------------------------------------------
    def _with(self, *names: str, why: str) -> SceneInfo:
        """The one scene that has what all these bands and indices need."""
        held = [s for s in self._capable() if not any(missing_roles(s, n) for n in names)]
        if not held:
            best = min(self._capable(), key=lambda s: sum(len(missing_roles(s, n)) for n in names))
            lacking = list(dict.fromkeys(r for n in names for r in missing_roles(best, n)))
            raise RefusalError(
                f"{why} needs the band{'s' * (len(lacking) > 1)} {role_list(lacking)}; {best.name} does not have "
                f"{'them' if len(lacking) > 1 else 'it'}. Say which band is which, or add it to the image.",
                "NEEDS_BANDS",
                {"roles": lacking},
            )
        kept, self.form = self.form, self.form.model_copy(update={"scenes": tuple(s.scene_id for s in held)})
        try:
            return self._one()
        finally:
            self.form = kept

    def _band(self, scene: SceneInfo, role: str) -> Band:
        held = scene.bands_with_role(role)
        if len(held) != 1:
            raise RefusalError(f"{len(held)} bands of {scene.name} are called {role}; say which one is meant.", "NEEDS_BANDS",
                               {"roles": [role]})  # fmt: skip
        return held[0]

    def _scene_node(self, nodes: Nodes, scene: SceneInfo) -> str:
        """The node of a scene, made once."""
        for n in nodes:
            if n["op"] == "asset.scene" and n["params"]["scene"] == scene.scene_id:
                return str(n["id"])
        name = f"s{sum(n['op'] == 'asset.scene' for n in nodes) + 1}"
        nodes.append(self._node("asset.scene", (), name, scene=scene.scene_id))
        return name

    def _take(self, nodes: Nodes, scene: SceneInfo, quantity: str, name: str) -> str:
        """A band or index of a scene as node ``name``, without flagged pixels where that is asked."""
        (_, made), _ = self._quantity_nodes(scene, "0", quantity)
        nodes.append({**made, "id": name, "inputs": [self._scene_node(nodes, scene)]})
        return name

    def _retrieval(self, nodes: Nodes, name: str, retrieval: str, inputs: Mapping[str, str], **coefficients: float) -> str:
        nodes.append(self._node("raster.product.retrieval", list(dict.fromkeys(inputs.values())), name, name=retrieval,
                                inputs=dict(inputs), coefficients=coefficients))  # fmt: skip
        return name

    # --- temperatures --------------------------------------------------------------------------------------------------------
    def _numbers_of(self, scene: SceneInfo, role: str, notes: list[str], *, wants_gain: bool) -> dict[str, float]:
        """Gain, offset, K1 and K2 of a thermal band: as said, or Landsat 8's own. NO_ANSWER where neither tells them."""
        wanted = (("gain", "offset") if wants_gain else ()) + ("k1", "k2")
        said = {n: v for n in wanted if (v := self._coefficient(n)) is not None}
        lacking = [n for n in wanted if n not in said]
        if lacking and _IS_LANDSAT8.search(scene.name):
            known = dict(zip(("gain", "offset", "k1", "k2"), _LANDSAT8[role], strict=True))
            said |= {n: known[n] for n in lacking}
            told = ", ".join(f"{n} {known[n]:g}" for n in lacking)
            notes.append(
                f"Radiance and brightness temperature of Landsat 8 band {10 if role == 'thermal1' else 11} are made with {told}, "
                "as its metadata (MTL) has them."
            )
        elif lacking:
            names = ", ".join(n.upper() if n[0] == "k" else n for n in lacking)
            raise RefusalError(
                f"To make a temperature of the thermal band of {scene.name}, {names} of its metadata (MTL) are needed: which "
                "sensor it is of is not told well enough to take them from a table. Write “with gain 0.0003342, offset 0.1, "
                "k1 774.8853, k2 1321.0789”.",
                "NO_ANSWER",
                {"coefficients": lacking},
            )
        return said

    def _bright(self, nodes: Nodes, scene: SceneInfo, role: str, notes: list[str], tag: str = "") -> tuple[str, str]:
        """(radiance, brightness temperature) of a thermal band; radiance '' where the band is a temperature already."""
        band = self._band(scene, role)
        name = self._take(nodes, scene, role, f"thermal{tag}")
        if band.unit == "K":
            return "", name
        if band.unit not in ("DN", _RADIANCE):
            raise RefusalError(f"The thermal band of {scene.name} is in {band.unit}; temperatures are made of stored numbers, "
                               f"radiance ({_RADIANCE}) or K.", "NEEDS_BANDS", {"unit": "K"})  # fmt: skip
        if band.unit == "DN" and (_LEVEL2.search(band.description) or _LEVEL2.search(scene.name)):
            raise RefusalError(f"The thermal band of {scene.name} is of a product made further than level 1, whose numbers are no "
                               "radiance. Say its scale, offset and unit (K).", "NEEDS_BANDS", {"unit": "K"})  # fmt: skip
        if band.unit == "DN" and (band.scale, band.offset) != (1, 0):
            raise RefusalError(f"The thermal band of {scene.name} has a scale, and no unit says of what. Give its unit: K, or "
                               f"{_RADIANCE}.", "NEEDS_BANDS", {"unit": "K", "scene": scene.scene_id})  # fmt: skip
        numbers = self._numbers_of(scene, role, notes, wants_gain=band.unit == "DN")
        light = name
        if band.unit == "DN":
            light = self._retrieval(
                nodes, f"light{tag}", "radiance", {"dn": name}, gain=numbers["gain"], offset=numbers["offset"]
            )
        warm = self._retrieval(
            nodes, f"bright{tag}", "brightness_temperature", {"radiance": light}, k1=numbers["k1"], k2=numbers["k2"]
        )
        return light, warm

    def _is_surface(self, scene: SceneInfo) -> bool:
        """Whether a thermal band in K is told to be the surface's temperature, as of Landsat's level 2."""
        held = scene.bands_with_role("thermal1")
        return (
            len(held) == 1 and held[0].unit == "K" and bool(_SURFACE.search(held[0].description) or _SURFACE.search(scene.name))
        )

    def _emissive(self, nodes: Nodes, thermal: SceneInfo, warm: str, notes: list[str]) -> tuple[str, tuple[SceneInfo, ...]]:
        """(node of the emissivity on the thermal band's grid, scenes): by NDVI, or the number that the words give."""
        said = self._coefficient("emissivity") if warm else None
        if said is not None:
            if not 0.5 <= said <= 1:
                raise RefusalError("An emissivity lies between 0.5 and 1.", "BAD_ARGUMENT", {"form": ["emissivity"]})
            nodes.append(self._node("raster.product.math", [warm], "emissivity", expression=f"where({warm} > 0, {said!r}, "
                                                                                            f"{said!r})",
                                    range=[0.5, 1.01], unit="1", quantity="emissivity"))  # fmt: skip
            return "emissivity", ()
        green = thermal if not missing_roles(thermal, "ndvi") else self._with("ndvi", why="Emissivity by NDVI")
        if green.scene_id != thermal.scene_id and green.grid != thermal.grid:
            raise RefusalError(f"{green.name} and {thermal.name} lie on different grids: put their bands into one image, or "
                               "write "
                               "“with emissivity 0.98”.", "NO_ANSWER", {"scenes": True})  # fmt: skip
        self._check_ndvi(green)
        self._take(nodes, green, "ndvi", "ndvi")
        self._retrieval(nodes, "emissivity", "emissivity_ndvi", {"ndvi": "ndvi"})
        notes.append("The emissivity is estimated by NDVI (0.973 below 0.2, 0.99 above 0.5; Sobrino 2008): over water, snow "
                     "and metal "
                     "it is not right.")  # fmt: skip
        return "emissivity", (green,)

    def _emissivity_said(self) -> str:
        said = self._given().get("emissivity")
        return "" if said is None else f", emissivity {said:g}"

    def _make_brightness(self) -> Product:
        role = "thermal2" if self.asked.get("chan") in ("11", "thermal2", "2") else "thermal1"
        scene = self._with(role, why="A brightness temperature")
        if not scene.bands_with_role(role):
            raise RefusalError(f"{scene.name} has no such thermal band.", "NEEDS_BANDS", {"roles": [role]})
        if role == "thermal1" and self._is_surface(scene):
            raise RefusalError(f"The thermal band of {scene.name} is the surface's temperature, not the brightness temperature.",
                               "NEEDS_BANDS", {"roles": [role]})  # fmt: skip
        nodes: Nodes = []
        notes: list[str] = []
        _, last = self._bright(nodes, scene, role, notes)
        if self._band(scene, role).unit == "K":
            notes.append(f"The thermal band of {scene.name} is in K and is taken as it is.")
        title = "brightness temperature" + (
            f" of the {'second' if role == 'thermal2' else 'first'} thermal band" * bool(self.asked.get("chan"))
        )
        return Product(nodes, last, title, (scene,), "K", notes)

    def _make_surface(self) -> Product:
        how = self.asked.get("how").replace("-", " ")
        scenes = self._capable()
        ready = [s for s in scenes if "lst" in s.roles] or [s for s in scenes if self._is_surface(s)]
        if ready and not how:
            role = "lst" if "lst" in ready[0].roles else "thermal1"
            scene = self._with(role, why="A surface temperature")
            unit = self._band(scene, role).unit
            nodes: Nodes = []
            last = self._take(nodes, scene, role, "lst")
            if unit not in ("K", "degC"):
                raise RefusalError(f"The surface temperature of {scene.name} is in {unit}, as far as is known. Say its unit "
                                   "(K or "
                                   "degC) and scale.", "NEEDS_BANDS", {"unit": "K", "scene": scene.scene_id})  # fmt: skip
            return Product(nodes, last, "surface temperature", (scene,), unit)
        if ready and how:
            raise RefusalError(f"{ready[0].name} holds the surface temperature already, and no thermal radiance to make it of.",
                               "NEEDS_BANDS", {"roles": ["thermal1"]})  # fmt: skip
        if how == "split window":
            return self._split_window()
        scene = self._with("thermal1", why="A surface temperature")
        role = "thermal1"
        if not scene.bands_with_role(role):
            raise RefusalError(f"A surface temperature by one channel is made of Landsat's band 10; {scene.name} does not "
                               "have it.",
                               "NEEDS_BANDS", {"roles": [role]})  # fmt: skip
        if self._band(scene, role).unit == "K":
            raise RefusalError(
                f"The thermal band of {scene.name} is in K, and nothing says whether that is the surface's temperature or the "
                "brightness temperature. If it is the surface's, give the band the role lst; else ask for the brightness "
                "temperature.",
                "NEEDS_BANDS",
                {"roles": ["lst"], "scene": scene.scene_id},
            )
        if not (_IS_LANDSAT8.search(scene.name) or "landsat 8" in scene.sensor.lower()):
            raise RefusalError(
                f"The law of the single channel is Landsat 8's (and 9's), and {scene.name} is not told to be of it. Its "
                "brightness "
                "temperature can be asked for, with gain, offset, K1 and K2 in the words.",
                "NO_ANSWER",
                {"coefficients": ["wavelength"]},
            )
        nodes = []
        notes: list[str] = []
        light, warm = self._bright(nodes, scene, role, notes)
        emissivity, more = self._emissive(nodes, scene, warm, notes)
        w = self._vapour(notes)
        last = self._retrieval(nodes, "lst", "lst_single_channel",
                               {"bt": warm, "radiance": light, "emissivity": emissivity}, water_vapour=w)  # fmt: skip
        title = f"surface temperature by the single channel, water vapour {w:g} g/cm²{self._emissivity_said()}"
        return Product(nodes, last, title, tuple(dict.fromkeys((scene, *more))), "K", notes)

    def _split_window(self) -> Product:
        scene = self._with("thermal1", "thermal2", why="The split window")
        for role in ("thermal1", "thermal2"):
            self._band(scene, role)
        if {"k1", "k2", "gain", "offset"} & set(self._given()):
            raise RefusalError("Of which of the two thermal bands are the gain and K1? By the split window they are taken from "
                               "Landsat 8's own alone.", "BAD_ARGUMENT", {"form": ["k1"]})  # fmt: skip
        if not _IS_LANDSAT8.search(scene.name):
            raise RefusalError(f"The coefficients of the split window are Landsat 8's, and {scene.name} is not told to be of it.",
                               "NO_ANSWER", {"coefficients": ["c0"]})  # fmt: skip
        nodes: Nodes = []
        notes: list[str] = []
        _, one = self._bright(nodes, scene, "thermal1", notes)
        _, two = self._bright(nodes, scene, "thermal2", notes, "2")
        emissivity, more = self._emissive(nodes, scene, one, notes)
        w = self._vapour(notes)
        notes.append("Both thermal bands are taken to have the same emissivity. The stray light of Landsat 8's band 11 can "
                     "make the "
                     "split window wrong by some kelvins.")  # fmt: skip
        last = self._retrieval(nodes, "lst", "lst_split_window", {"t1": one, "t2": two, "emissivity": emissivity}, water_vapour=w)
        title = f"surface temperature by the split window, water vapour {w:g} g/cm²{self._emissivity_said()}"
        return Product(nodes, last, title, tuple(dict.fromkeys((scene, *more))), "K", notes)

    def _in_celsius(self, made: Product) -> None:
        """°C where the words ask for it; refused of what is no temperature, and of a difference of temperatures."""
        said = self.asked.get("temp") or self.asked.get("temp2") or self.asked.get("limunit")
        if not said:
            return
        if made.unit not in ("K", "degC"):
            raise RefusalError(f"The {made.title} is not told in {said}.", "BAD_ARGUMENT", {"form": ["unit"]})
        wanted = "K" if said.startswith("k") else "degC"
        if wanted == made.unit or (made.title.startswith("day less") and wanted == "degC"):
            return  # a difference of kelvins is one of degrees
        is_to_celsius = wanted == "degC"
        made.nodes.append(self._node(
            "raster.product.math", [made.last], "degrees", expression=f"{made.last} {'-' if is_to_celsius else '+'} 273.15",
            range=[-123.15, 126.85] if is_to_celsius else [150, 400], unit=wanted, quantity="temperature"))  # fmt: skip
        made.last, made.unit = "degrees", wanted

    # --- dryness, inertia ----------------------------------------------------------------------------------------------------
    def _make_emissivity(self) -> Product:
        scene = self._with("ndvi", why="Emissivity by NDVI")
        nodes: Nodes = []
        notes: list[str] = []
        last, _ = self._emissive(nodes, scene, "", notes)
        return Product(nodes, last, "emissivity by NDVI", (scene,), "1", notes)

    def _make_tvdi(self) -> Product:
        made = self._make_surface()
        scene = made.scenes[0]
        if made.unit != "K":
            raise RefusalError("The dryness index takes temperatures in K.", "BAD_ARGUMENT", {"unit": "K"})
        if not any(n["id"] == "ndvi" for n in made.nodes):
            green = scene if not missing_roles(scene, "ndvi") else self._with("ndvi", why="The dryness index")
            if green.grid != scene.grid:
                raise RefusalError(f"{green.name} and {scene.name} lie on different grids: put their bands into one image.",
                                   "NO_ANSWER", {"scenes": True})  # fmt: skip
            self._check_ndvi(green)
            self._take(made.nodes, green, "ndvi", "ndvi")
            made.scenes = tuple(dict.fromkeys((*made.scenes, green)))
        made.nodes.append(self._node("raster.product.tvdi", ["ndvi", made.last], "tvdi"))
        made.notes.append("The dry and wet edges of the dryness index are fitted to this image: 0 and 1 are its own wettest "
                          "and driest "
                          "pixels, and figures of other images or dates do not compare.")  # fmt: skip
        made.last, made.title, made.unit = "tvdi", "dryness index (TVDI), of pixels with NDVI from 0.2 on", "1"
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

    # --- water and air -------------------------------------------------------------------------------------------------------
    def _reflects(self, scene: SceneInfo, what: str, roles: tuple[str, ...]) -> None:
        for role in roles:
            held = next((b for r in (role, "nir08" if role == "nir" else role) for b in scene.bands_with_role(r)), None)
            if held is None or held.unit != "reflectance":
                unit = "nothing that is known" if held is None else held.unit
                raise RefusalError(
                    f"{what} is made of reflectance; the {role} band of {scene.name} is in {unit}. Say its scale and offset, and "
                    "that its unit is reflectance.",
                    "NEEDS_BANDS",
                    {"unit": "reflectance", "scene": scene.scene_id},
                )

    def _check_ndvi(self, scene: SceneInfo) -> None:
        """Limits of NDVI for soil and plants are those of reflectance: stored numbers with an offset have another NDVI."""
        if "ndvi" in scene.roles:
            return
        for role in ("red", "nir"):
            held = next(b for r in (role, "nir08" if role == "nir" else role) for b in scene.bands_with_role(r))
            if not held.unit.startswith("reflectance"):
                raise RefusalError(
                    f"Soil and plants are told apart by the NDVI of reflectance; the {role} band of {scene.name} is in "
                    f"{held.unit}. Say "
                    "its scale and offset and that its unit is reflectance, or write “with emissivity 0.98”.",
                    "NEEDS_BANDS",
                    {"unit": "reflectance", "scene": scene.scene_id},
                )

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

    # --- fires, snow, ice ----------------------------------------------------------------------------------------------------
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

    # --- pieces --------------------------------------------------------------------------------------------------------------
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
