"""The steps that plans are made of: graphs of one scene, what finds a target, and the words of the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from apps.agent.planner.facts import class_value, day_of, method_text, methods_of, region_method
from apps.agent.planner.fields import STATISTIC_TITLES, RefusalError
from apps.agent.planner.lexicon import TargetEntry, TargetMethod
from apps.agent.planner.scenes import SceneChooser
from apps.agent.planner.things import Thing
from apps.agent.units import length_as_asked
from apps.core.evidence.observation import Tool
from apps.core.evidence.plan import PlanStep, Question
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import step_reference
from apps.verification.quality import DEFAULT, flags_of, quality_band_of

_OF_PIXELS = re.compile(r"\b(?:of|by|among)\s+(?:(?:all|the|of|valid|number)\s+)*pixels\b", re.IGNORECASE)


def weights_said(question: Question, op: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a share or mean that the words ask of the pixels, each of which counts alike then, also where they differ in
    area."""
    is_weighed = op == "raster.summarize.share" or (
        op.startswith("raster.summarize.") and params.get("statistic") in ("mean", "share")
    )
    differ = any(s.grid.area_method == "geodesic" for s in question.scenes)
    return {"weights": "pixels"} if is_weighed and differ and _OF_PIXELS.search(question.text) else {}


class StepMaker(SceneChooser):
    """Adds steps to the plan on its way."""

    def _add(
        self,
        tool: Tool,
        arguments: dict[str, Any],
        why: str,
        needs: Sequence[int] = (),
        alternatives: Sequence[dict[str, Any]] = (),
    ) -> int:
        n = len(self.steps) + 1
        self.steps.append(
            PlanStep(
                step=n,
                tool=tool,
                arguments=self._with_region(arguments),
                why=why[:500],
                needs=tuple(needs),
                alternatives=tuple(self._with_region(a) for a in alternatives),
            )
        )
        return n

    def _length_text(self, metres: float | None) -> str:
        """A distance as the question writes it."""
        assert metres is not None
        return length_as_asked(metres, self.question.text)

    def _with_region(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {**arguments, "region": self.region, "region_crs": self.region_crs} if self.region is not None else arguments

    def _quantity_nodes(self, scene: SceneInfo, suffix: str = "", quantity: str = "") -> tuple[list[dict[str, Any]], str]:
        """Nodes that give the quantity of one scene, without its flagged pixels where that is asked, and the last one's name."""
        q = quantity or self.form.quantity
        source = {"id": f"s{suffix or '1'}", "op": "asset.scene", "params": {"scene": scene.scene_id}}
        name = f"q{suffix}" if suffix else "q"
        params = self._mask_params(scene)
        if q in scene.roles or q not in self.words.indices:
            role = q if q in scene.roles else next((r for r in (q, "nir08", "thermal2") if r in scene.roles), q)
            op, params = "raster.product.band", params | {"role": role}
        else:
            op, params = "raster.product.index", params | {"index": q}
        return [source, {"id": name, "op": op, "inputs": [source["id"]], "params": params}], name

    def _quantity_of_each(self, scenes: Sequence[SceneInfo]) -> tuple[list[dict[str, Any]], list[str]]:
        """Nodes that give the quantity of each scene, in their order, and the names of the last of each."""
        nodes: list[dict[str, Any]] = []
        ends = []
        for i, scene in enumerate(scenes, start=1):
            more, last = self._quantity_nodes(scene, str(i))
            nodes += more
            ends.append(last)
        return nodes, ends

    def _mask_params(self, scene: SceneInfo) -> dict[str, Any]:
        """Of a product, so that the pixels that are not wanted are left out: what the scene's quality band flags by its scheme,
        with cirrus where that was asked. NO_ANSWER where the band does not tell cirrus."""
        if not self.form.mask:
            return {}
        band = quality_band_of(scene.bands)
        if self.form.mask == "clear" or band is None:
            return {"quality_mask": "auto"}
        if "cirrus" not in flags_of(band.scheme):
            raise RefusalError(
                f"The quality band of {scene.name} does not tell cirrus: its clouds and shadows can be left out, cirrus cannot.",
                "NO_ANSWER",
                {"form": ["mask"]},
            )
        return {"quality_mask": "auto", "quality_flags": [*dict.fromkeys((*DEFAULT[band.scheme], "cirrus"))]}

    def _target_nodes(self, scene: SceneInfo, target: str) -> list[list[dict[str, Any]]]:
        """Graphs that end in ``mask``, one a method: where a target is, found inside of one call. For what a mask of its own
        cannot serve: pixels that are left out by the quality band, and zones."""
        value = class_value(target)
        if value is not None:
            nodes, last = self._quantity_nodes(scene, quantity="class")
            params: dict[str, Any] = {"values": [value]}
            return [[*nodes, {"id": "mask", "op": "raster.product.class_values", "inputs": [last], "params": params}]]
        out = []
        for m in self._target_methods(scene, target)[:4]:
            nodes, last = self._quantity_nodes(scene, quantity=m.index or m.band)
            op = ("<=" if m.side == "above" else ">=") if self.form.is_not else ">" if m.side == "above" else "<"
            limit: dict[str, Any] = {"op": op, "value": m.threshold}
            out.append([*nodes, {"id": "mask", "op": "raster.product.threshold", "inputs": [last], "params": limit}])
        return out

    def _target_methods(self, scene: SceneInfo, target: str) -> list[TargetMethod]:
        """How a target is found in a scene, first choice first; as the question says where it names an index."""
        f = self.form
        methods = methods_of(scene, self.words.targets[target].methods)
        if f.quantity and f.threshold is not None and target == f.target:
            is_index = f.quantity in self.words.indices
            methods = [
                TargetMethod(
                    index=f.quantity if is_index else "",
                    band="" if is_index else f.quantity,
                    threshold=f.threshold,
                    side=f.side,
                )
            ]
        elif f.quantity and target == f.target:
            methods = [m for m in methods if f.quantity in (m.index, m.band)] or [
                TargetMethod(index=f.quantity, threshold="otsu", side="above")
            ]
        if methods[0].index == "ngrdi":
            self.warnings.append("Only visible bands are at hand: green things that are no plants may be taken for vegetation.")
        return methods

    def _graph(self, nodes: list[dict[str, Any]], out: dict[str, Any]) -> dict[str, Any]:
        out = out | {"params": out["params"] | weights_said(self.question, str(out["op"]), out["params"])}
        return {"nodes": [*nodes, {"id": "out", **out}], "output": "out"}

    def _threshold(self) -> dict[str, Any]:
        f = self.form
        value = -f.threshold if f.change == "drop" and f.threshold is not None else f.threshold
        below = f.side == "below" if not f.change else f.change == "drop"
        return {"op": ("<" if below else ">") + ("=" if f.is_closed else ""), "value": value}

    def _mask_nodes(self, source: str) -> list[dict[str, Any]]:
        """Nodes that end in ``mask``: where the quantity is beyond the threshold, or between two."""
        f = self.form
        if f.upper is None:
            return [{"id": "mask", "op": "raster.product.threshold", "inputs": [source], "params": self._threshold()}]
        return [
            {"id": "low", "op": "raster.product.threshold", "inputs": [source], "params": {"op": ">=", "value": f.threshold}},
            {"id": "high", "op": "raster.product.threshold", "inputs": [source], "params": {"op": "<=", "value": f.upper}},
            {"id": "mask", "op": "raster.product.logic", "inputs": ["low", "high"], "params": {"op": "and"}},
        ]

    def _condition(self) -> str:
        if self.form.upper is not None:
            return f"{self.form.threshold:g} ≤ {self.words.title(self.form.quantity)} ≤ {self.form.upper:g}"
        t = self._threshold()
        return f"{self.words.title(self.form.quantity)} {t['op']} {t['value']:g}"

    def _measure(self, scene: SceneInfo, target: str = "") -> int:
        """Adds the steps that measure one scene; the number of the last."""
        f, kind = self.form, self.measured()
        target = target or f.target
        self._check_region(scene)
        at = f" of {day_of(scene)}" if scene.acquired_at else ""
        if (
            f.quantity == "elevation"
            and f.threshold is not None
            and any(b.unit != "m" for b in scene.bands_with_role("elevation"))
        ):
            self.warnings.append("The image does not say in which unit its elevation is; it is taken for metres.")
        if kind == "statistic":
            nodes, last = self._quantity_nodes(scene)
            return self._add(
                "execute",
                self._graph(nodes, {"op": "raster.summarize.statistic", "inputs": [last], "params": {"statistic": f.statistic}}),
                f"{self._title()} over the valid pixels{at}.",
            )
        if kind == "area":
            self._needs_ground(scene)
        if not target:
            nodes, last = self._quantity_nodes(scene)
            nodes += self._mask_nodes(last)
            if kind == "area":
                return self._add(
                    "execute",
                    self._graph(
                        nodes, {"op": "raster.summarize.area", "inputs": ["mask"], "params": {"unit": self._area_unit()}}
                    ),
                    f"Area where {self._condition()}{at}, geodesic or on an equal-area grid.",
                )
            return self._add(
                "execute",
                self._graph(nodes, {"op": "raster.summarize.share", "inputs": ["mask"], "params": {}}),
                f"Share of the valid pixels where {self._condition()}{at}.",
            )
        if (f.mask or f.is_not) and kind in ("area", "share") and target not in self.words.objects:
            return self._measure_masked(scene, target, at)
        layer = self._find(scene, target)
        mode = "objects" if target in self.words.objects else "regions"
        source: dict[str, Any] = {"name": target, "mode": mode, "layer": step_reference(layer)}
        if scene.grid.crs is None and scene.effective_gsd_m is not None and kind == "area":
            source["gsd_m"] = scene.effective_gsd_m
        spec: dict[str, Any] = {"metric": {"area": "area", "share": "ratio", "count": "count"}[kind], "subject": target}
        if kind == "area":
            spec["unit"] = self._area_unit()
        elif kind == "share":
            spec |= {"denominator": "valid", "unit": "1"}
        else:
            spec["unit"] = "1"
        title = self.words.title(target)
        why = {
            "area": f"Area of {title}, geodesic or on an equal-area grid.",
            "share": f"Share of the valid pixels that is {title}.",
            "count": f"Count the {title} that were found.",
        }[kind]
        return self._add("measure", {"sources": [source], "spec": spec}, why, (layer,))

    def _measure_masked(self, scene: SceneInfo, target: str, at: str) -> int:
        """Area or share of a target, or of what is none of it, over the pixels that the quality band leaves."""
        kind, title = self.measured(), self.words.title(target)
        out: dict[str, Any] = {"op": "raster.summarize.share", "inputs": ["mask"], "params": {}}
        if kind == "area":
            out = {"op": "raster.summarize.area", "inputs": ["mask"], "params": {"unit": self._area_unit()}}
        arguments = [self._graph(nodes, out) for nodes in self._target_nodes(scene, target)]
        what = f"that is not {title}" if self.form.is_not else f"of {title}"
        over = "pixels that the quality band does not flag" if self.form.mask else "valid pixels"
        why = f"{'Area' if kind == 'area' else 'Share'} {what}{at} over the {over}."
        return self._add("execute", arguments[0], why, alternatives=arguments[1:])

    def _find(self, scene: SceneInfo, target: str, min_px: int = 0) -> int:
        """Adds the perceive step that finds a target in one scene."""
        if self.form.mask:
            raise RefusalError(
                "Clouds are left out of means, areas and shares; of things that are counted or of distances they are not.",
                "NO_ANSWER",
                {"form": ["mask"]},
            )
        at = f" in the image of {day_of(scene)}" if scene.acquired_at else ""
        base: dict[str, Any] = {"image_paths": [scene.scene_id], "objective": target}
        if target in self.words.objects:
            entry = self.words.objects[target]
            return self._add(
                "perceive",
                {
                    **base,
                    "mode": "objects",
                    "target_groups": {target: list(entry.prompts)},
                    "objects_method": {"detector": "auto"},
                },
                f"Find the {entry.title[1]}{at}.",
            )
        value = class_value(target)
        if value is not None:
            return self._add(
                "perceive",
                {
                    **base,
                    "mode": "regions",
                    "target_groups": {target: [target]},
                    "regions_method": {"kind": "class_value", "values": [value]},
                },
                f"Take the pixels of {target} of the class map{at}.",
            )
        methods = self._target_methods(scene, target)
        arguments = [
            {**base, "mode": "regions", "target_groups": {target: [target]}, "regions_method": region_method(m, min_px)}
            for m in methods
        ]
        return self._add(
            "perceive",
            arguments[0],
            f"Find {self.words.title(target)}{at}: {method_text(methods[0])}.",
            alternatives=arguments[1:4],
        )

    def _series_step(self, scenes: list[SceneInfo], params: dict[str, Any], why: str, op: str = "raster.summarize.series") -> int:
        self._check_region(*scenes)
        nodes, ends = self._quantity_of_each(scenes)
        return self._add("execute", self._graph(nodes, {"op": op, "inputs": ends, "params": params}), why)

    def _difference_nodes(self, before: SceneInfo, after: SceneInfo, params: dict[str, Any]) -> list[dict[str, Any]]:
        first, a = self._quantity_nodes(before, "1")
        second, b = self._quantity_nodes(after, "2")
        return [*first, *second, {"id": "difference", "op": "raster.product.difference", "inputs": [a, b], "params": params}]

    # --- the words of the answer ---------------------------------------------------------------------------------------------
    def _area_unit(self) -> str:
        return self.form.unit or "km2"

    def _recipe_unit(self) -> str:
        kind = self.measured()
        return self._area_unit() if kind == "area" else (self.form.unit or "1") if kind == "share" else "1"

    def _phrases(self) -> dict[str, Any]:
        """The words of the answer."""
        f, kind = self.form, self.measured()
        if kind == "count":
            entry = self.words.objects[f.target]
            return {
                "noun": f"{entry.title[1]} found",
                "noun_one": f"{entry.title[0]} found",
                "phrase": f"Number of {entry.title[1]}",
            }
        if kind == "statistic":
            return {"phrase": self._title()}
        what = f"of {self.words.title(f.target)}" if f.target else f"where {self._condition()}"
        if f.is_not:
            what = f"that is not {self.words.title(f.target)}"
        if kind == "area":
            return {"phrase": f"Area {what}"}
        return {"phrase": f"Share {what}" if f.target else f"Share of the area {what}"}

    def _title(self) -> str:
        """'Mean NDVI', 'Standard deviation of the red band'."""
        name = self.words.title(self.form.quantity)
        head = STATISTIC_TITLES[self.form.statistic]
        return f"{head} of {name}" if name.startswith("the ") or self.form.statistic == "std" else f"{head} {name}"

    def _thing_title(self, key: str) -> str:
        return self.things[key].title if key in self.things else self.words.title(key)

    def _label(self, target: str) -> str:
        """A target's name in the answer; of a multiple choice the option that names it, so that it is recognised."""
        entry = self.words.targets.get(target) or self.words.objects.get(target)
        known = entry.words if entry is not None else (target,)
        if isinstance(entry, TargetEntry):
            known = (*known, *entry.narrower)
        options = [
            text
            for text in self.question.choices.values()
            if any(re.search(rf"(?<![\w\-]){re.escape(w)}(?![\w\-])", text.lower()) for w in known)
        ]
        return options[0] if len(options) == 1 else self.words.title(target)

    def _is_one(self, key: str) -> bool:
        return key in self.things and self.things[key].n == 1

    def _clouds(self, scenes: list[SceneInfo], *, when: bool) -> None:
        if when and not self.form.mask and self.form.quantity in self.words.indices and not all("qa" in s.roles for s in scenes):
            self.warnings.append(
                "No cloud mask was applied: clouds or their shadows may explain the lowest value. Look at the image "
                "of that date before you rely on it."
            )

    def _tell_names(self, thing: Thing) -> None:
        assert thing.vector is not None
        if not self.form.by and not thing.vector.name_field:
            self.warnings.append(f"No attribute of {thing.vector.name} names its features, so they are called by their number.")
