"""Which scenes a form means: those with the bands it needs, on the dates it names, of one place, with a size on the ground."""

from __future__ import annotations

from datetime import date
from typing import Any

from apps.agent.dates import DateSpan, dates_in
from apps.agent.planner.facts import (
    class_value,
    date_list,
    date_of,
    day_of,
    is_apart,
    is_one_place,
    methods_of,
    plural,
    span_text,
)
from apps.agent.planner.fields import Form, Measured, RefusalError
from apps.agent.planner.lexicon import lexicon, missing_roles, role_list
from apps.agent.planner.things import Thing, is_thing
from apps.core.evidence.plan import PlanStep, Question
from apps.core.geo.scene import SceneInfo
from apps.verification.quality import quality_band_of


class SceneChooser:
    """A form on its way to a plan, and the scenes that it means; refuses with RefusalError where there is none."""

    def __init__(self, question: Question, form: Form) -> None:
        self.question, self.form, self.words = question, form, lexicon()
        self.steps: list[PlanStep] = []
        self.warnings: list[str] = []
        self.understood = ""
        self.things: dict[str, Thing] = {}
        self.region = form.region if form.region is not None else question.region
        self.region_crs = form.region_crs if form.region is not None else question.region_crs

    def measured(self) -> Measured:
        """What is measured of one scene: stated, or what follows from quantity, target and threshold."""
        f = self.form
        if f.what in ("statistic", "area", "share", "count"):
            return f.what  # type: ignore[return-value]
        if f.of and f.of not in ("length", "density", "distance"):
            return f.of  # type: ignore[return-value]
        if f.target in self.words.objects or is_thing(f.target):
            return "count"
        if f.target or f.threshold is not None:
            return "share" if f.what == "exists" or f.unit == "%" else "area"
        return "statistic"

    def _capable(self) -> list[SceneInfo]:
        """Scenes that have what the quantity or target needs; NEEDS_BANDS where none has."""
        f = self.form
        scenes = list(self.question.scenes)
        if f.scenes:
            by_id = {s.scene_id: s for s in scenes}
            unknown = [i for i in f.scenes if i not in by_id]
            if unknown:
                raise RefusalError(
                    "The form names a scene that the question does not have.", "BAD_ARGUMENT", {"form": ["scenes"]}
                )
            scenes = [by_id[i] for i in f.scenes]
        if f.mask and not any(quality_band_of(s.bands) for s in scenes):
            held = any("qa" in s.roles for s in scenes)
            raise RefusalError(
                "I cannot leave clouds out: "
                + (
                    "the image has a quality band, but how its bits are read is not known."
                    if held
                    else "the image has no quality band (QA_PIXEL, BQA or SCL) that tells where they are."
                )
                + " Add the scene's quality band to it, or ask about all pixels.",
                "NEEDS_BANDS",
                {"roles": ["qa"]},
            )
        able = [s for s in scenes if not self._lacking(s)]
        if not able:
            best = min(scenes, key=lambda s: len(self._lacking(s)))
            lacking = self._lacking(best)
            lame = [n for n in (f.target, f.reference, *f.others) if n and self._lacking_for(best, n)]
            is_of_quantity = bool(f.quantity and missing_roles(best, f.quantity)) or not lame
            what = self.words.title(f.quantity if is_of_quantity else lame[0])
            is_open = any(b.role == "unknown" for s in scenes for b in s.bands)
            how = "Say which band is which, and ask again." if is_open else "The image has no such band; add one that has it."
            elsewhere = {role: next((s.name for s in scenes if role in s.roles), "") for role in lacking}
            if len(scenes) > 1 and all(elsewhere.values()):
                names = list(dict.fromkeys(elsewhere.values()))
                how = (
                    f"No image has all that is needed: {best.name} lacks what {' and '.join(names)} "
                    f"{'has' if len(names) == 1 else 'have'}. Stack files of one grid, each with another band, on the page "
                    "Imagery; on the command line, give such files alone."
                )
            needs: dict[str, Any] = {"roles": list(lacking)}
            if (self.measured() == "area" or f.what == "distance") and all(
                s.grid.crs is None and s.gsd_m is None for s in scenes
            ):
                needs["gsd_m"] = True
                how += (
                    " An area or distance also needs the ground sampling distance in metres: the image has no coordinate system."
                )
            band = f"the {plural('band', lacking)} {role_list(lacking)}" if lacking != (f.quantity,) else "a band that shows it"
            raise RefusalError(f"{what[:1].upper()}{what[1:]} needs {band}. {how}", "NEEDS_BANDS", needs)
        if len(able) < len(scenes):
            n = len(scenes) - len(able)
            self.warnings.append(
                f"{n} of {len(scenes)} scenes {'has' if n == 1 else 'have'} no band for this and "
                f"{'was' if n == 1 else 'were'} left out."
            )
        return able

    def _lacking(self, scene: SceneInfo) -> tuple[str, ...]:
        f = self.form
        out: list[str] = []
        if f.quantity:
            out.extend(missing_roles(scene, f.quantity))
        if f.mask and quality_band_of(scene.bands) is None:
            out.append("qa")
        if not (f.quantity and f.threshold is not None):
            for name in (f.target, f.reference, *f.others):
                out.extend(self._lacking_for(scene, name))
        elif f.reference:
            out.extend(self._lacking_for(scene, f.reference))
        return tuple(dict.fromkeys(out))

    def _lacking_for(self, scene: SceneInfo, target: str) -> tuple[str, ...]:
        if class_value(target) is not None:
            return () if "class" in scene.roles else ("class",)
        entry = self.words.targets.get(target)
        if entry is None or methods_of(scene, entry.methods):
            return ()
        return missing_roles(scene, entry.methods[0].index or entry.methods[0].band)

    def _spans(self) -> list[DateSpan]:
        out = []
        for text in self.form.dates:
            start, dots, end = text.partition("..")
            first, last = dates_in(f"in {start}"), dates_in(f"in {end}")
            if dots and (first or not start) and (last or not end) and (first or last):
                out.append(DateSpan(first[0].start if first else date.min, last[0].end if last else date.max, (0, 0)))
            elif not dots and len(first) == 1:
                out.append(first[0])
            else:
                raise RefusalError(
                    f"{text!r} is no date that I can read; write 2014-02-18, 2014-02 or 2013-09-01..2014-08-31.",
                    "BAD_ARGUMENT",
                    {"form": ["dates"]},
                )
        return out

    def _dated(self, scenes: list[SceneInfo]) -> list[SceneInfo]:
        """The scenes in order of time; NEEDS_DATES where one has no date."""
        undated = [s.scene_id for s in scenes if s.acquired_at is None]
        if undated:
            raise RefusalError(
                f"{len(undated)} of {len(scenes)} images {'has' if len(undated) == 1 else 'have'} no date. Say when "
                f"{'it was' if len(undated) == 1 else 'they were'} acquired, and ask again.",
                "NEEDS_DATES",
                {"dates": undated},
            )
        return sorted(scenes, key=date_of)

    def _in_dates(self, scenes: list[SceneInfo]) -> list[SceneInfo]:
        """Scenes that fall in the dates asked for (all where none was asked)."""
        spans = self._spans()
        if not spans:
            return scenes
        dated = self._dated(scenes)
        found = [s for s in dated if any(span.covers(date_of(s)) for span in spans)]
        for span in spans:
            if not any(span.covers(date_of(s)) for s in dated):
                raise RefusalError(
                    f"No image falls in {span_text(span)}; there are {date_list(dated)}.",
                    "NEEDS_DATES",
                    {"available": [day_of(s) for s in dated]},
                )
        return found

    def _one(self) -> SceneInfo:
        """The one scene that is meant."""
        scenes = self._in_dates(self._capable())
        if len(scenes) == 1:
            return scenes[0]
        if all(s.acquired_at for s in scenes):
            raise RefusalError(
                f"{len(scenes)} images fit: {date_list(sorted(scenes, key=date_of))}. Say which date you mean, or ask for "
                "the difference, or on which date it is largest.",
                "NEEDS_DATES",
                {"available": [day_of(s) for s in sorted(scenes, key=date_of)]},
            )
        raise RefusalError(
            f"{len(scenes)} images fit; say which one you mean.", "NO_ANSWER", {"scenes": [s.scene_id for s in scenes]}
        )

    def _two(self) -> tuple[SceneInfo, SceneInfo]:
        """The scenes before and after, in order of time."""
        capable = self._capable()
        spans = self._spans()
        if len(capable) < 2:
            raise RefusalError(
                "A change needs two images of one place at two dates; there is one that fits.", "NEEDS_DATES", {"scenes": True}
            )
        dated = self._dated(capable)
        if not spans:
            pair = (dated[0], dated[-1])
        elif len(spans) == 1:
            inside = self._in_dates(capable)
            if len(inside) < 2:
                raise RefusalError(
                    f"A change needs two dates; one image falls in {span_text(spans[0])}.",
                    "NEEDS_DATES",
                    {"available": [day_of(s) for s in dated]},
                )
            pair = (inside[0], inside[-1])
        elif len(spans) == 2:
            ends = []
            for span in spans:
                inside = [s for s in dated if span.covers(date_of(s))]
                if len(inside) != 1:
                    raise RefusalError(
                        f"{len(inside) or 'No'} image{'s' if len(inside) != 1 else ''} fall{'s' * (len(inside) == 1)} in "
                        f"{span_text(span)}; name the two dates. There are {date_list(dated)}.",
                        "NEEDS_DATES",
                        {"available": [day_of(s) for s in dated]},
                    )
                ends.append(inside[0])
            pair = (min(ends, key=date_of), max(ends, key=date_of))
        else:
            raise RefusalError("A change needs two dates, not more.", "BAD_ARGUMENT", {"form": ["dates"]})
        if date_of(pair[0]) == date_of(pair[1]) or pair[0].scene_id == pair[1].scene_id:
            raise RefusalError("A change needs two different dates.", "NEEDS_DATES", {"available": [day_of(s) for s in dated]})
        self._same_place(list(pair))
        return pair

    def _series(self, least: int) -> list[SceneInfo]:
        """Scenes of one place in order of time, at least so many."""
        scenes = self._capable()
        if len(scenes) >= least or self.form.dates:
            scenes = self._in_dates(scenes)
        if len(scenes) < least:
            raise RefusalError(
                f"This needs images of at least {least} dates; {len(scenes)} fit{'s' * (len(scenes) == 1)}.",
                "NEEDS_DATES",
                {"scenes": True},
            )
        scenes = self._dated(scenes)
        days = [day_of(s) for s in scenes]
        if len(set(days)) < len(days):
            raise RefusalError(
                "Two images have the same date; say which one counts.", "NEEDS_DATES", {"available": sorted(set(days))}
            )
        self._same_place(scenes)
        return scenes

    def _same_place(self, scenes: list[SceneInfo]) -> None:
        first = scenes[0]
        for s in scenes[1:]:
            if not is_one_place(first, s):
                raise RefusalError(
                    "The images do not show the same place, so dates cannot be compared between them.",
                    "NO_ANSWER",
                    {"scenes": [x.scene_id for x in scenes]},
                )

    def _needs_ground(self, *scenes: SceneInfo) -> None:
        """NEEDS_GSD where a scene has neither a CRS nor a GSD: no metres without one."""
        lacking = [s.scene_id for s in scenes if s.grid.crs is None and s.effective_gsd_m is None]
        if lacking:
            raise RefusalError(
                "The image has no coordinate system, so the size of a pixel on the ground is not known. Give the ground "
                "sampling distance in metres; a count or a share works without.",
                "NEEDS_GSD",
                {"gsd_m": True, "scenes": lacking},
            )

    def _check_region(self, *scenes: SceneInfo) -> None:
        if self.region is None:
            return
        if self.region_crs != "image" and any(s.grid.crs is None for s in scenes):
            raise RefusalError(
                "The region is given in map coordinates, but the image has no coordinate system. Draw the region on the image.",
                "NEEDS_CRS",
                {"crs": True},
            )
        if self.region_crs == "EPSG:4326":
            outside = [s for s in scenes if is_apart(self.region, s)]
            if outside:
                raise RefusalError(
                    "The region lies outside of the image. Draw it on the image, or take it away to ask about all of it.",
                    "BAD_REGION",
                    {"region": True, "scenes": [s.scene_id for s in outside]},
                )
        if self.region_crs == "image" and len(scenes) > 1 and len({s.grid.shape for s in scenes}) > 1:
            raise RefusalError("The region is given in pixels, but the images differ in size.", "NEEDS_REGION", {"region": True})
