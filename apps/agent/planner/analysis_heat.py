"""Plans of temperatures: brightness temperature, surface temperature by one channel or the split window, emissivity, dryness."""

from __future__ import annotations

import re

from apps.agent.planner.analysis_pieces import Nodes
from apps.agent.planner.fields import RefusalError
from apps.agent.planner.lexicon import missing_roles
from apps.agent.planner.physical_pieces import PhysicalPieces, Product
from apps.core.geo.scene import SceneInfo

_RADIANCE = "W/m2/sr/um"
# USGS, Landsat 8 level 1 metadata (MTL): the same in each scene of this satellite. (gain, offset, K1, K2)
_LANDSAT8 = {"thermal1": (3.342e-4, 0.1, 774.8853, 1321.0789), "thermal2": (3.342e-4, 0.1, 480.8883, 1201.1442)}
_IS_LANDSAT8 = re.compile(r"(?:^|[^a-z0-9])(?:l[co]?0?8(?=[^0-9]|\d{6})|landsat.?8(?!/9))", re.IGNORECASE)
# Names of products whose thermal numbers are temperatures already.
_LEVEL2 = re.compile(r"(?:^|[^a-z0-9])(?:bt|st|lst|l2sp|l2sr|l2a)(?![a-z])", re.IGNORECASE)
_SURFACE = re.compile(r"(?:^|[^a-z])(?:st_b(?:6|06|10)|lst|land.surface.temperature|surface.temperature)(?![a-z])", re.IGNORECASE)
# g/cm² where nothing is told.
_WATER_VAPOUR = 2.0


class HeatAnalyses(PhysicalPieces):
    """Plans of temperatures."""

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
            raise RefusalError(f"The thermal band of {scene.name} is of a product made further than level 1, whose numbers "
                               "are no "
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
