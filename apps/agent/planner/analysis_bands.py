"""Plans of one image: pan-sharpening, principal components, vegetation cover, percentiles."""

from __future__ import annotations

from typing import Any

from apps.agent.planner.analysis_pieces import AnalysisPieces, Nodes
from apps.agent.planner.facts import numbered
from apps.agent.planner.fields import RefusalError
from apps.core.evidence.plan import AnswerRecipe
from apps.core.geo.scene import SceneInfo

_SPECTRAL = ("coastal", "blue", "green", "red", "rededge1", "rededge2", "rededge3", "nir", "nir08", "swir1", "swir2")
_COUNTS = {"two": 2, "three": 3, "four": 4, "second": 2, "2nd": 2, "third": 3, "3rd": 3}


class BandAnalyses(AnalysisPieces):
    """Plans of several bands of one image."""

    def _plan_pan(self) -> AnswerRecipe:
        a = self.asked
        named = self._in_dates(list(self.question.scenes)) if self.form.dates else list(self.question.scenes)
        named = [s for s in named if not a.scenes or s.scene_id in a.scenes]
        pans = [s for s in named if len(s.bands_with_role("pan")) == 1]
        if len(pans) != 1:
            raise RefusalError(
                "Pan-sharpening needs a panchromatic band in one image" + (f"; {len(pans)} have one." if pans else "."),
                "NEEDS_BANDS",
                {"roles": ["pan"]},
            )
        colours = ("red", "green", "blue")
        fits = [s for s in named if all(len(s.bands_with_role(r)) == 1 for r in colours)]
        if len(fits) != 1:
            raise RefusalError(
                "Pan-sharpening needs red, green and blue in one image" + (f"; {len(fits)} have them." if fits else "."),
                "NEEDS_BANDS",
                {"roles": [*colours]},
            )
        if a.quantity and a.quantity not in colours:
            raise RefusalError(
                "The panchromatic band sees red, green and blue; only these are sharpened by it.",
                "NO_ANSWER",
                {"form": ["quantity"]},
            )
        scene, pan = fits[0], pans[0]
        self._check_region(scene, pan)
        steps = []
        for first in [a.quantity] if a.quantity else colours:
            order = [first, *(c for c in colours if c != first)]
            nodes: Nodes = [
                self._node("asset.scene", (), "s1", scene=scene.scene_id),
                self._node("asset.scene", (), "s2", scene=pan.scene_id),
            ]
            nodes += [self._node("raster.product.band", ["s1"], r, role=r) for r in order]
            nodes.append(self._node("raster.product.band", ["s2"], "pan", role="pan"))
            sharp = self._node("raster.product.pansharpen", [*order, "pan"], "sharp")
            more = [sharp, self._statistic_of("sharp")] if a.statistic else [sharp]
            steps.append(self._execute([*nodes, *more], f"The {first} band, pan-sharpened (Brovey)."))
        if a.statistic:
            phrase = self._title_of(f"of the pan-sharpened {a.quantity} band")
            self._say(f"the {phrase[0].lower()}{phrase[1:]}", scene)
            return self._value(steps[0], phrase)
        what = f"the {a.quantity} band" if a.quantity else "red, green and blue"
        self._say(f"{what}, pan-sharpened", scene)
        return self._layers(steps, f"{what[:1].upper()}{what[1:]}, pan-sharpened (Brovey)")

    def _components(self, component: int) -> tuple[SceneInfo, Nodes, int]:
        scene = self._one()
        self._check_region(scene)
        roles = [r for r in _SPECTRAL if len(scene.bands_with_role(r)) == 1]
        if len(roles) < 2 or component > len(roles):
            raise RefusalError(
                f"Principal components need several bands whose roles are known; {scene.name} has {len(roles)}.",
                "NEEDS_BANDS",
                {"roles": ["red", "nir"]},
            )
        units = {scene.bands_with_role(r)[0].unit for r in roles}
        nodes: Nodes = [self._node("asset.scene", (), "s1", scene=scene.scene_id)]
        nodes += [self._node("raster.product.band", ["s1"], f"b{i}", role=r) for i, r in enumerate(roles, start=1)]
        params: dict[str, Any] = {"component": component} | ({"standardize": True} if len(units) > 1 else {})
        nodes.append(self._node("raster.product.pca", [n["id"] for n in nodes[1:]], **params))
        return scene, nodes, len(roles)

    def _plan_pca(self) -> AnswerRecipe:
        component = _COUNTS.get(self.asked.get("k"), 1)
        scene, nodes, n_bands = self._components(component)
        phrase = f"Principal component {component} of {n_bands} bands"
        self._say(f"a map of {phrase[0].lower()}{phrase[1:]}", scene)
        return self._layers((self._execute(nodes, f"{phrase}."),), phrase)

    def _plan_pca_share(self) -> AnswerRecipe:
        said = self.asked.get("n")
        n = _COUNTS.get(said) or int(said or 1)
        scene, nodes, n_bands = self._components(1)
        if n > n_bands:
            raise RefusalError(f"{n_bands} bands have {n_bands} components.", "BAD_ARGUMENT", {"form": ["n"]})
        which = "component" if n == 1 else f"{n} components"
        phrase = f"Share of the variance of {n_bands} bands in the first principal {which}"
        self._say(f"the {phrase[0].lower()}{phrase[1:]}", scene)
        self.answer_form = "share"
        step = self._execute(nodes, f"{phrase}.")
        return AnswerRecipe(
            kind="reading",
            steps=(step,),
            unit="%",
            options={"phrase": phrase, "node": "out", "path": ["explained"], "first": n, "of": "1"},
        )

    def _plan_percentile(self) -> AnswerRecipe:
        rank = float(self.asked.get("rank"))
        if rank > 100:
            raise RefusalError(f"There is no percentile {rank:g}; they go from 0 to 100.", "BAD_ARGUMENT", {"form": ["rank"]})
        scene = self._one()
        self._check_region(scene)
        nodes, last = self._quantity_nodes(scene)
        phrase = f"{numbered(rank)} percentile of {self.words.title(self.asked.quantity)}"
        self._say(f"the {phrase}", scene)
        nodes.append(self._node("raster.summarize.statistic", [last], statistic="percentile", percentile=rank))
        return self._value(self._execute(nodes, f"{phrase} over the valid pixels."), phrase)

    def _plan_cover(self) -> AnswerRecipe:
        self.form = self.form.model_copy(update={"quantity": "ndvi"})
        scene = self._one()
        self._check_region(scene)
        nodes, last = self._quantity_nodes(scene)
        nodes += [self._node("raster.product.vegetation_cover", [last], "fvc"), self._statistic_of("fvc")]
        phrase = self._title_of("fractional vegetation cover")
        self._say(f"the {phrase[0].lower()}{phrase[1:]} (NDVI 0.05 bare, 0.95 full)", scene)
        return self._value(self._execute(nodes, f"{phrase}, NDVI between 0.05 and 0.95."), phrase)
