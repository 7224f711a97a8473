"""Questions about things: files, features, places and objects, chosen by their relations, cut at others, or listed one by one."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from apps.agent.planner.facts import ordinal
from apps.agent.planner.fields import EXISTS_MIN_PX, RELATION_WORDS, RefusalError, Where
from apps.agent.planner.thing_checks import ThingChecks
from apps.agent.planner.things import Thing
from apps.core.evidence.plan import AnswerRecipe
from apps.core.units import UNITS
from apps.tools.contract import step_reference

_OF_ONE = {"have": "has", "touch": "touches", "overlap": "overlaps", "do": "does", "lie": "lies"}


def _clause(said: str, *, is_one: bool) -> str:
    """A condition with its verb: 'with an area …' → 'have an area …', 'that touch …' → 'touch …', 'north of …' → 'lie north
    of …'; of one 'has', 'touches', 'lies'.
    """
    text = f"have {said[5:]}" if said.startswith("with ") else said.removeprefix("that ")
    verb, _, rest = text.partition(" ")
    if verb not in _OF_ONE:
        verb, rest = "lie", text
    return f"{_OF_ONE[verb] if is_one else verb} {rest}"


def _of_one(said: str) -> str:
    """' that touch the road' → ' that touches the road'."""
    return re.sub(rf"\bthat ({'|'.join(_OF_ONE)})\b", lambda m: f"that {_OF_ONE[m[1]]}", said)


def _names_of(thing: Thing) -> tuple[str, ...]:
    """The names of the features that a thing is, where it is named by them."""
    if thing.name or thing.vector is None:
        return (thing.name,) if thing.name else ()
    return thing.vector.part_values if thing.vector.part_field == thing.vector.name_field else ()


class ThingPlans(ThingChecks):
    """What ``measure`` answers from the things themselves."""

    def _least_px(self) -> int:
        """Pieces of fewer pixels are noise where single pieces are looked at."""
        f = self.form
        is_single = f.each == "target" or bool(f.over and f.over != "maximum") or any(w.figure for w in f.where)
        return EXISTS_MIN_PX if is_single else 0

    def _related(self) -> AnswerRecipe:
        """A figure of the target, chosen by its relation to the reference or by its distance from it."""
        f = self.form
        keys = self._keys_named()
        in_image = [k for k in keys if k not in self.things or self.things[k].px is not None]
        scene = self._one() if in_image else None
        if scene is not None:
            self._check_region(scene)
        relations = {f.relation, *(w.relation for w in f.where)}
        is_metric = f.clip or f.what in ("area", "distance", "length", "density", "zone") or any(w.figure for w in f.where)
        is_metric = is_metric or bool(relations & {"within", "beyond", "nearest"})
        if scene is not None and is_metric:
            self._needs_ground(scene)
        if scene is not None and scene.grid.crs is None and any(k in self.things and self.things[k].px is None for k in keys):
            raise RefusalError(
                "The image has no coordinate system, so it cannot be brought together with places on the map.",
                "NEEDS_CRS",
                {"crs": True},
            )
        sources: list[dict[str, Any]] = []
        layers: list[int] = []
        names: dict[str, str] = {}
        for key in keys:
            thing = self.things.get(key)
            label = thing.label if thing is not None else key
            name = names[key] = label if label not in names.values() else f"{label[:70]} {len(names) + 1}"
            if thing is not None:
                sources.append(thing.source(name) | self._rows_named(key) | self._left_out(key))
                continue
            assert scene is not None
            layers.append(self._find(scene, key, self._least_px() if key == f.target else 0))
            mode = "objects" if key in self.words.objects else "regions"
            source: dict[str, Any] = {"name": name, "mode": mode, "layer": step_reference(layers[-1])}
            if scene.grid.crs is None and scene.effective_gsd_m is not None:
                source["gsd_m"] = scene.effective_gsd_m
            sources.append(source)
        spec = self._spec(names)
        phrase = self._related_phrase()
        n = self._add("measure", {"sources": sources, "spec": spec}, f"{phrase}."[:500], layers)
        unit = {"count": "1", "exists": "1", "density": spec.get("unit", "1/km2")}.get(f.what, f.unit)
        options: dict[str, Any] = {"phrase": phrase}
        if f.what == "zone":
            options["phrase"] = self._picked_phrase()
            listing = self.things.get(f.target if f.each == "target" else f.reference)
            listed = listing.vector if listing is not None else None
            options["noun"] = f"values of {f.by}" if f.by else listed.noun if listed is not None else self._found_noun(f.target)
            if f.top > 1 or f.rank > 1:
                options |= {"top": f.top, "pick": f.pick}
            return AnswerRecipe(kind="zone", steps=(n,), unit=str(spec["unit"]), options=options)
        if f.each and f.is_named:
            listing = self.things[f.target]
            noun = listing.vector.noun if listing.vector is not None else "features"
            options = {"names": True, "noun": f"{noun} of {listing.label}{self._where_text()}"}
            if listing.vector is None or listing.vector.is_n_known:
                options["n"] = listing.n
            return AnswerRecipe(kind="table", steps=(n,), unit=str(spec["unit"]), options=options)
        if f.each:
            return AnswerRecipe(kind="table", steps=(n,), unit=str(spec["unit"]), options=options)
        if f.what == "exists":
            is_area = f.of == "area"
            value: float = f.limit if f.limit is not None else 0
            options |= {"op": f.limit_op, "value": value}
            if not is_area:
                options |= {"noun": self._subject_noun(), "noun_one": self._subject_noun(is_one=True)}
            return AnswerRecipe(kind="boolean", steps=(n,), unit=(f.unit or "m2") if is_area else "1", options=options)
        if f.what == "count":
            options |= {"noun": self._subject_noun(), "noun_one": self._subject_noun(is_one=True)}
        default = {"area": self._things_unit("area"), "distance": "m", "length": self._things_unit("length")}.get(f.what, "1")
        return AnswerRecipe(kind="value", steps=(n,), unit=unit or default, options=options)

    def _things_unit(self, what: str) -> str:
        """The unit of an area or a length where the words name none: fit for the size of a file's features."""
        f, thing = self.form, self.things.get(self.form.target)
        plain = {"area": "km2", "length": "m"}[what]
        if f.unit or thing is None or thing.vector is None:
            return f.unit or plain
        west, south, east, north = thing.vector.bounds
        height_km = 111.2 * (north - south)
        width_km = 111.3 * (east - west) * math.cos(math.radians((south + north) / 2))
        each_km2 = width_km * height_km / max(1, thing.vector.n)
        if what == "length":
            return "km" if max(width_km, height_km) > 100 else "m"
        return "km2" if each_km2 >= 1 else "ha" if each_km2 >= 0.01 else "m2"

    def _found_noun(self, key: str) -> str:
        """'ships', 'pieces of water'."""
        return self._thing_title(key) if key in self.words.objects else f"pieces of {self._thing_title(key)}"

    def _rows_named(self, key: str) -> dict[str, Any]:
        """For a source whose features are listed: the attribute that names the rows."""
        f = self.form
        if not f.each or key != (f.target if f.each == "target" else f.reference):
            return {}
        vector = self.things[key].vector
        named = f.by or (vector.name_field if vector is not None else "")
        return {"name_field": named} if named else {}

    def _left_out(self, key: str) -> dict[str, Any]:
        """Of a file whose features are chosen by their relation to one of its own: all but that one. What is cut is ground, and
        nothing of it is left out."""
        f = self.form
        mine = self.things.get(key)
        if key != f.target or mine is None or mine.vector is None or mine.name or f.clip or not mine.vector.name_field:
            return {}
        others = [self.things.get(k) for k in (f.reference, *(w.reference for w in f.where))]
        same = [o for o in others if o is not None and o.vector is not None and o.vector.file_id == mine.vector.file_id]
        names = [n for o in same for n in _names_of(o)]
        if not names:
            return {}
        told = " and ".join(dict.fromkeys(names))
        self.warnings.append(f"{told} {'itself is' if len(set(names)) == 1 else 'themselves are'} not among them.")
        return {"name_field": mine.vector.name_field, "without": list(dict.fromkeys((*mine.vector.part_without, *names)))}

    def _spec(self, names: dict[str, str]) -> dict[str, Any]:
        f = self.form
        what = f.of if f.what == "zone" else f.what
        metric = {"exists": "area" if f.of == "area" else "count", "share": "ratio"}.get(what, what)
        out: dict[str, Any] = {"metric": metric, "subject": names[f.target]}
        if f.reference:
            out["reference"] = names[f.reference]
        if f.relation:
            out["relation"] = f.relation
            if f.relation in ("within", "beyond"):
                out["distance_m"] = f.relation_m
            if f.relation == "nearest":
                out["nearest_k"] = f.nearest_k
            if f.others:
                out["others"] = [names[k] for k in f.others]
        if f.length_of:
            out["length_of"] = f.length_of
        elif metric == "length" and f.over and f.target in self.words.objects:
            out["length_of"] = "extent"
        if f.where:
            out["where"] = [self._condition_of(w, names) for w in f.where]
        if f.over:
            out["statistic"] = f.over
        unit = {"area": self._things_unit("area"), "distance": f.unit or "m", "length": self._things_unit("length"),
                "density": f.unit or "1/km2"}  # fmt: skip
        out["unit"] = unit.get(metric, "1")
        if metric == "area" and f.what == "exists":
            out["unit"] = f.unit or "m2"
        if f.what == "distance":
            out["distance_statistic"] = f.distance_statistic
        if f.clip:
            out["clip"] = True
        if f.each:
            out["each"] = names[f.target if f.each == "target" else f.reference]
            if f.what == "zone":
                out["pick"] = f.pick
                if f.rank > 1:
                    out["rank"] = f.rank
        if what == "share" and f.clip:
            # "the share of the district that is covered by …" is one of the reference; else one of the target itself
            of_reference = bool(f.each) or f.denominator == "reference"
            out |= {"denominator": "reference" if of_reference else "subject", "of": "length" if f.of == "length" else "area"}
        elif what == "share":
            subject = self.things.get(f.target)
            is_surface = subject is None and f.target not in self.words.objects and not f.where
            out |= {"denominator": "subject", "of": "area" if is_surface else "count"}
        if f.what == "ratio":
            out |= {"denominator": "reference", "of": f.of or "count"}
        if what == "density":
            of_reference = bool(f.reference) and f.relation == "inside"
            out |= {"of": "count", "denominator": "reference" if of_reference else "valid"}
        return out

    # --- words -----------------------------------------------------------------------------------------------------------------
    def _condition_of(self, w: Where, names: dict[str, str]) -> dict[str, Any]:
        """A condition as ``measure`` takes it."""
        if w.pick:
            return {"figure": w.figure, "pick": w.pick}
        if w.figure:
            unit = w.unit or ("m2" if w.figure == "area" else "m")
            out: dict[str, Any] = {"figure": w.figure, "op": w.op, "value": w.value, "unit": unit}
            return out | ({"is_given": True} if w.is_given else {})
        out = {"relation": w.relation, "reference": names[w.reference]}
        return out | ({"distance_m": w.relation_m} if w.relation in ("within", "beyond") else {})

    def _where_text(self, *, is_own: bool = False) -> str:
        """' with an area of more than 200 m² and north of lake.geojson'; ``is_own``: with the relation that is none of them."""
        return self._text_of_conditions(self.form.where, is_own=is_own)

    def _text_of_conditions(self, where: Sequence[Where], *, is_own: bool = False) -> str:
        return "".join(f"{' and' if i else ''} {text}" for i, text in enumerate(self._conditions(where, is_own=is_own)))

    def _conditions(self, where: Sequence[Where], *, is_own: bool) -> list[str]:
        """'with an area of more than 200 m²', 'north of lake.geojson', 'that touch roads.kml': sizes first."""
        said = []
        for w in sorted(where, key=lambda w: not w.figure):
            if w.relation:
                words = RELATION_WORDS.get(w.relation, w.relation)
                if w.relation in ("within", "beyond"):
                    words = f"{'within' if w.relation == 'within' else 'farther than'} {self._length_text(w.relation_m)} "
                    words += "of" if w.relation == "within" else "from"
                said.append(f"{words} {self._thing_title(w.reference)}")
                continue
            if w.pick:
                extreme = {"max": "largest", "min": "smallest"}[w.pick]
                said.append(f"with the {extreme} {'perimeter' if w.figure == 'outline' else w.figure}")
                continue
            what = {"area": "an area", "length": "a length", "outline": "a perimeter"}[w.figure]
            how = {">": "more than", ">=": "at least", "<": "less than", "<=": "at most"}[w.op]
            unit = w.unit or ("m2" if w.figure == "area" else "m")
            said.append(f"with {what} of {how} {w.value:,.10g} {UNITS[unit].sign}")
        if is_own and self.form.relation:
            n_sizes = sum(bool(w.figure) for w in where)
            said.insert(n_sizes, self._own_relation_text().strip())
        return said

    def _relation_text(self) -> str:
        return self._where_text(is_own=True) if self.form.where else self._own_relation_text()

    def _own_relation_text(self) -> str:
        f = self.form
        if not f.relation:
            return ""
        words = RELATION_WORDS.get(f.relation, f.relation)
        if f.relation == "within":
            words = f"within {self._length_text(f.relation_m)} of"
        if f.relation == "beyond":
            words = f"farther than {self._length_text(f.relation_m)} from"
        if f.relation == "nearest":
            words = f"(the {f.nearest_k} nearest) to"
        references = " and ".join(self._thing_title(k) for k in (f.reference, *f.others))
        return f" {words} {references}"

    def _subject_noun(self, *, is_one: bool = False) -> str:
        """'of the 43 polygons of buildings.gpkg lie within 100 m of water', after a number; ``is_one``: '… lies within …'."""
        f, thing = self.form, self.things.get(self.form.target)
        if thing is None:
            title = self.words.title(f.target)
            if f.target in self.words.objects:
                found = self.words.objects[f.target].title[0] if is_one else title
            else:
                found = f"{'piece' if is_one else 'pieces'} of {title}"
            relation = self._relation_text()
            return f"{found} found{_of_one(relation) if is_one else relation}"
        is_chosen = bool(f.relation or f.where)
        head = (
            f"of {thing.title}"
            if is_chosen and not thing.name
            else ((thing.vector.noun.removesuffix("s") if is_one else thing.vector.noun) if thing.vector else "place")
        )
        tail = "" if is_chosen or thing.vector is None else f" in {thing.vector.name}"
        relation = self._relation_text()
        if head.startswith("of ") and f.relation != "nearest":
            relation = " " + " and ".join(_clause(text, is_one=is_one) for text in self._conditions(f.where, is_own=True))
        elif is_one:
            relation = _of_one(relation)
        return f"{head}{relation}{tail}" + (" in the region" if self.region is not None else "")

    def _related_phrase(self) -> str:
        f = self.form
        subject, relation = self._thing_title(f.target), self._relation_text()
        if any(w.pick for w in f.where):
            subject = f"that one of {subject}"
        what = f.of if f.what == "zone" else f.what
        if f.each or f.clip:
            return self._cut_phrase(what, subject, relation) + (" in the region" if self.region is not None else "")
        if f.what == "distance":
            if f.distance_statistic == "farthest":
                return f"Distance of the pair farthest apart among {subject}" if not f.reference else (
                    f"Distance of the pair farthest apart of {subject} and {self._thing_title(f.reference)}")  # fmt: skip
            which = {"minimum": "Shortest distance", "mean": "Mean distance", "maximum": "Longest distance"}[f.distance_statistic]
            if not f.reference:
                return f"{which} between neighbours among {subject}"
            if f.distance_statistic == "minimum" or self._is_one(f.target):
                is_pair = self._is_one(f.target) and self._is_one(f.reference)
                is_pair = is_pair or (self._is_one(f.reference) and any(w.pick for w in f.where))
                return f"{'Distance' if is_pair else which} between {subject}{relation} and {self._thing_title(f.reference)}"
            if f.relation == "nearest":
                return f"{which} of the {f.nearest_k} nearest of {subject} to {self._thing_title(f.reference)}"
            return f"{which} from each of {subject}{relation} to the nearest of {self._thing_title(f.reference)}"
        if f.what == "ratio":
            kind = "areas" if f.of == "area" else "numbers"
            return f"Ratio of the {kind} of {subject} and {self._thing_title(f.reference)}"
        head = {"count": "Number of", "exists": "Area of" if f.of == "area" else "Number of", "area": "Area of",
                "share": "Share of", "length": "Length of", "density": "Density of"}[f.what]  # fmt: skip
        if f.what == "length" and f.over and f.target in self.words.objects:
            head = "Long side of the boxes of"
        if f.length_of:
            several = "" if self._is_one(f.target) or f.over or any(w.pick for w in f.where) else "mean "
            head = "Perimeter of" if f.length_of == "outline" else f"{several}long side of".capitalize()
        if (f.what in ("count", "exists") or f.where) and f.target in self.words.targets and not f.over:
            subject = f"pieces of {subject}"
        if f.over:
            which = {"mean": "Mean", "median": "Median", "minimum": "Smallest", "maximum": "Largest"}[f.over]
            each = "each of " if subject.startswith("the ") else "pieces of " if f.target in self.words.targets else ""
            head, subject = f"{which} {head[:1].lower()}{head[1:]}", f"{each}{subject}"
        given = [w for w in f.where if w.is_given]
        if f.what == "share" and given:
            whole = self._text_of_conditions(given)
            part = self._text_of_conditions([w for w in f.where if not w.is_given], is_own=True)
            return f"{head} {subject}{whole}: those{part}" + (" in the region" if self.region is not None else "")
        return f"{head} {subject}{relation}" + (" in the region" if self.region is not None else "")

    def _picked_phrase(self) -> str:
        """'largest number of the 12 points of sites.csv', 'smallest area', 'largest share covered by …'."""
        f = self.form
        head = "largest" if f.pick == "max" else "smallest"
        if f.rank > 1:
            head = f"{ordinal(f.rank)} {head}"
        if f.of == "distance":
            of_those = f" of those{self._where_text()}" if f.where else ""
            return f"{head} distance to {self._thing_title(f.reference) if f.reference else 'its nearest other'}{of_those}"
        if f.each == "target":
            counted = thing.vector.noun if (thing := self.things.get(f.target)) and thing.vector else self._thing_title(f.target)
            number = f"number of {counted}"
            what = {"outline": "perimeter", "extent": "long side"}.get(f.length_of, f.of if f.of != "count" else number)
            return f"{head} {what}{self._where_text()}"
        subject = f"{self._thing_title(f.target)}{self._where_text()}"
        if f.of == "share":
            return f"{head} share covered by {subject}"
        near = f" within {self._length_text(f.relation_m)}" if f.relation == "within" else ""
        return f"{head} {'number' if f.of == 'count' else f.of} of {subject}{near}"

    def _cut_phrase(self, what: str, subject: str, relation: str) -> str:
        """'Length of roads.kml inside the district, cut at its outline', 'Number of sites in each of the 3 polygons of …'."""
        f = self.form
        head = {"count": "Number of", "area": "Area of", "length": "Length of", "density": "Density of", "share": "Share of",
                "exists": "Area of", "distance": "Distance from"}[what]  # fmt: skip
        head = {"outline": "Perimeter of", "extent": "Long side of"}.get(f.length_of, head)
        if f.where and f.each != "target":
            subject += self._where_text()
        reference = self._thing_title(f.reference) if f.reference else ""
        is_of_reference = what == "share" and (f.each or f.denominator == "reference")
        if f.each:
            thing = self.things.get(f.target if f.each == "target" else f.reference)
            title = thing.title if thing is not None else self._thing_title(f.target)
            listed = f"each {f.by}" if f.by else f"each of {title}"
            if f.by and thing is not None and thing.vector is not None:
                listed += f" in {thing.vector.name}"
            listed += self._where_text() if f.each == "target" else ""
            if what == "distance":
                return f"Distance from {listed} to {reference or 'the nearest other'}"
            if f.each == "target":
                return f"{head} {listed}"
            where = f"within {self._length_text(f.relation_m)} of" if f.relation == "within" else "in"
            if is_of_reference:
                return f"Share of {listed} that is covered by {subject}"
            return f"{head} {subject} {where} {listed}"
        if is_of_reference:
            return f"Share of {reference} that is covered by {subject}"
        if what == "share":
            head = f"Share of the {'length' if f.of == 'length' else 'area'} of"
        relation = self._own_relation_text()
        return f"{head} {subject}{relation}, cut {'there' if f.relation in ('within', 'beyond') else 'at the outline'}"
