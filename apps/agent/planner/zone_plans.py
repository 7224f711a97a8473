"""Questions about the image inside of polygons, near to them or outside: of all, of each, or of the one with the extreme."""

from __future__ import annotations

from typing import Any

from apps.agent.planner.facts import day_of, is_apart, lowered, ordinal
from apps.agent.planner.fields import EXISTS_MIN_PX, RefusalError
from apps.agent.planner.steps import StepMaker
from apps.agent.planner.things import Thing
from apps.core.evidence.plan import AnswerRecipe
from apps.core.geo.scene import SceneInfo
from apps.core.geo.vector import POLYGONS, VectorInfo
from apps.tools.contract import step_reference


class ZonePlans(StepMaker):
    """What ``execute`` summarizes by zones."""

    def _zoned(self) -> AnswerRecipe:
        """Figures of the image inside of polygons."""
        f, kind = self.form, self.measured()
        if kind == "count":
            raise RefusalError(
                "Objects inside of polygons are counted by their relation: ask how many lie inside.",
                "NO_ANSWER",
                {"form": ["zones"]},
            )
        for key in f.zones:
            vector = self.things[key].vector
            assert vector is not None
            if not f.buffer_m and vector.count_of(POLYGONS) < vector.n:
                others = vector.n - vector.count_of(POLYGONS)
                self.warnings.append(f"{others} points or lines of {vector.name} have no inside and are left out.")
        if f.what == "difference" and f.each:
            return self._change_by_zone()
        if f.each:
            return self._each_zone()
        if f.is_outside and len(f.zones) > 1:
            raise RefusalError("Outside of which? Name one file.", "NO_ANSWER", {"form": ["zones"]})
        if f.what == "zone" and f.is_change:
            return self._change_by_zone()
        if f.what == "zone":
            return self._which_zone()
        if f.what in ("compare", "difference") and len(f.zones) > 1:
            return self._between_zones()
        if len(f.zones) != 1:
            raise RefusalError("One area at a time, or which of them is larger.", "NO_ANSWER", {"form": ["zones"]})
        if f.what == "difference" and kind == "statistic" and f.statistic == "mean" and not f.is_relative and f.limit is None:
            return self._zoned_change()
        if f.what == "exists" and kind == "share" and f.limit is None and f.target and not f.change:
            return self._any_in_zone(f.zones[0])
        if f.what not in ("statistic", "area", "share", "exists") or (f.what == "exists" and kind == "share" and f.limit is None):
            raise RefusalError(
                "Inside of polygons I can give a statistic, an area or a share of one image, or the mean change between two: "
                "ask, say, for the area or the share there.",
                "NO_ANSWER",
                {"form": ["what"]},
            )
        if f.change:
            raise RefusalError(
                "Inside of polygons a change is given as its mean; ask for that.", "NO_ANSWER", {"form": ["change"]}
            )
        n = self._zone_step(self._one(), f.zones[0])
        recipe: dict[str, Any] = {"steps": (n,), "unit": self._recipe_unit()}
        phrase = f"{self._phrases()['phrase']}{self._zone_text(f.zones[0])}"
        if f.what == "exists":
            return AnswerRecipe(kind="boolean", options={"op": f.limit_op, "value": f.limit or 0, "phrase": phrase}, **recipe)
        return AnswerRecipe(kind="value", options={"phrase": phrase}, **recipe)

    def _any_in_zone(self, key: str) -> AnswerRecipe:
        """Whether there is any of a target inside of polygons: in pieces of at least EXISTS_MIN_PX pixels in the image, of which
        at least as many pixels lie there. Fewer are noise, or the edge of what lies beside."""
        f, scene, thing = self.form, self._one(), self.things[key]
        title = self.words.title(f.target)
        if f.mask:
            raise RefusalError(
                f"Whether there is any {title} is told by pieces of it, of which clouds are not left out. Ask for its share or "
                "area without clouds.", "NO_ANSWER", {"form": ["mask"]},
            )  # fmt: skip
        self._needs_ground(scene)
        if scene.grid.crs is None or scene.effective_gsd_m is None:
            raise RefusalError(
                "The image has no coordinate system, so polygons of the map have no place on it.", "NEEDS_CRS", {"crs": True}
            )
        self._check_zone(scene, key)
        layer = self._find(scene, f.target, EXISTS_MIN_PX)
        relation = "outside" if f.is_outside else "inside"
        if f.buffer_m:
            relation = "beyond" if f.is_outside else "within"
        spec: dict[str, Any] = {"metric": "area", "subject": f.target, "reference": thing.label, "relation": relation}
        spec |= {"clip": True, "unit": "m2"} | ({"distance_m": f.buffer_m} if f.buffer_m else {})
        source = {"name": f.target, "mode": "regions", "layer": step_reference(layer)}
        phrase = f"Area of {title}{self._zone_text(key)}, in pieces of at least {EXISTS_MIN_PX} pixels"
        n = self._add("measure", {"sources": [source, thing.source(thing.label)], "spec": spec}, f"{phrase}."[:500], (layer,))
        # half a pixel less, since pixels of one grid differ a little in area
        least = float(f"{(EXISTS_MIN_PX - 0.5) * scene.effective_gsd_m ** 2:.6g}")
        self.warnings.append(
            f"Fewer than {EXISTS_MIN_PX} pixels (less than {least:g} m²) there count as none: noise, or a mere edge."
        )
        return AnswerRecipe(kind="boolean", steps=(n,), unit="m2", options={"op": ">=", "value": least, "phrase": phrase})

    def _one_file(self) -> tuple[str, Thing, VectorInfo]:
        """Key, thing and file of the one file of which each polygon gets a row."""
        key = self.form.zones[0]
        thing = self.things[key]
        vector = thing.vector
        assert vector is not None
        if len(self.form.zones) != 1 or thing.name:
            raise RefusalError("A table lists the polygons of one file.", "NO_ANSWER", {"form": ["zones"]})
        return key, thing, vector

    def _check_attribute(self, vector: VectorInfo) -> None:
        if self.form.by and self.form.by not in vector.fields:
            raise RefusalError(f"{vector.name} has no attribute {self.form.by}.", "BAD_ARGUMENT", {"form": ["by"]})

    def _each_zone(self) -> AnswerRecipe:
        """A figure of the image in each polygon of a file, or for each value of an attribute."""
        f = self.form
        key, thing, vector = self._one_file()
        if f.what not in ("statistic", "area", "share") or f.is_outside:
            raise RefusalError(
                "For each polygon I can give a statistic, an area or a share of one image, or their change between two.",
                "NO_ANSWER",
                {"form": ["what"]},
            )
        self._check_attribute(vector)
        self._tell_names(thing)
        if f.change:
            return self._changed_by_zone(key)
        n = self._zone_step(self._one(), key, is_each=True)
        if f.rows_as:
            assert f.limit is not None
            phrase = lowered(str(self._phrases()["phrase"]))
            rows: dict[str, Any] = {"op": f.limit_op, "value": f.limit, "as": f.rows_as, "noun": thing.title, "phrase": phrase}
            return AnswerRecipe(kind="rows_beyond", steps=(n,), unit=self._recipe_unit(), options=rows)
        by = f"each {f.by} in {vector.name}" if f.by else f"each of {thing.title}"
        near = f"within {self._length_text(f.buffer_m)} of" if f.buffer_m else "in"
        return AnswerRecipe(kind="table", steps=(n,), unit=self._recipe_unit(),
                            options={"phrase": f"{self._phrases()['phrase']} {near} {by}"})  # fmt: skip

    def _changed_by_zone(self, key: str) -> AnswerRecipe:
        """In each polygon the area or share where the quantity fell or rose by more than the threshold."""
        f = self.form
        if not f.quantity or f.threshold is None or f.threshold < 0:
            raise RefusalError(
                "A drop or rise of which index, by more than which number?", "NO_ANSWER", {"form": ["quantity", "threshold"]}
            )
        before, after = self._two()
        self._check_zone(before, key)
        outlines = self.things[key].zones(buffer_m=f.buffer_m, dissolve=False)
        if f.by:
            outlines |= {"name": f.by, "group": True}
        params: dict[str, Any] = {"statistic": f.what}
        if f.what == "area":
            self._needs_ground(before)
            params["unit"] = self._area_unit()
        arguments = []
        ways: tuple[dict[str, Any], ...] = ({}, {"resample": "bilinear"})
        for how in ways:
            nodes = self._difference_nodes(before, after, how)
            nodes.append({"id": "mask", "op": "raster.product.threshold", "inputs": ["difference"], "params": self._threshold()})
            nodes.append({"id": "zones", "op": "vector.zones", "params": outlines})
            arguments.append(
                self._graph(nodes, {"op": "raster.summarize.zonal", "inputs": ["mask", "zones"], "params": params})
            )
        verb, more = "fell" if f.change == "drop" else "rose", "at least" if f.is_closed else "more than"
        what = f"where {self.words.title(f.quantity)} {verb} by {more} {f.threshold:g} from {day_of(before)} to {day_of(after)}"
        title = "Area" if f.what == "area" else "Share of the area"
        phrase = f"{title} {what}{self._zone_text(key)}"
        n = self._add("execute", arguments[0], f"{phrase}."[:500], alternatives=arguments[1:])
        return AnswerRecipe(kind="table", steps=(n,), unit=self._recipe_unit(), options={"phrase": phrase})

    def _change_by_zone(self) -> AnswerRecipe:
        """The change between two dates in each polygon, or the polygon with the greatest. Means are those of the change of each
        pixel; areas and shares are measured at both dates, each row a figure less another."""
        f, kind = self.form, self.measured()
        key, thing, vector = self._one_file()
        if f.is_relative or f.is_outside or f.change or f.limit is not None:
            raise RefusalError(
                "By polygon I give the change of a mean, an area or a share, in its own unit.", "NO_ANSWER", {"form": ["what"]}
            )
        self._check_attribute(vector)
        if kind == "statistic" and f.statistic != "mean":
            raise RefusalError(
                f"By polygon I give the change of the mean, not of the {f.statistic}.", "NO_ANSWER", {"form": ["statistic"]}
            )
        self._tell_names(thing)
        before, after = self._two()
        for scene in (before, after):
            self._check_zone(scene, key)
        span = f"from {day_of(before)} to {day_of(after)}"
        where = self._zone_text(key) if f.each else f" in each of {thing.title}"
        if kind == "statistic":
            title = f"Mean change of {self.words.title(f.quantity)} {span}"
            steps: tuple[int, ...] = (self._difference_by_zone(before, after, key, f"{title}{where}."),)
            options: dict[str, Any] = {"phrase": f"{title}{where}", "signed": True}
        else:
            if f.target and self._target_methods(before, f.target)[0].threshold == "otsu":
                self.warnings.append("The threshold is computed for each date by itself, so a part of the change may be its own.")
            steps = tuple(self._zone_step(scene, key, is_each=True) for scene in (before, after))
            title = f"Change of the {lowered(str(self._phrases()['phrase']))} {span}"
            options = {"phrase": f"{title}{where}", "signed": True}
        if f.each:
            return AnswerRecipe(kind="table", steps=steps, unit=self._recipe_unit(), options=options)
        word = "largest" if f.pick == "max" else "smallest"
        if f.rank > 1:
            word = f"{ordinal(f.rank)} {word}"
        if f.change_sign and f.pick == "max" and f.rank == 1:
            word = "greatest loss" if f.change_sign == "drop" else "greatest gain"
        is_signed = word.startswith("greatest")
        phrase = f"{word}: {lowered(title)}" if is_signed else f"{word} {lowered(title)}"
        options |= {"phrase": phrase, "pick": f.pick, "rank": f.rank, "top": f.top, "change_sign": f.change_sign}
        return AnswerRecipe(kind="zone", steps=steps, unit=self._recipe_unit(), options=options)

    def _difference_by_zone(self, before: SceneInfo, after: SceneInfo, key: str, why: str) -> int:
        """A step with the mean change of each polygon."""
        f = self.form
        outlines = self.things[key].zones(buffer_m=f.buffer_m, dissolve=False)
        if f.by:
            outlines |= {"name": f.by, "group": True}
        zones = {"id": "zones", "op": "vector.zones", "params": outlines}
        arguments = [
            self._graph(
                [*self._difference_nodes(before, after, params), zones],
                {"op": "raster.summarize.zonal", "inputs": ["difference", "zones"], "params": {"statistic": "mean"}},
            )
            for params in ({}, {"resample": "bilinear"})
        ]
        return self._add("execute", arguments[0], why[:500], alternatives=arguments[1:])

    def _zone_text(self, key: str) -> str:
        if self.form.each:
            near = f"within {self._length_text(self.form.buffer_m)} of" if self.form.buffer_m else "in"
            return f" {near} each of {self.things[key].title}"
        if self.form.is_outside:
            far = f"farther than {self._length_text(self.form.buffer_m)} from" if self.form.buffer_m else "outside of"
            return f" {far} {self.things[key].title}"
        near = f" within {self._length_text(self.form.buffer_m)} of" if self.form.buffer_m else " inside"
        return f"{near} {self.things[key].title}"

    def _zone_step(self, scene: SceneInfo, key: str, *, pick: str = "", is_each: bool = False) -> int:
        """One summary by zones: of one zone made of all polygons, or the polygon with the extreme."""
        f, kind = self.form, self.measured()
        if kind == "area":
            self._needs_ground(scene)
        if scene.grid.crs is None:
            raise RefusalError(
                "The image has no coordinate system, so polygons of the map have no place on it.", "NEEDS_CRS", {"crs": True}
            )
        self._check_zone(scene, key)
        several = bool(pick) or is_each or f.is_outside
        outlines = self.things[key].zones(buffer_m=f.buffer_m, dissolve=not several)
        if f.is_outside:
            outlines["outside"] = True
        if (is_each or pick) and f.by:
            outlines |= {"name": f.by, "group": True}
        zones = {"id": "zones", "op": "vector.zones", "params": outlines}
        params: dict[str, Any] = {"statistic": f.statistic if kind == "statistic" else kind}
        if kind == "area":
            params["unit"] = self._area_unit()
        if pick:
            params["pick"] = pick
        if kind == "statistic":
            nodes, last = self._quantity_nodes(scene)
            graphs = [nodes]
        elif f.target:
            graphs, last = self._target_nodes(scene, f.target), "mask"
        else:
            nodes, q = self._quantity_nodes(scene)
            graphs, last = [[*nodes, *self._mask_nodes(q)]], "mask"
        arguments = [
            self._graph([*nodes, zones], {"op": "raster.summarize.zonal", "inputs": [last, "zones"], "params": params})
            for nodes in graphs
        ]
        at = f" of {day_of(scene)}" if scene.acquired_at else ""
        why = f"{self._phrases()['phrase']}{at}{self._zone_text(key)}, by pixel centres"
        if is_each:
            why = f"{self._phrases()['phrase']}{at} in each of {self.things[key].title}, by pixel centres"
        if pick:
            extreme = "highest" if pick == "max" else "lowest"
            why = f"{self._phrases()['phrase']}{at} of each of {self.things[key].title}; the {extreme}"
        return self._add("execute", arguments[0], f"{why}."[:500], alternatives=arguments[1:])

    def _check_zone(self, scene: SceneInfo, key: str) -> None:
        """Refused before any tool runs where a file surely lies beside the image."""
        vector = self.things[key].vector
        assert vector is not None
        west, south, east, north = vector.bounds
        ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
        if not self.form.buffer_m and is_apart({"type": "Polygon", "coordinates": [ring]}, scene):
            raise RefusalError(
                f"{vector.name} lies outside of the image: it reaches from {west:.4g}, {south:.4g} to {east:.4g}, {north:.4g} "
                "degrees. Choose another file or image.",
                "BAD_REGION",
                {"vectors": [vector.file_id], "scenes": [scene.scene_id]},
            )

    def _which_zone(self) -> AnswerRecipe:
        f = self.form
        key = f.zones[0]
        vector = self.things[key].vector
        assert vector is not None
        if len(f.zones) != 1 or self.things[key].name or vector.n < 2:
            raise RefusalError("Which polygon of which file? Name a file with several.", "NO_ANSWER", {"form": ["zones"]})
        if not vector.name_field:
            self.warnings.append(f"No attribute of {vector.name} names its features, so they are called by their number.")
        is_first = f.rank == 1 and f.top == 1
        n = self._zone_step(self._one(), key, pick=f.pick) if is_first else self._zone_step(self._one(), key, is_each=True)
        word = {"area": ("largest", "smallest"), "share": ("largest", "smallest")}.get(self.measured(), ("highest", "lowest"))
        phrase = f"{word[0] if f.pick == 'max' else word[1]} {lowered(str(self._phrases()['phrase']))}"
        options: dict[str, Any] = {"phrase": phrase}
        if not is_first:
            options |= {"phrase": f"{ordinal(f.rank)} {phrase}" if f.rank > 1 else phrase, "pick": f.pick, "rank": f.rank}
            options |= {"top": f.top}
        return AnswerRecipe(kind="zone", steps=(n,), unit=self._recipe_unit(), options=options)

    def _between_zones(self) -> AnswerRecipe:
        """Two or more named areas, each measured by itself, then compared or subtracted."""
        f, kind = self.form, self.measured()
        scene = self._one()
        steps = tuple(self._zone_step(scene, key) for key in f.zones)
        labels = [self.things[k].label for k in f.zones]
        phrase = lowered(str(self._phrases()["phrase"]))
        if f.what == "difference":
            if len(f.zones) != 2:
                raise RefusalError("A difference is that of two areas.", "NO_ANSWER", {"form": ["zones"]})
            told = f"{self._phrases()['phrase']}: {labels[1]} less {labels[0]}"
            return AnswerRecipe(
                kind="difference", steps=steps, unit=self._recipe_unit(), options={"phrase": told, "labels": [*labels]}
            )
        stem = "high" if kind == "statistic" else "larg"
        word = f"{stem if f.pick == 'max' else 'low' if kind == 'statistic' else 'small'}{'est' if len(labels) > 2 else 'er'}"
        options: dict[str, Any] = {"pick": f.pick, "labels": [*labels], "phrase": phrase}
        options["word"] = f"the {word}" if len(labels) > 2 else word
        return AnswerRecipe(kind="compare", steps=steps, unit=self._recipe_unit(), options=options)

    def _zoned_change(self) -> AnswerRecipe:
        """Mean change between two dates inside of polygons."""
        f = self.form
        before, after = self._two()
        key = f.zones[0]
        self._check_zone(before, key)
        zones = {"id": "zones", "op": "vector.zones", "params": self.things[key].zones(buffer_m=f.buffer_m)}
        arguments = [
            self._graph(
                [*self._difference_nodes(before, after, params), zones],
                {"op": "raster.summarize.zonal", "inputs": ["difference", "zones"], "params": {"statistic": "mean"}},
            )
            for params in ({}, {"resample": "bilinear"})
        ]
        title = self.words.title(f.quantity)
        phrase = f"Mean change of {title} from {day_of(before)} to {day_of(after)}{self._zone_text(key)}"
        n = self._add("execute", arguments[0], f"{phrase}."[:500], alternatives=arguments[1:])
        return AnswerRecipe(kind="value", steps=(n,), options={"phrase": phrase, "signed": True})
