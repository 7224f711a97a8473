"""Plans of patterns in space and of class maps: Moran's I, hot spots, classes and their transitions."""

from __future__ import annotations

from apps.agent.planner.analysis_pieces import AnalysisPieces, Nodes
from apps.agent.planner.fields import RefusalError
from apps.core.evidence.plan import AnswerRecipe
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import step_reference

# z beyond which a pixel of Gi* is a hot or cold spot: 95 % of a normal distribution lie within.
SPOT_Z = 1.96


class SpaceAnalyses(AnalysisPieces):
    """Plans of patterns in space and of class maps."""

    def _moran(self) -> tuple[int, str]:
        self.task_type = "environmental_assessment"
        scene = self._one()
        self._check_region(scene)
        nodes, last = self._quantity_nodes(scene)
        phrase = f"Moran's I of {self.words.title(self.asked.quantity)}"
        self._say(f"{phrase}: whether like lies beside like", scene)
        return self._execute([*nodes, self._node("raster.summarize.moran", [last])], f"{phrase}, over 8 neighbours."), phrase

    def _plan_moran(self) -> AnswerRecipe:
        n, phrase = self._moran()
        return self._value(n, phrase)

    def _plan_moran_test(self) -> AnswerRecipe:
        n, phrase = self._moran()
        self.answer_form = "boolean"
        return AnswerRecipe(kind="clustered", steps=(n,), options={"phrase": phrase})

    def _spots(self) -> tuple[SceneInfo, Nodes, str]:
        heat = self.asked.get("heat")
        self._named(f"{heat.capitalize()} spots")
        self.task_type = "environmental_assessment"
        scene = self._one()
        self._check_region(scene)
        nodes, last = self._quantity_nodes(scene)
        limit = {"op": ">", "value": SPOT_Z} if heat == "hot" else {"op": "<", "value": -SPOT_Z}
        nodes += [
            self._node("raster.product.getis_ord", [last], "gi"),
            self._node("raster.product.threshold", ["gi"], "spots", **limit),
        ]
        return scene, nodes, f"{heat} spots of {self.words.title(self.asked.quantity)}"

    def _plan_spots_map(self) -> AnswerRecipe:
        _, nodes, what = self._spots()
        title = what[:1].upper() + what[1:]
        self._say(f"a map of {what} (Gi* beyond {SPOT_Z})", self._one())
        return self._layers((self._execute(nodes, f"{title}: Gi* beyond {SPOT_Z}, in 5 × 5 pixels."),), title)

    def _plan_spots_part(self) -> AnswerRecipe:
        scene, nodes, what = self._spots()
        out, unit, word = self._part("spots")
        if word == "Area":
            self._needs_ground(scene)
        self._say(f"the {word.lower()} of {what} (Gi* beyond {SPOT_Z})", scene)
        n = self._execute([*nodes, out], f"{word} where Gi* of 5 × 5 pixels is beyond {SPOT_Z}.")
        return self._value(n, f"{word} of {what}", unit)

    def _plan_spots_count(self) -> AnswerRecipe:
        scene, nodes, what = self._spots()
        self.answer_form = "integer"
        self._say(f"the number of {what}: pieces whose Gi* is beyond {SPOT_Z}", scene)
        layer = self._execute(nodes, f"{what[:1].upper()}{what[1:]}: Gi* beyond {SPOT_Z}, in 5 × 5 pixels.")
        one = what.replace("spots", "spot")
        n = self._add(
            "measure",
            {
                "sources": [{"name": one, "mode": "regions", "layer": step_reference(layer)}],
                "spec": {"metric": "count", "subject": one, "unit": "1"},
            },
            f"Count the connected pieces of {what}.",
            (layer,),
        )
        return AnswerRecipe(kind="value", steps=(n,), options={"noun": what, "noun_one": one, "phrase": f"Number of {what}"})

    def _of_classes(self) -> None:
        self.form = self.form.model_copy(update={"quantity": "class"})

    def _plan_classes(self) -> AnswerRecipe:
        self._of_classes()
        self.task_type, self.answer_form = "area_measurement", "table"
        unit = self._table_unit()
        scene = self._one()
        self._check_region(scene)
        self._needs_ground(scene)
        nodes, last = self._quantity_nodes(scene)
        self._say("the area and share of each class of the class map", scene)
        n = self._execute(
            [*nodes, self._node("raster.summarize.class_areas", [last], unit=unit)], "Area and share of each class."
        )
        return AnswerRecipe(kind="classes", steps=(n,), unit=unit, options={"phrase": "Classes of the class map"})

    def _transitions(self, what: str) -> int:
        self._of_classes()
        self.task_type, self.answer_form = "change_detection", "table"
        before, after = self._two()
        self._check_region(before, after)
        first, a = self._quantity_nodes(before, "1")
        second, b = self._quantity_nodes(after, "2")
        if before.grid != after.grid:
            raise RefusalError(
                "The two class maps lie on different grids, and classes are not mixed by resampling.",
                "NO_ANSWER",
                {"scenes": [before.scene_id, after.scene_id]},
            )
        self._say(what, before, after)
        return self._execute(
            [*first, *second, self._node("raster.summarize.transitions", [a, b])],
            "Pixels of each pair of classes, before and after.",
        )

    def _plan_transitions(self) -> AnswerRecipe:
        n = self._transitions("which class became which")
        return AnswerRecipe(kind="transitions", steps=(n,), options={"phrase": "Share of the pixels whose class changed"})

    def _plan_transition_share(self) -> AnswerRecipe:
        n = self._transitions("the share of the pixels whose class changed")
        self.answer_form = "share"
        return self._value(n, "Share of the pixels whose class changed", "%")
