"""What questions about things need before anything is measured: kinds of shapes, references, conditions, units."""


from __future__ import annotations

from apps.agent.planner.facts import class_value
from apps.agent.planner.fields import EXISTS_MIN_PX, MAX_ROWS, MEASURES, RefusalError, Where
from apps.agent.planner.steps import StepMaker
from apps.agent.planner.things import Thing, is_thing, thing_of
from apps.agent.units import dimension
from apps.core.geo.vector import POLYGONS


class ThingChecks(StepMaker):
    """Opens the things of a form and refuses what has no meaning for them."""

    def _open_things(self) -> None:
        """The vector files, features and places that the form names."""
        f = self.form
        for key in (f.target, f.reference, *f.others, *f.zones, *(w.reference for w in f.where)):
            try:
                thing = thing_of(key, self.question)
            except KeyError:
                raise RefusalError(
                    "The question has no such vector file or feature; choose it below the question.",
                    "BAD_ARGUMENT",
                    {"form": ["target"]},
                ) from None
            except ValueError as error:
                raise RefusalError(f"This is no place: {error}.", "BAD_ARGUMENT", {"form": ["target"]}) from None
            if thing is not None:
                self.things[key] = thing
        for key, one in self.things.items():
            if one.vector is not None and one.vector.part_without and (key != f.target or f.by):
                raise RefusalError(
                    f"{one.vector.name}: so many features are left out of by name only where they themselves are counted or "
                    "measured. Choose those that are meant by an attribute.",
                    "NO_ANSWER",
                    {"form": ["target"]},
                )
        for key in f.zones:
            zone = self.things.get(key)
            if zone is None or zone.vector is None:
                raise RefusalError("A zone is a vector file or a feature of one.", "BAD_ARGUMENT", {"form": ["zones"]})
            if not f.buffer_m and not zone.vector.count_of(POLYGONS):
                raise RefusalError(
                    f"{zone.vector.name} holds {zone.vector.noun}, which have no inside.", "NO_ANSWER", {"form": ["zones"]}
                )

    def _is_related(self) -> bool:
        """Whether the question is one of things and their relations, measured rather than computed from pixels."""
        f = self.form
        named = self._keys_named()
        is_chosen = f.each != "" or bool(f.relation) or bool(f.where) or bool(f.over)
        return (f.what in MEASURES or (f.what == "zone" and f.each != "")) and not f.zones and (
            f.what in ("length", "density", "ratio") or is_chosen or any(is_thing(k) for k in named)
        )

    def _keys_named(self) -> list[str]:
        """All that the form names as target, reference or in a condition."""
        f = self.form
        return [k for k in dict.fromkeys((f.target, f.reference, *f.others, *(w.reference for w in f.where))) if k]

    def _is_of_things_alone(self) -> bool:
        f = self.form
        named = self._keys_named()
        return bool(named) and all(k in self.things and self.things[k].px is None for k in named) and not f.zones

    def _check_related(self) -> None:
        f = self.form
        if f.mask:
            raise RefusalError("Clouds are left out of figures of the image only.", "NO_ANSWER", {"form": ["mask"]})
        if not f.target:
            raise RefusalError("Of what? Name a target or a vector file.", "NO_ANSWER", {"form": ["target"]})
        for name, field in ((f.target, "target"), (f.reference, "reference"), *((o, "others") for o in f.others)):
            known = name in self.words.targets or name in self.words.objects or class_value(name) is not None
            if name and not known and name not in self.things:
                raise RefusalError(f"I do not know how to find {name!r}.", "BAD_ARGUMENT", {"form": [field]})
        self._check_where()
        needs_two = bool(f.relation) or f.what == "ratio"
        alone = self.things.get(f.target)
        if f.what == "distance" and not f.reference and (alone is None or alone.n < 2):
            needs_two = True
        if needs_two and not f.reference:
            raise RefusalError("To what? Name a second thing.", "NO_ANSWER", {"form": ["reference"]})
        if f.what == "density" and alone is not None and not f.reference and not f.each and not self.region:
            raise RefusalError(
                "Over which area? Draw a region, or name a file with polygons: a file alone has no ground to divide by.",
                "NEEDS_REGION",
                {"region": True},
            )
        if f.reference and f.reference == f.target and not f.relation:
            raise RefusalError("Both are the same thing.", "NO_ANSWER", {"form": ["reference"]})
        if f.relation in ("within", "beyond") and f.relation_m is None:
            raise RefusalError(f"{f.relation.capitalize()} which distance?", "BAD_ARGUMENT", {"form": ["relation_m"]})
        at = self.things.get(f.reference)
        is_hollow = at is not None and (at.vector is None or not at.vector.count_of(POLYGONS))
        if at is not None and is_hollow and f.relation in ("inside", "outside", "wholly_inside") and not f.clip:
            held = f"holds {at.vector.noun}, which have" if at.vector is not None else "is a place, which has"
            raise RefusalError(
                f"{at.label} {held} no inside. Ask for what lies within a distance, or farther away.",
                "NO_ANSWER",
                {"form": ["reference"]},
            )
        if f.each:
            self._check_each()
        if f.what == "share" and not f.relation and not f.where:
            raise RefusalError("A share of which lie where? Name the relation.", "NO_ANSWER", {"form": ["relation"]})
        if f.clip:
            self._check_clip()
        is_whole = bool(f.over or f.length_of)
        if f.what in ("length", "area") and not f.clip and not is_whole and f.relation in (
            "inside", "outside", "overlaps", "between"
        ):  # fmt: skip
            raise RefusalError(
                f"Things are chosen whole, by where they lie: their {f.what} would not be cut at the outline. Ask how many lie "
                f"there, or which {f.what} of them lies inside.",
                "NO_ANSWER",
                {"form": ["relation"]},
            )
        subject = self.things.get(f.target)
        what: str = f.of if f.what == "zone" else f.what
        is_area = what == "area" or (f.what in ("exists", "ratio") and f.of == "area")
        if f.over and (what not in ("area", "length") or f.clip or f.each):
            raise RefusalError(
                "A mean or an extreme is one of the areas or lengths of whole things, neither cut nor listed.",
                "NO_ANSWER",
                {"form": ["over"]},
            )
        if is_area:
            names = (f.target, f.reference) if f.what == "ratio" else (f.target,)
            for name in names:
                thing = self.things.get(name)
                if name in self.words.objects or (thing is not None and not (thing.vector and thing.vector.count_of(POLYGONS))):
                    what = self._thing_title(name)
                    raise RefusalError(
                        f"{what[:1].upper()}{what[1:]} {'have' if name in self.words.objects else 'has'} no area that could be "
                        "measured: boxes, points and lines enclose none.",
                        "NO_ANSWER",
                        {"form": ["target"]},
                    )
        if what == "length" and subject is None and (f.over or f.each) and f.target not in self.words.objects:
            raise RefusalError(
                "The length of single pieces of a surface is not measured; ask for their area.", "NO_ANSWER", {"form": ["target"]}
            )
        if what == "length" and f.target in self.words.objects and (f.over or f.each):
            self.warnings.append(
                f"{self._thing_title(f.target).capitalize()} are found as boxes along rows and columns: told is a box's long "
                "side, which is not the length of one that lies askew."
            )
        if what == "length" and subject is not None:
            if subject.vector is None or subject.has_only("points"):
                raise RefusalError("Points have no length.", "NO_ANSWER", {"form": ["target"]})
            if not subject.has_only("lines") and not subject.has_only("polygons"):
                raise RefusalError(
                    f"{subject.vector.name} holds lines and other shapes together; their lengths do not add up. Split the file.",
                    "NO_ANSWER",
                    {"form": ["target"]},
                )
            self._check_length_of(subject)
        elif f.length_of:
            raise RefusalError(
                "An outline or a long side is that of polygons in a file.", "BAD_ARGUMENT", {"form": ["length_of"]}
            )
        if is_area and subject is not None and subject.vector is not None and not subject.has_only("polygons"):
            self.warnings.append(f"{subject.vector.name} also holds shapes without an area; they add nothing.")
        if f.unit:
            wanted = {"area": "area", "distance": "length", "length": "length", "share": "number", "ratio": "number"}.get(what)
            if wanted and dimension(f.unit) != wanted:
                raise RefusalError(f"{f.unit!r} is not a unit of a {f.what}.", "BAD_ARGUMENT", {"form": ["unit"]})

    def _check_length_of(self, subject: Thing) -> None:
        """Polygons have an outline and a long side: nobody guesses which of them is their length."""
        f = self.form
        is_lines = subject.has_only("lines")
        if is_lines and f.length_of:
            raise RefusalError(
                f"{subject.title[:1].upper()}{subject.title[1:]} {'is a line' if subject.n == 1 else 'are lines'}: ask for the "
                "length.", "NO_ANSWER", {"form": ["length_of"]},
            )  # fmt: skip
        if f.length_of == "extent" and (f.clip or f.each == "reference"):
            raise RefusalError(
                "The long side of polygons is not cut at others; it is one of each polygon itself.",
                "NO_ANSWER",
                {"form": ["each" if f.each else "clip"]},
            )
        if not is_lines and not f.length_of:
            raise RefusalError(
                f"The length of {subject.title}: of the outline, or from end to end? Write “the perimeter of …” or “the long "
                "side of …”.",
                "NO_ANSWER",
                {"form": ["length_of"]},
            )

    def _check_clip(self) -> None:
        """What is cut, and at what: polygons and lines of files, at polygons or at a distance."""
        f = self.form
        what: str = f.of if f.what in ("zone", "exists") else f.what
        of = f.of if f.what == "share" else what
        subject, at = self.things.get(f.target), self.things.get(f.reference)
        relation = f.relation or "inside"
        if of not in ("area", "length") and what != "share":
            raise RefusalError("Only an area, a length or a share is cut.", "BAD_ARGUMENT", {"form": ["clip"]})
        if relation not in ("inside", "outside", "within", "beyond"):
            raise RefusalError(
                "Things are cut at an outline or at a distance: inside, outside, within or beyond.",
                "BAD_ARGUMENT",
                {"form": ["relation"]},
            )
        for key, thing in ((f.target, subject), (f.reference, at)):
            if thing is None and key not in self.words.targets and class_value(key) is None:
                raise RefusalError(f"{self._thing_title(key)} are found as boxes, which are no outlines to cut.", "NO_ANSWER",
                                    {"form": ["target"]})  # fmt: skip
        if at is not None and relation in ("inside", "outside") and not at.has_only("polygons"):
            raise RefusalError(
                f"{at.label} holds {at.vector.noun if at.vector else 'a point'}, which have no inside. Ask for what lies within "
                "a distance of them.",
                "NO_ANSWER",
                {"form": ["reference"]},
            )
        if subject is not None and f.length_of == "outline" and subject.has_only("polygons"):
            return
        if subject is not None and (of == "length") != subject.has_only("lines"):
            held = subject.vector.noun if subject.vector else "a point"
            wanted = "length" if of == "length" else "area"
            kinds = "lines" if of == "length" else "polygons"
            reason = f"{subject.label} holds {held}, which have no {wanted} that could be cut: that is one of {kinds}."
            raise RefusalError(reason, "NO_ANSWER", {"form": ["target"]})
        if subject is not None and of == "area" and not subject.has_only("polygons"):
            raise RefusalError(f"{subject.label} holds shapes without an area.", "NO_ANSWER", {"form": ["target"]})

    def _check_each(self) -> None:
        """Whose features are listed, and by which attribute."""
        f = self.form
        key = f.target if f.each == "target" else f.reference
        thing = self.things.get(key)
        if thing is None and f.each == "target" and f.what == "zone":
            self._check_pieces(key)
            return
        if thing is None or thing.vector is None or thing.name:
            raise RefusalError("A table lists the features of a vector file.", "BAD_ARGUMENT", {"form": ["each"]})
        if f.by and f.by not in thing.vector.fields:
            raise RefusalError(
                f"{thing.vector.name} has no attribute {f.by}; it has {', '.join(thing.vector.fields[:20]) or 'none'}.",
                "BAD_ARGUMENT",
                {"form": ["by"]},
            )
        if not f.by and thing.vector.n > MAX_ROWS:
            raise RefusalError(
                f"{thing.vector.name} has {thing.vector.n:,} features; a table holds {MAX_ROWS:,}.",
                "TOO_LARGE",
                {"form": ["each"]},
            )
        self._tell_names(thing)

    def _check_pieces(self, key: str) -> None:
        """Of what is found in an image: boxes have a long side and a distance, pieces of a surface an area and a distance."""
        f = self.form
        title = self._thing_title(key)
        if key in self.words.objects and f.of == "area":
            raise RefusalError(
                f"{title[:1].upper()}{title[1:]} are found as boxes, which have no area of their own: which is the largest "
                "cannot be told. Ask which is the longest, or which is the nearest to something.",
                "NO_ANSWER",
                {"form": ["target"]},
            )
        if key not in self.words.objects and f.of == "area" and f.pick == "min":
            raise RefusalError(
                f"The smallest piece of {title} is as a rule a few pixels of noise, so it says nothing. Ask for the largest, or "
                "how many are larger than an area.",
                "NO_ANSWER",
                {"form": ["pick"]},
            )
        if f.of not in ("area", "length", "distance"):
            raise RefusalError("Single pieces are compared by area, length or distance.", "NO_ANSWER", {"form": ["of"]})

    def _check_where(self) -> None:
        """What each further condition needs."""
        f = self.form
        for w in f.where:
            if bool(w.relation) == bool(w.figure):
                raise RefusalError("A condition is a relation or a limit.", "BAD_ARGUMENT", {"form": ["where"]})
            if w.relation:
                self._check_where_relation(w)
                continue
            if w.value is None and not w.pick:
                raise RefusalError("Larger than which number?", "BAD_ARGUMENT", {"form": ["where"]})
            wanted = "area" if w.figure == "area" else "length"
            if w.unit and dimension(w.unit) != wanted:
                raise RefusalError(f"{w.unit!r} is no unit of {'an area' if wanted == 'area' else 'a length'}.", "BAD_ARGUMENT",
                                   {"form": ["where"]})  # fmt: skip
            self._check_where_figure(w)
        if any(w.pick for w in f.where) and (f.relation or f.each or f.over or f.what == "share"):
            raise RefusalError(
                "The largest of all, or of those that meet the other condition? Ask which it is, then for its figure by name.",
                "NO_ANSWER",
                {"form": ["where"]},
            )
        if f.where and f.relation == "nearest":
            raise RefusalError(
                "The nearest of all, or the nearest of those that also meet the other condition? Ask for one after the other.",
                "NO_ANSWER",
                {"form": ["where"]},
            )

    def _check_where_relation(self, w: Where) -> None:
        known = w.reference in self.things or w.reference in self.words.targets or w.reference in self.words.objects
        if not w.reference or not (known or class_value(w.reference) is not None):
            raise RefusalError("A condition's relation is to what? Name a second thing.", "BAD_ARGUMENT", {"form": ["where"]})
        if w.relation in ("within", "beyond") and w.relation_m is None:
            raise RefusalError(f"{w.relation.capitalize()} which distance?", "BAD_ARGUMENT", {"form": ["where"]})
        at = self.things.get(w.reference)
        is_hollow = at is not None and (at.vector is None or not at.vector.count_of(POLYGONS))
        if at is not None and is_hollow and w.relation in ("inside", "outside", "wholly_inside"):
            raise RefusalError(
                f"{at.label} has no inside. Ask for what lies within a distance, or farther away.",
                "NO_ANSWER",
                {"form": ["where"]},
            )

    def _check_where_figure(self, w: Where) -> None:
        f, subject = self.form, self.things.get(self.form.target)
        title = self._thing_title(f.target)
        if f.target in self.words.objects:
            raise RefusalError(
                f"{title[:1].upper()}{title[1:]} are found as boxes, which have no "
                f"{'length' if w.figure == 'length' else 'area'} of their own to compare. Give a vector file of their outlines, "
                "or ask without the size.",
                "NO_ANSWER",
                {"form": ["where"]},
            )
        if subject is None and w.figure != "area":
            raise RefusalError(
                "Pieces of a surface are compared by their area alone.", "NO_ANSWER", {"form": ["where"]}
            )
        if subject is None:
            self.warnings.append(
                f"Pieces of {title} of at least {EXISTS_MIN_PX} pixels are counted: what looks like one may be several pieces, "
                "and what the image's edge cuts is smaller than it is."
            )
            return
        kinds = "lines" if w.figure == "length" else "polygons"
        if not subject.has_only(kinds):
            held = subject.vector.noun if subject.vector else "a point"
            what = {"area": "an area", "length": "a length", "outline": "a perimeter"}[w.figure]
            raise RefusalError(
                f"{subject.label} holds {held}: {what} to compare is one of {kinds}.", "NO_ANSWER", {"form": ["where"]}
            )
