"""Plans of grids and of images laid on each other: another CRS or pixel size, the shift of two images, what changed."""

from __future__ import annotations

from typing import Any

import pyproj

from apps.agent.planner.analysis_pieces import AnalysisPieces
from apps.agent.planner.fields import RefusalError
from apps.core.evidence.plan import AnswerRecipe
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import step_reference

# A coarser grid gathers pixels from here on; below it neighbours are interpolated.
COARSER = 1.5
# Roles by which two images are laid on each other, finest detail first.
_LAID_BY = ("pan", "green", "red", "nir", "blue", "nir08", "swir1", "swir2", "gray", "vv", "hh", "vh", "hv", "ndvi", "elevation")


class GridAnalyses(AnalysisPieces):
    """Plans of grids, and of two images on one grid."""

    def _plan_regrid(self) -> AnswerRecipe:
        a = self.asked
        self._named("Resampled to another grid: the values")
        scene = self._one()
        self._check_region(scene)
        if scene.grid.crs is None:
            raise RefusalError(
                "The image has no coordinate system, so it has no place on another grid.", "NEEDS_CRS", {"crs": True}
            )
        crs = self._known_crs(a.crs or scene.grid.crs, a.crs)
        params: dict[str, Any] = {"crs": a.crs} if a.crs else {}
        gsd, wanted = scene.effective_gsd_m, a.resolution_m
        method = {"n": "nearest", "b": "bilinear", "a": "average"}.get(a.get("how")[:1], "")
        if wanted is not None:
            if crs.is_geographic:
                raise RefusalError(
                    f"A pixel of {wanted:g} m has no size in degrees. Name a CRS in metres too, like EPSG:32630.",
                    "NEEDS_CRS",
                    {"crs": True},
                )
            params["resolution"] = wanted / crs.axis_info[0].unit_conversion_factor
            method = method or ("average" if gsd is not None and wanted >= COARSER * gsd else "bilinear")
            if "pseudo-mercator" in crs.name.lower():
                self.warnings.append("Metres of Web Mercator are longer than those on the ground away from the equator.")
        params["method"] = method or "bilinear"
        nodes, last = self._quantity_nodes(scene)
        where = (f" in pixels of {wanted:g} m" if wanted is not None else "") + (f" in {a.crs}" if a.crs else "")
        title = self.words.title(a.quantity)
        if a.get("make"):
            self._say(f"a map of {title}{where}", scene)
            n = self._execute([*nodes, self._node("raster.product.reproject", [last], **params)], f"{title}{where}.")
            return self._layers((n,), f"{title}{where}")
        nodes.append(self._node("raster.product.reproject", [last], "grid", **params))
        nodes.append(self._statistic_of("grid"))
        phrase = f"{self._title_of()}{where}"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}, {params['method']}", scene)
        return self._value(self._execute(nodes, f"{phrase}, {params['method']}."), phrase)

    def _known_crs(self, text: str, said: str) -> pyproj.CRS:
        try:
            crs = pyproj.CRS.from_user_input(text)
        except pyproj.exceptions.CRSError:
            raise RefusalError(f"{said} is no CRS that is known here.", "NEEDS_CRS", {"crs": True}) from None
        if not (crs.is_projected or crs.is_geographic) or crs.is_geocentric:
            raise RefusalError(f"{said} is no CRS of a map.", "NEEDS_CRS", {"crs": True})
        return crs

    def _plan_shift(self) -> AnswerRecipe:
        self.task_type = "change_detection"
        scenes = self._capable()
        if len(scenes) == 2 and not self.form.dates and not all(s.acquired_at for s in scenes):
            first, second = scenes
            self._same_place(scenes)
        else:
            first, second = self._two()
        self._check_region(first, second)
        role = next((r for r in _LAID_BY if all(len(s.bands_with_role(r)) == 1 for s in (first, second))), "")
        if not role:
            raise RefusalError(
                "The two images have no band in common by which they could be laid on each other.",
                "NEEDS_BANDS",
                {"roles": ["gray"]},
            )
        unit = self.asked.get("in") or ("m" if first.grid.gsd_m and first.grid.crs else "px")
        if unit not in ("m", "px"):
            raise RefusalError("A shift between images is told in pixels or metres.", "BAD_ARGUMENT", {"form": ["unit"]})
        if unit == "m" and not (first.grid.gsd_m and first.grid.crs):
            self._needs_ground(first)
            raise RefusalError("The image has no coordinate system: ask for the shift in pixels.", "NEEDS_CRS", {"crs": True})
        phrase = f"Shift of the later image against the earlier, by {self.words.title(role)}"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", first, second)
        if first.grid.crs is None:
            n = self._add(
                "perceive",
                {"image_paths": [first.scene_id, second.scene_id], "objective": "shift", "mode": "change"},
                f"{phrase}.",
            )
            return AnswerRecipe(
                kind="reading",
                steps=(n,),
                unit="px",
                options={
                    "phrase": phrase,
                    "path": ["shift_length_px"],
                    "none": "the two images have too little in common to tell how far they lie apart",
                },
            )
        one, a = self._quantity_nodes(first, "1", role)
        two, b = self._quantity_nodes(second, "2", role)
        nodes = [*one, *two]
        b = self._on_first(first, second, nodes, b)
        nodes += [
            self._node("raster.product.coregister", [b, a], "laid"),
            self._node("raster.summarize.agreement", [a, "laid"], measure="correlation"),
        ]
        n = self._execute(nodes, f"{phrase}, by phase correlation of edges.")
        key = "shift_length_px" if unit == "px" else "shift_m"
        return AnswerRecipe(kind="reading", steps=(n,), unit=unit, options={"phrase": phrase, "node": "laid", "path": [key]})

    def _plan_registered_change(self) -> AnswerRecipe:
        self.task_type = "change_detection"
        before, after, nodes, a, b = self._both()
        if before.grid.crs is None:
            raise RefusalError("Co-registration needs a coordinate system.", "NEEDS_CRS", {"crs": True})
        nodes += [
            self._node("raster.product.coregister", [b, a], "laid"),
            self._node("raster.product.difference", [a, "laid"], "difference"),
            self._node("raster.summarize.statistic", ["difference"], statistic="mean"),
        ]
        phrase = f"Mean change of {self.words.title(self.asked.quantity)} after co-registration"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", before, after)
        return self._value(self._execute(nodes, f"{phrase}, over pixels valid at both dates."), phrase, signed=True)

    def _change(self) -> tuple[int, SceneInfo, str]:
        self.task_type = "change_detection"
        before, after = self._two()
        self._check_region(before, after)
        model = self.asked.get("model")
        how = f"by the model {model}" if model else "by change vectors"
        arguments: dict[str, Any] = {"image_paths": [before.scene_id, after.scene_id], "objective": "change", "mode": "change"}
        if model:
            arguments["options"] = {"model": model}
        self._say(f"what changed between two images, {how}", before, after)
        return self._add("perceive", arguments, f"Where the two images differ, {how}."), before, how

    def _plan_change_map(self) -> AnswerRecipe:
        n, _, how = self._change()
        return self._layers((n,), f"Change, {how}")

    def _plan_changed(self) -> AnswerRecipe:
        n, before, how = self._change()
        _, unit, word = self._part("change")
        self.task_type = "change_detection"
        source: dict[str, Any] = {"name": "change", "mode": "change", "layer": step_reference(n)}
        if word == "Area":
            self._needs_ground(before)
            if before.grid.crs is None and before.effective_gsd_m is not None:
                source["gsd_m"] = before.effective_gsd_m
        spec: dict[str, Any] = (
            {"metric": "area", "subject": "change", "unit": unit}
            if word == "Area"
            else {"metric": "ratio", "subject": "change", "denominator": "valid", "unit": "1"}
        )
        phrase = f"{word} that changed, {how}"
        m = self._add("measure", {"sources": [source], "spec": spec}, f"{phrase}.", (n,))
        return self._value(m, phrase, unit)
