"""Questions about the image: statistics, areas, shares, counts, dates, changes, trends, distances and comparisons."""

from __future__ import annotations

from typing import Any

from apps.agent.planner.can_do import can_do
from apps.agent.planner.facts import class_value, date_of, day_of, labels_of, lowered
from apps.agent.planner.fields import EXISTS_MIN_PX, RefusalError
from apps.agent.planner.steps import StepMaker
from apps.agent.units import dimension
from apps.core.evidence.plan import AnswerRecipe
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import step_reference


class ImagePlans(StepMaker):
    """What is asked of the image as a whole or of a drawn region."""

    def _check_names(self) -> None:
        f = self.form
        if f.quantity and f.quantity not in self.words.indices and f.quantity not in self.words.bands:
            raise RefusalError(f"There is no index or band called {f.quantity!r} here.", "BAD_ARGUMENT", {"form": ["quantity"]})
        for name, field in ((f.target, "target"), (f.reference, "reference"), *((o, "others") for o in f.others)):
            if name in self.things:
                raise RefusalError(
                    "A vector file or a place is measured, compared with things, or taken as zones of an image.",
                    "NO_ANSWER",
                    {"form": [field]},
                )
            if name and name not in self.words.targets and name not in self.words.objects and not class_value(name):
                raise RefusalError(f"I do not know how to find {name!r}.", "BAD_ARGUMENT", {"form": [field]})
        if not f.quantity and not f.target:
            raise RefusalError(
                "What is meant: an index or band, or something on the ground? " + can_do(self.question.text),
                "NO_ANSWER",
                {"form": ["quantity", "target"]},
            )
        needs_target = f.what in ("count", "distance") or (self.measured() == "count" and f.what != "date")
        if needs_target and not f.target:
            raise RefusalError("Of what? Name the objects, vehicles or trees for example.", "NO_ANSWER", {"form": ["target"]})
        if self.measured() == "count" and f.target not in self.words.objects:
            raise RefusalError(
                f"I can count objects, but {self.words.title(f.target)} is a surface: ask for its area or share.",
                "NO_ANSWER",
                {"form": ["what"]},
            )
        if self.measured() == "statistic" and not f.quantity:
            raise RefusalError(f"A {f.statistic} of what? Name an index or a band.", "NO_ANSWER", {"form": ["quantity"]})
        if f.what == "exists" and self.measured() == "statistic" and f.limit is None:
            raise RefusalError(
                f"Whether {self.words.title(f.quantity)} is above or below which number?", "NO_ANSWER", {"form": ["limit"]}
            )
        if self.measured() == "statistic" and (f.target or f.threshold is not None):
            raise RefusalError(
                "A statistic of one part of the scene only is not computed yet: draw a region, or ask for an area or a share.",
                "NO_ANSWER",
                {"form": ["target", "threshold"]},
            )
        if f.upper is not None and (f.threshold is None or f.upper < f.threshold or f.change or f.target):
            raise RefusalError("From which number to which, of which index?", "BAD_ARGUMENT", {"form": ["threshold", "upper"]})
        if f.limit is not None and f.what not in ("exists", "difference") and not f.rows_as:
            raise RefusalError("A limit belongs to a question of yes or no.", "BAD_ARGUMENT", {"form": ["limit"]})
        if self.measured() in ("area", "share"):
            if f.quantity and not f.target and f.threshold is None:
                raise RefusalError(
                    f"{self.words.title(f.quantity)} above or below which number?", "NO_ANSWER", {"form": ["threshold"]}
                )
            for name in (f.target, f.reference, *f.others) if f.what != "distance" else ():
                if name in self.words.objects:
                    raise RefusalError(
                        f"I can find and count {self.words.title(name)}, but boxes are no outlines, so their area would "
                        "be wrong. Ask how many there are.",
                        "NO_ANSWER",
                        {"form": ["what"]},
                    )
        if f.is_not and (f.what not in ("area", "share") or f.change or f.target not in self.words.targets):
            raise RefusalError(
                "What is not something is told as its area or its share, where an index tells it: of a class ask for the share "
                "of the class itself, and the rest is what is not.",
                "NO_ANSWER",
                {"form": ["what"]},
            )
        if f.unit:
            wanted = {"area": ("area",), "share": ("number",), "distance": ("length",)}
            asked = "distance" if f.what == "distance" else self.measured() if f.what not in ("date", "compare", "exists") else ""
            if asked in wanted and dimension(f.unit) not in wanted[asked]:
                raise RefusalError(
                    f"{f.unit!r} is not a unit of {'an ' if asked == 'area' else 'a '}{asked}.",
                    "BAD_ARGUMENT",
                    {"form": ["unit"]},
                )
            if self.measured() == "statistic" and not self._is_unit_of_quantity(f.unit):
                title = self.words.title(f.quantity)
                raise RefusalError(
                    f"{title[:1].upper()}{title[1:]} is not given in {f.unit!r} here; ask for it in its own unit.",
                    "BAD_ARGUMENT",
                    {"form": ["unit"]},
                )

    def _is_unit_of_quantity(self, unit: str) -> bool:
        """Whether a statistic may be asked for in ``unit``: rates for trends, metres for elevation, degrees for temperatures."""
        if self.form.what == "trend":
            return dimension(unit) in ("rate", "number")
        if (self.form.quantity, unit) == ("elevation", "m"):
            return True
        return unit == "1" or dimension(unit) not in ("area", "length", "number")

    def _statistic(self) -> AnswerRecipe:
        f = self.form
        scenes = self._in_dates(self._capable())
        title = self._title()
        if len(scenes) == 1:
            n = self._measure(scenes[0])
            self._clouds(scenes, when=f.statistic == "min")
            return AnswerRecipe(kind="value", steps=(n,), options={"phrase": title})
        scenes = self._series(2)
        over = f.statistic if f.statistic in ("min", "max") else "mean"
        n = self._series_step(scenes, {"statistic": f.statistic, "over": over}, f"{title} of each of {len(scenes)} dates.")
        self.understood += (
            f" The images are of {len(scenes)} dates: the {f.statistic} is taken of each, and the {over} over the dates."
        )
        self._clouds(scenes, when=f.statistic == "min")
        span = f"({day_of(scenes[0])} to {day_of(scenes[-1])})"
        phrase = f"{title} of the series {span}"
        if f.statistic in ("median", "std"):
            phrase = f"Mean over the dates of the {lowered(title)} {span}"
        return AnswerRecipe(kind="value", steps=(n,), options={"phrase": phrase})

    def _single(self) -> AnswerRecipe:
        scene = self._one()
        n = self._measure(scene)
        return AnswerRecipe(kind="value", steps=(n,), unit=self._recipe_unit(), options=self._phrases())

    def _changed(self) -> AnswerRecipe:
        """Area or share where the quantity fell or rose by more than the threshold."""
        f = self.form
        if not f.quantity or f.threshold is None or f.threshold < 0:
            raise RefusalError(
                "A drop or rise of which index, by more than which number?", "NO_ANSWER", {"form": ["quantity", "threshold"]}
            )
        before, after = self._two()
        self._check_region(before, after)
        if f.what == "area":
            self._needs_ground(before)
        arguments = []
        for params in ({}, {"resample": "bilinear"}):
            nodes = self._difference_nodes(before, after, params)
            nodes.append({"id": "mask", "op": "raster.product.threshold", "inputs": ["difference"], "params": self._threshold()})
            out = (
                {"op": "raster.summarize.area", "inputs": ["mask"], "params": {"unit": self._area_unit()}}
                if f.what == "area"
                else {"op": "raster.summarize.share", "inputs": ["mask"], "params": {}}
            )
            arguments.append(self._graph(nodes, out))
        title = self.words.title(f.quantity)
        verb = "fell" if f.change == "drop" else "rose"
        more = "at least" if f.is_closed else "more than"
        what = f"where {title} {verb} by {more} {f.threshold:g} from {day_of(before)} to {day_of(after)}"
        n = self._add("execute", arguments[0], f"{f.what.capitalize()} {what}.", alternatives=arguments[1:])
        return AnswerRecipe(
            kind="value",
            steps=(n,),
            unit=self._recipe_unit(),
            options={"phrase": f"Area {what}" if f.what == "area" else f"Share of the area {what}"},
        )

    def _exists(self) -> AnswerRecipe:
        f, kind = self.form, self.measured()
        scene = self._one()
        options: dict[str, Any] = {"op": f.limit_op, "value": f.limit if f.limit is not None else 0, **self._phrases()}
        if kind == "share" and f.target and f.limit is None:
            if f.mask:
                raise RefusalError(
                    f"Whether there is any {self.words.title(f.target)} is told by pieces of it, of which clouds are not left "
                    "out. Ask for its share or area without clouds.",
                    "NO_ANSWER",
                    {"form": ["mask"]},
                )
            layer = self._find(scene, f.target, EXISTS_MIN_PX)
            n = self._add(
                "measure",
                {
                    "sources": [{"name": f.target, "mode": "regions", "layer": step_reference(layer)}],
                    "spec": {"metric": "ratio", "subject": f.target, "denominator": "valid", "unit": "1"},
                },
                f"Share of the valid pixels that is {self.words.title(f.target)}, in pieces of at least {EXISTS_MIN_PX} pixels.",
                (layer,),
            )
        else:
            n = self._measure(scene)
        return AnswerRecipe(kind="boolean", steps=(n,), unit=self._recipe_unit(), options=options)

    def _date(self) -> AnswerRecipe:
        f = self.form
        scenes = self._series(2)
        word = "highest" if f.pick == "max" else "lowest"
        if self.measured() == "statistic":
            title = self._title()
            n = self._series_step(
                scenes, {"statistic": f.statistic, "pick": f.pick}, f"{title} of each date; the {word} is picked."
            )
            return AnswerRecipe(kind="date", steps=(n,), options={"phrase": f"The date with the {word} {lowered(title)}"})
        steps = tuple(self._measure(s) for s in scenes)
        word = "largest" if f.pick == "max" else "smallest"
        return AnswerRecipe(
            kind="compare",
            steps=steps,
            unit=self._recipe_unit(),
            options={
                "pick": f.pick,
                "labels": [day_of(s) for s in scenes],
                "word": f"the date with the {word} value",
                "phrase": lowered(str(self._phrases()["phrase"])),
            },
        )

    def _difference(self) -> AnswerRecipe:
        f = self.form
        before, after = self._two()
        span = f"from {day_of(before)} to {day_of(after)}"
        if self.measured() == "statistic" and f.statistic == "mean" and not f.is_relative:
            self._check_region(before, after)
            arguments = [
                self._graph(
                    self._difference_nodes(before, after, params),
                    {"op": "raster.summarize.statistic", "inputs": ["difference"], "params": {"statistic": "mean"}},
                )
                for params in ({}, {"resample": "bilinear"})
            ]
            title = self.words.title(f.quantity)
            n = self._add(
                "execute",
                arguments[0],
                f"Mean of {title} of {day_of(after)} minus {day_of(before)}, over pixels valid at both.",
                alternatives=arguments[1:],
            )
            if f.limit is not None:
                options: dict[str, Any] = {"phrase": f"Mean change of {title} {span}", "op": f.limit_op, "value": f.limit}
                return AnswerRecipe(kind="boolean", steps=(n,), options=options)
            return AnswerRecipe(kind="value", steps=(n,), options={"phrase": f"Mean change of {title} {span}", "signed": True})
        if f.limit is not None:
            raise RefusalError(
                "Whether a change is larger than a number is answered for the mean of an index or band only.",
                "NO_ANSWER",
                {"form": ["limit"]},
            )
        steps = (self._measure(before), self._measure(after))
        phrase = lowered(str(self._phrases()["phrase"]))
        return AnswerRecipe(
            kind="difference",
            steps=steps,
            unit=self._recipe_unit(),
            options={
                "phrase": f"Change of the {phrase} {span}",
                "labels": [day_of(before), day_of(after)],
                "relative": f.is_relative,
            },
        )

    def _trend(self) -> AnswerRecipe:
        f = self.form
        if self.measured() != "statistic":
            raise RefusalError(
                "A trend is computed of an index or band, not of an area or count yet.", "NO_ANSWER", {"form": ["quantity"]}
            )
        scenes = self._series(3)
        title = self._title()
        n = self._series_step(
            scenes,
            {"statistic": f.statistic, "method": "linear"},
            f"Linear trend of the {lowered(title)} of {len(scenes)} dates, with its 95 % interval.",
            "raster.summarize.trend",
        )
        return AnswerRecipe(
            kind="value",
            steps=(n,),
            unit=f.unit if dimension(f.unit) == "rate" else "1",
            options={"phrase": f"Trend of the {lowered(title)} from {day_of(scenes[0])} to {day_of(scenes[-1])}", "signed": True},
        )

    def _distance(self) -> AnswerRecipe:
        f = self.form
        if not f.reference:
            raise RefusalError("The distance from what to what? Name two things.", "NO_ANSWER", {"form": ["reference"]})
        if f.target == f.reference:
            raise RefusalError(
                "The distance between things of one kind is not measured yet; name two kinds.",
                "NO_ANSWER",
                {"form": ["reference"]},
            )
        scene = self._one()
        self._check_region(scene)
        self._needs_ground(scene)
        sources = []
        layers = []
        for name in (f.target, f.reference):
            layers.append(self._find(scene, name))
            source: dict[str, Any] = {
                "name": name,
                "mode": "objects" if name in self.words.objects else "regions",
                "layer": step_reference(layers[-1]),
            }
            if scene.grid.crs is None and scene.effective_gsd_m is not None:
                source["gsd_m"] = scene.effective_gsd_m
            sources.append(source)
        unit = f.unit or "m"
        one, other = self.words.title(f.target), self.words.title(f.reference)
        phrase = {
            "minimum": f"Shortest distance between {one} and {other}",
            "mean": f"Mean distance from each of {one} to the nearest of {other}",
            "maximum": f"Longest distance from each of {one} to the nearest of {other}",
            "farthest": f"Distance of the pair farthest apart of {one} and {other}",
        }[f.distance_statistic]
        n = self._add(
            "measure",
            {
                "sources": sources,
                "spec": {
                    "metric": "distance",
                    "subject": f.target,
                    "reference": f.reference,
                    "distance_statistic": f.distance_statistic,
                    "unit": unit,
                },
            },
            f"{phrase}, edge to edge.",
            layers,
        )
        return AnswerRecipe(kind="value", steps=(n,), unit=unit, options={"phrase": phrase})

    def _compare(self) -> AnswerRecipe:
        f, kind = self.form, self.measured()
        stem = {"area": ("larg", "small"), "share": ("larg", "small"), "count": ("great", "small"), "statistic": ("high", "low")}[
            kind
        ]
        more, most = f"{stem[f.pick == 'min']}er", f"the {stem[f.pick == 'min']}est"
        word = most if f.others else more
        options: dict[str, Any] = {"pick": f.pick, "word": word}
        if f.reference:
            names = [f.target, f.reference, *f.others]
            if kind == "statistic" or any((kind == "count") != (n in self.words.objects) for n in names):
                raise RefusalError(
                    "These two cannot be compared: one is counted, the other measured.",
                    "NO_ANSWER",
                    {"form": ["target", "reference"]},
                )
            scene = self._one()
            steps = tuple(self._measure(scene, name) for name in names)
            labels = [self._label(n) for n in names]
            options |= {"labels": labels, "phrase": {"area": "area", "share": "share of the area", "count": "number"}[kind]}
        else:
            scenes = self._compared_scenes()
            labels = labels_of(scenes)
            options["word"] = most if len(scenes) > 2 else more
            steps = tuple(self._measure(s) for s in scenes)
            options |= {"labels": labels, "phrase": lowered(str(self._phrases()["phrase"]))}
        return AnswerRecipe(kind="compare", steps=steps, unit=self._recipe_unit(), options=options)

    def _compared_scenes(self) -> list[SceneInfo]:
        capable = self._capable()
        scenes = self._in_dates(capable)
        if len(scenes) < 2:
            raise RefusalError("A comparison needs two images, two dates or two targets.", "NO_ANSWER", {"scenes": True})
        return sorted(scenes, key=date_of) if all(s.acquired_at for s in scenes) else scenes
