"""Questions about two marked places: "How far apart are the two marked points?", "the bearing from A to B", "the distance
between the two planes".

A question is read only where it says nothing else; every other one goes to the parser of measurements. An end is a mark (A, B,
the first point), a pair of coordinates, or the one thing of its kind that a detector finds. Where the marks are not there yet the
plan asks for them (NEEDS_LANDMARKS) and never guesses a place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from apps.agent.planner.fields import Form
from apps.agent.planner.form import plan_from_form
from apps.agent.planner.lexicon import lexicon
from apps.agent.planner.spatial import SIGN, put_signs
from apps.agent.planner.text import Text
from apps.agent.planner.things import thing_of
from apps.agent.units import UNIT_PATTERN, dimension, unit_of
from apps.core.evidence.landmark import Landmark, pixel_on
from apps.core.evidence.observation import JsonMap, TaskRef
from apps.core.evidence.plan import AnswerRecipe, Plan, PlanStep, Question
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import step_reference

_NOUN = r"(?:point|place|landmark|mark|marker|position|location|spot|box)"
_NOUNS = r"(?:points|places|landmarks|marks|markers|positions|locations|spots|boxes)"
_SET = r"(?:marked|clicked|selected|chosen|drawn|picked)"
_BY_ME = rf"(?: (?:that |which )?(?:i |we )?(?:have |had |are |were )?{_SET})?(?: on the (?:map|image|picture|scene))?"
_ORDER = {"first": "A", "1st": "A", "second": "B", "2nd": "B"}
_LETTER = rf"(?:(?:the )?(?:{_SET} )?{_NOUN} )?[ab]"
_NTH = rf"the (?:{'|'.join(_ORDER)}) (?:{_SET} )?{_NOUN}{_BY_ME}"
_ONLY = (
    rf"(?:the |my )(?:{_SET} {_NOUN}(?: on the (?:map|image|picture|scene))?|landmark"
    rf"|{_NOUN} (?:that )?(?:i|we) (?:have )?{_SET})"
)
_WORD = r"(?!(?:in|on|and|to|from|apart|away|as|of|or|with|at|two|both)\b)[a-z][a-z\-]+"
_THING = rf"the {_WORD}(?: {_WORD})?"
_END = rf"(?:{_LETTER}|{_NTH}|{_ONLY}|{SIGN}|{_THING})"
_BOTH_MARKS = (
    rf"(?:(?:the|these|those|my|both) )+(?:(?:two|both) )?(?:{_SET} (?:two )?{_NOUNS}|landmarks|{_NOUNS}{_BY_ME})"
    rf"|two (?:{_SET} {_NOUNS}|landmarks)"
)
_BOTH_THINGS = rf"the two (?P<things>{_WORD}(?: {_WORD})?)"
_BOTH = rf"(?:(?P<marks>{_BOTH_MARKS})|{_BOTH_THINGS})"
_PAIR = rf"(?P<one>{_END}) *(?:and|to|from|&|-) *(?P<two>{_END})"
_ASK = (
    r"(?:(?:what(?:'s| is| was| would be)?|give(?: me)?|tell(?: me)?|measure|compute|calculate|find|determine|report|say|show)"
    r"(?: me)? )?(?:the )?"
)
_KIND = r"(?:(?:straight[- ]line|straight|geodesic|great[- ]circle|direct|shortest|ground|exact|true|compass|forward|initial) )*"
_UNIT = rf"(?:{UNIT_PATTERN}|pixels?|px|degrees?)"
_TAIL = (
    r"(?: (?:from )?(?:each other|one another)| apart| away| as the crow flies| in a straight line| on the ground"
    r"| (?:in|on) (?:the|this) (?:image|scene|picture|map))*"
    rf"(?: \(?(?:(?:expressed |given |measured )?in )?(?P<unit>{_UNIT})\)?)?"
    r"(?: (?:in|on) (?:the|this) (?:image|scene|picture|map))?"
)
_FAR = rf"(?:{_PAIR}|{_BOTH})"
_DISTANCE = tuple(
    re.compile(p + _TAIL)
    for p in (
        rf"{_ASK}{_KIND}distance (?:is (?:it |there )?)?(?:between |from |of )?{_FAR}",
        rf"how (?:far|distant)(?: apart| away)?(?: (?:is|are|lie|lies|was|were))?(?: it| there)?(?: (?:from|between))? {_FAR}",
        rf"how many (?P<many>{_UNIT})(?: (?:is|are|lie|lies))?(?: it| there)?(?: (?:from|between))? {_FAR}",
    )
)
_BEARING_NAME = r"(?:(?:azimuth|bearing|heading|direction)(?: angle)?)"
_SEEN = rf" (?:as )?(?:seen )?from (?P<one>{_END})"
_BEARING = tuple(
    re.compile(p + _TAIL)
    for p in (
        rf"{_ASK}{_KIND}{_BEARING_NAME} (?:is )?(?P<how>from|between) {_FAR}",
        rf"{_ASK}{_KIND}{_BEARING_NAME} (?P<how>of|to) (?P<two>{_END}){_SEEN}",
        rf"(?:in )?(?:which|what) {_KIND}direction (?P<how>is|does|lies) (?P<two>{_END})(?: lies?)?{_SEEN}",
    )
)
_HOW_TO_MARK = "Mark the two places on the map (P), or type their coordinates below the question, and ask again."


class _RefusalError(Exception):
    """Inside this module: the question is understood, there is no plan, and why."""

    def __init__(self, reason: str, code: str = "NO_ANSWER", needs: dict[str, Any] | None = None):
        self.reason, self.code, self.needs = reason, code, needs or {}
        super().__init__(reason)


class _NotOursError(Exception):
    """Inside this module: the question is for the parser of measurements."""


@dataclass(frozen=True, slots=True)
class _Asked:
    measure: Literal["distance", "azimuth"]
    ends: tuple[str, str]
    unit: str
    things: str = ""


@dataclass(frozen=True, slots=True)
class _End:
    """A mark or coordinates, or the name of an object in the lexicon."""

    title: str
    landmark: Landmark | None = None
    target: str = ""


def plan_landmarks(question: Question, planner: str = "offline") -> Plan | None:
    """The plan of such a question; None where it is about something else."""
    signs: dict[str, str] = {}
    asked = _read(question, signs)
    if asked is None:
        return None
    is_bearing = asked.measure == "azimuth"
    task = TaskRef(
        task_type="distance_measurement",
        question=question.text,
        answer_form="choice" if question.choices else "number" if is_bearing else "distance",
    )
    try:
        return _plan(question, asked, signs, task, planner)
    except _NotOursError:
        return None
    except _RefusalError as why:
        return Plan(task=task, planner=planner, reason=why.reason, code=why.code, needs=why.needs)


def names_a_place(text: str) -> bool:
    """Whether words hold a pair of coordinates, which can stand for one of two marks."""
    found = put_signs(Text(text).text, Question(text=text or "?", scenes=()))
    return bool(found.keys)


# --- reading ----------------------------------------------------------------------------------------------------------------
def _read(question: Question, signs: dict[str, str]) -> _Asked | None:
    found = put_signs(Text(question.text).text, question.model_copy(update={"vectors": ()}))
    if found.reason:
        return None
    signs |= found.keys
    text = re.sub(r"\s+", " ", found.text).strip(" ?.!")
    text = re.sub(r"^(?:please,? |hello,? |hi,? )+", "", text)
    for patterns, measure in ((_DISTANCE, "distance"), (_BEARING, "azimuth")):
        for pattern in patterns:
            m = pattern.fullmatch(text)
            if m is None:
                continue
            parts = m.groupdict()
            unit = parts.get("unit") or parts.get("many") or ""
            if parts.get("unit") and parts.get("many"):
                return None
            if measure == "azimuth" and (parts.get("how") == "between" or parts.get("marks") or parts.get("things")):
                ends = ("", "")  # from which to which is not said
            else:
                ends = (parts["one"] or "", parts["two"] or "")
            return _Asked("distance" if measure == "distance" else "azimuth", ends, _unit(unit), parts.get("things") or "")
    return None


def _unit(text: str) -> str:
    if re.fullmatch(r"pixels?|px", text):
        return "px"
    return "deg" if text.startswith("degree") else unit_of(text) or ""


def _end(question: Question, text: str, signs: dict[str, str]) -> _End:
    key = signs.get(text, "")
    if key:
        kind, _, numbers = key.partition(":")
        x, y = (float(v) for v in numbers.split(","))
        crs: Literal["EPSG:4326", "image"] = "image" if kind == "px" else "EPSG:4326"
        thing = thing_of(key, question)
        return _End(thing.title if thing is not None else key, Landmark(name="A", point=(x, y), crs=crs))
    if re.fullmatch(_LETTER, text):
        name = text[-1].upper()
        if any(text[-1] in (n.lower() for n in v.names) for v in question.vectors) and text in ("a", "b"):
            if not question.landmarks:
                raise _NotOursError
            raise _RefusalError(
                f"“{name}” is a marked place and a feature of a vector file; say “point {name}” or name the file."
            )
        return _mark(question, name)
    if nth := re.fullmatch(_NTH, text):
        return _mark(question, next(name for word, name in _ORDER.items() if f"the {word} " in nth[0]))
    if re.fullmatch(_ONLY, text):
        if len(question.landmarks) > 1:
            raise _RefusalError(
                "Two places are marked; say which is meant, A or B.", "NEEDS_LANDMARKS", {"landmarks": ["A", "B"]}
            )
        return _mark(question, question.landmarks[0].name if question.landmarks else "A")
    return _thing(question, text.removeprefix("the "))


def _mark(question: Question, name: str) -> _End:
    return _End(name, next((m for m in question.landmarks if m.name == name), None))


def _thing(question: Question, noun: str) -> _End:
    """The one object of its kind. What the parser of measurements knows as something else is left to it."""
    words = lexicon()
    for key, entry in words.objects.items():
        if noun == entry.title[0] or (noun in entry.words and not noun.endswith("s")):
            return _End(f"the {noun}", target=key)
    known = {
        *(w for o in words.objects.values() for w in (*o.words, *o.title)),
        *(w for t in words.targets.values() for w in (*t.words, *t.narrower)),
        *(w for i in words.indices.values() for w in i.words),
        *(w for b in words.bands.values() for w in b.words),
        *words.cannot,
    }
    if question.vectors or any(w in known for w in (noun, *noun.split())):
        raise _NotOursError
    return _End(f"the {noun}")


# --- planning ---------------------------------------------------------------------------------------------------------------
def _plan(question: Question, asked: _Asked, signs: dict[str, str], task: TaskRef, planner: str) -> Plan:
    ends = _ends(question, asked, signs)
    if asked.measure == "distance" and all(e.landmark is not None and e.title not in ("A", "B") for e in ends):
        raise _NotOursError  # two pairs of coordinates: measured as they are, on an image or not
    lost = [e.title for e in ends if e.landmark is None and not e.target]
    if lost:
        marks = [name for name in lost if name in ("A", "B")]
        said = f"{' and '.join(lost)} {'is' if len(lost) == 1 else 'are'}"
        if len(marks) == len(lost):
            raise _RefusalError(f"{said} not marked yet. {_HOW_TO_MARK}", "NEEDS_LANDMARKS", {"landmarks": marks})
        if question.landmarks:
            raise _RefusalError(
                f"I do not know how to find {' or '.join(n for n in lost if n not in marks)}. If the marks stand "
                "there, ask for the distance between A and B.",
                "NO_ANSWER",
            )
        raise _RefusalError(
            f"I do not know how to find {' or '.join(n for n in lost if n not in marks)}. Mark the two places on the "
            "map (P) and ask how far apart the two marked places are.",
            "NEEDS_LANDMARKS",
            {"landmarks": ["A", "B"]},
        )
    if question.region is not None:
        raise _RefusalError("A region is drawn too, and a distance between two places has no region. Clear it, and ask again.")
    marks_given = [e.landmark for e in ends if e.landmark is not None]
    scene = _scene(question, [(e.title, e.landmark) for e in ends if e.landmark is not None])
    if len(marks_given) == 2 and marks_given[0].middle == marks_given[1].middle and marks_given[0].crs == marks_given[1].crs:
        raise _RefusalError("Both are one and the same place; mark two.", "NEEDS_LANDMARKS", {"landmarks": ["B"]})
    unit = _asked_unit(question, asked, scene)
    steps, landmarks = _found(question, scene, ends)
    method: JsonMap = {"measure": asked.measure, "unit": "px" if unit == "px" else "m"}
    names = [e.title for e in ends]
    what = (
        f"Bearing from {names[0]} to {names[1]}" if asked.measure == "azimuth" else f"Distance between {names[0]} and {names[1]}"
    )
    boxes = [e.title for e in ends if e.target or (e.landmark is not None and e.landmark.box is not None)]
    if boxes:
        what += " (the middle of the box)" if len(boxes) == 1 else " (the middles of the boxes)"
    number = len(steps) + 1
    arguments: JsonMap = {
        "image_paths": [scene.scene_id],
        "objective": what,
        "mode": "measurement",
        "landmarks": landmarks,
        "landmarks_method": method,
    }
    how = (
        "from north, clockwise, on WGS 84"
        if asked.measure == "azimuth"
        else ("geodesic on WGS 84" if scene.grid.crs is not None else "in pixels" if unit == "px" else "pixels times GSD")
    )
    step = PlanStep(step=number, tool="perceive", arguments=arguments, why=f"{what}, {how}.", needs=tuple(s.step for s in steps))
    options: JsonMap = {"phrase": what}
    kind = "value"
    if question.choices:
        options, kind = {**options, "of": "value", "mode": "nearest"}, "choice"
    warnings: tuple[str, ...] = ()
    if steps:
        warnings = ("A detector says where they are: it may have missed one or taken something else for one. Look at its boxes.",)
    if unit == "px":
        why = "The image has neither a coordinate system nor a GSD, so the distance is in pixels; set the GSD for metres."
        warnings = (*warnings, why)
    return Plan(
        task=task,
        steps=(*steps, step),
        answer=AnswerRecipe(kind=kind, steps=(number,), unit=unit, options=options),
        planner=planner,
        understood=f"{what} on {scene.name}.",
        warnings=warnings,
    )


def _ends(question: Question, asked: _Asked, signs: dict[str, str]) -> tuple[_End, _End]:
    if asked.things:
        words = lexicon()
        noun = re.sub(rf"^{_SET} ", "", asked.things)
        target = next((k for k, o in words.objects.items() if noun == o.title[1] or (noun in o.words and noun != o.title[0])), "")
        if not target:
            raise _NotOursError
        one = words.objects[target].title[0]
        return _End(f"{one} 1", target=target), _End(f"{one} 2", target=target)
    if asked.measure == "azimuth" and not any(asked.ends):
        raise _RefusalError("A bearing goes from one place to another: say from which to which, like “the bearing from A to B”.")
    if not any(asked.ends):
        if not question.landmarks and question.vectors and "marked" not in question.text.lower():
            raise _NotOursError
        return _mark(question, "A"), _mark(question, "B")
    start, end = (_end(question, text, signs) for text in asked.ends)
    if start.title == end.title:
        raise _RefusalError("Both ends are the same; a distance is that between two places.")
    return start, end


def _scene(question: Question, marks: list[tuple[str, Landmark]]) -> SceneInfo:
    """The image on which it is measured: the finest of those on which all marks lie."""
    if not question.scenes:
        raise _RefusalError("Marked places are measured on an image; add one.", "NO_ANSWER", {"scenes": True})
    is_of_pixels = any(m.crs == "image" for _, m in marks)
    if len(question.scenes) > 1 and (is_of_pixels or not marks):
        raise _RefusalError(
            f"Pixels belong to one image, and the question has {len(question.scenes)}. Ask about one of them."
            if is_of_pixels
            else "The things are looked for in one image; choose one.",
            "NO_ANSWER",
            {"scenes": 1},
        )
    if any(m.crs == "EPSG:4326" for _, m in marks) and not any(s.grid.crs for s in question.scenes):
        raise _RefusalError(
            "The image has no coordinate system, so longitude and latitude have no place on it. Give column and row.",
            "NEEDS_CRS",
            {"crs": True},
        )
    outside = {
        title
        for title, m in marks
        if not any(pixel_on(s.grid, *m.middle, m.crs) for s in question.scenes if s.grid.crs or m.crs == "image")
    }
    if outside:
        raise _RefusalError(
            f"{' and '.join(sorted(outside))} {'lies' if len(outside) == 1 else 'lie'} outside the image. Latitude is "
            "written first in words, and second in the fields of the marks.",
            "NEEDS_LANDMARKS",
            {"landmarks": sorted(outside & {"A", "B"})},
        )
    able = [
        s
        for s in question.scenes
        if all((s.grid.crs or m.crs == "image") and pixel_on(s.grid, *m.middle, m.crs) for _, m in marks)
    ]
    if not able:
        raise _RefusalError("The two places lie on different images; mark both on one.", "NEEDS_LANDMARKS", {"landmarks": ["B"]})
    return min(able, key=lambda s: (s.effective_gsd_m or float("inf"), s.scene_id))


def _asked_unit(question: Question, asked: _Asked, scene: SceneInfo) -> str:
    """deg, m, km, … or px."""
    if asked.measure == "azimuth":
        if asked.unit not in ("", "deg"):
            raise _RefusalError("A bearing is given in degrees.", "BAD_ARGUMENT")
        if scene.grid.crs is None:
            raise _RefusalError(
                "The image has no coordinate system, so nobody knows where its north is.", "NEEDS_CRS", {"crs": True}
            )
        return "deg"
    unit = asked.unit
    if not unit:
        named = {
            unit_of(u[0] if isinstance(u, tuple) else u) or ""
            for text in question.choices.values()
            for u in re.findall(rf"\d\s*({UNIT_PATTERN})(?![\w²^])", text.lower())
        }
        unit = named.pop() if len(named) == 1 else ""
    if unit not in ("", "px") and dimension(unit) != "length":
        raise _RefusalError(f"A distance is not given in {asked.unit or unit}.", "BAD_ARGUMENT")
    has_scale = scene.effective_gsd_m is not None
    if unit == "px" and has_scale:
        raise _RefusalError(
            "The image tells how large a pixel is, so the distance is given in metres; the evidence tells the pixels.",
            "BAD_ARGUMENT",
        )
    if unit not in ("", "px") and not has_scale:
        raise _RefusalError(
            f"{scene.name} has neither a coordinate system nor a GSD, so a distance on it has no {unit}. Set how many metres a "
            "pixel measures, or ask for pixels.",
            "NEEDS_GSD",
            {"gsd_m": True},
        )
    return unit or ("m" if has_scale else "px")


def _found(question: Question, scene: SceneInfo, ends: tuple[_End, _End]) -> tuple[list[PlanStep], list[Any]]:
    """Steps that find the things, and the landmarks as arguments."""
    steps: list[PlanStep] = []
    landmarks: list[Any] = []
    step_of: dict[str, int] = {}
    for end in ends:
        if end.landmark is not None:
            given = end.landmark.model_dump(mode="json", exclude_none=True)
            landmarks.append({**given, "name": end.title[:80]})
            continue
        if end.target not in step_of:
            only = question.model_copy(update={"scenes": (scene,), "choices": {}})
            counted = plan_from_form(only, Form(what="count", target=end.target))
            look = next((s for s in counted.steps if s.tool == "perceive"), None)
            if look is None:
                raise _RefusalError(
                    counted.reason or f"{end.title} cannot be looked for.", counted.code or "NO_ANSWER", counted.needs
                )
            step_of[end.target] = len(steps) + 1
            steps.append(look.model_copy(update={"step": len(steps) + 1}))
        landmarks.append(
            {
                "name": end.title[:80],
                "layer": step_reference(step_of[end.target], end.target),
                "index": 1 if end.title == f"{lexicon().objects[end.target].title[0]} 2" else 0,
            }
        )
    return steps, landmarks
