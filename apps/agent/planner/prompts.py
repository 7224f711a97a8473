"""Questions about what was marked on the picture: "segment what I marked", "how large is this?", "the area of this lake in ha".

Where marks are given and the words point at something in a way that is not read, the question is refused; where they are about
something else, the plan says that the marks play no part. Where none is given and the words point at something, the plan asks for
a mark (NEEDS_PROMPTS). What the thing is called is the person's word; the mask is what the
marks show.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from apps.agent.planner.text import Text
from apps.agent.units import UNIT_PATTERN, dimension, unit_of
from apps.core.evidence.landmark import pixel_on
from apps.core.evidence.observation import JsonMap, TaskRef
from apps.core.evidence.plan import AnswerRecipe, Plan, PlanStep, Question
from apps.core.evidence.prompt import Prompt
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import step_reference

TARGET = "what was marked"
# Longer texts are not read: patterns of words take time by the square of their length.
LONGEST = 400
HOW_TO_ASK = "Ask “segment what I marked” or “how large is what I marked?”"
_DONE = r"(?:marked|clicked(?: on)?|selected|pointed (?:at|to)|drawn|scribbled(?: on| over)?|boxed|prompted)"
_WORD = (
    r"(?!(?:cover|have|measure|take|occupy|out|in|on|and|to|from|apart|away|as|of|or|with|at|two|both|that|which|i|we|under|inside|within|"
    r"images?|scenes?|pictures?|photos?|rasters?|tiles?|maps?|regions?|polygons?|rectangles?|points?|places?|positions?)\b)[a-z][a-z\-]+"
)
_NOUN = rf"{_WORD}(?: {_WORD})?"
_BY_ME = (
    rf"(?:(?: that| which)? (?:i|we) (?:have |had |just )?{_DONE}| (?:that|which) (?:is|was) {_DONE}"
    r"| (?:under|at|inside) my marks?)"
)
_MARKED = (
    rf"(?:what(?:ever)? (?:i|we) (?:have |had |just )?{_DONE}|what (?:is|was) {_DONE}"
    rf"|the {_DONE} (?:thing|(?P<noun1>{_NOUN}))|(?:the|this|that) (?:thing|(?P<noun2>{_NOUN})){_BY_ME}|my marks?)"
)
_THIS = rf"(?:(?:this|that) (?:thing|(?P<noun3>{_NOUN}))|this|that|it)"
_THE = rf"the (?:thing|(?P<noun4>{_NOUN}))"
_X = rf"(?:(?P<marked>{_MARKED})|(?P<this>{_THIS})|(?P<the>{_THE}))"
_UNIT = rf"(?:{UNIT_PATTERN}|pixels?|px)"
_IN = rf"(?:(?:expressed |given |measured )?in (?P<unit>{_UNIT})|\((?:in )?(?P<unit_b>{_UNIT})\))"
_ON = r"(?: (?:here|(?:in|on) (?:the|this) (?:image|scene|picture|map|photo)))?"
_ASK = (
    r"(?:(?:what(?:'s| is| was| would be)?|give(?: me)?|tell(?: me)?|measure|compute|calculate|find|determine|report|say|show)"
    r"(?: me)? )?(?:the )?"
)
_EDGE = r"(?:perimeter|circumference|(?:length of (?:the |its )?)?(?:outline|edge|border|boundary|shoreline|contour)(?: length)?)"
_AREA = r"(?:total |surface |ground )?(?:area|size|extent|surface)(?: covered)?"
_FIGURE = rf"(?:(?P<area>{_AREA})|(?P<edge>{_EDGE}))"
_CUT = r"(?:segment|outline|delineate|trace|mask|cut out|extract|find the outline of|show the outline of|draw the outline of)"
_ALSO = (
    r"(?:,? and|,|;|\.) (?:then )?(?:(?:give|tell|show|measure|compute|calculate|report|say)(?: me)? )?"
    rf"(?:(?:what (?:is )?)?(?:its|the) {_FIGURE}(?: of it| is)?|how (?:large|big) (?:it is|is it))"
)
_PATTERNS = tuple(
    re.compile(rf"{p}{_ON}(?:,? ?{_IN})?{_ON}")
    for p in (
        rf"(?P<cut>{_CUT}) {_X}(?: out)?{_ON}(?P<also>{_ALSO})?",
        rf"how (?:large|big) (?:is|was) {_X}",
        rf"{_ASK}{_FIGURE} (?:of|covered by) {_X}",
        rf"how many (?P<many>{_UNIT}) (?:is|does|has|measures|covers) {_X}(?: (?:cover|have|has|measure|take up|large|in area))?",
        rf"how much (?:area|ground|land|space|surface) does {_X} (?:cover|have|take up|occupy)",
        rf"how long is (?:the |its )?(?P<edge>{_EDGE}) of {_X}",
    )
)


# Words that may mean what is marked.
_POINTS = re.compile(
    r"\b(?:(?:this|that|it)(?! (?:image|scene|picture|photo|raster|tile|map|region|year|month|day))|mark\w*|click\w*|scribbl\w*|"
    r"segment\w*|outlin\w*|delineat\w*|trace|select\w*|prompt\w*|my (?:points?|box|strokes?))\b",
    re.IGNORECASE,
)


class _RefusalError(Exception):
    """Inside this module: why there is no plan."""

    def __init__(self, reason: str, code: str = "NO_ANSWER", needs: dict[str, Any] | None = None):
        self.reason, self.code, self.needs = reason, code, needs or {}
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class _Asked:
    is_perimeter: bool
    unit: str
    noun: str
    # marked: the words speak of marks; this: they point at something; the: they name it
    how: Literal["marked", "this", "the"]
    is_cut: bool


def plan_prompts(question: Question, planner: str = "offline") -> Plan | None:
    """The plan of such a question; None where nothing is marked and the words are about something else."""
    text = " ".join(question.text.split())
    asked = _read(text) if len(text) <= LONGEST else None
    if asked is None and not (question.prompts and _POINTS.search(text[:LONGEST])):
        return None
    if not question.prompts and (asked is None or not _points_at_something(asked, question)):
        return None
    form = "choice" if question.choices else "area"
    task = TaskRef(task_type="area_measurement", question=question.text, answer_form=form)
    try:
        if not question.prompts:
            raise _RefusalError(
                "Nothing is marked yet, and a picture holds many things. Mark the one that you mean on the map (Q): click "
                "inside it, drag a box about it, or draw a stroke over it; then ask again.",
                "NEEDS_PROMPTS",
                {"prompts": True},
            )
        if asked is None:
            raise _RefusalError(
                "Something is marked to be segmented, and the question does not speak of it alone. "
                f"{HOW_TO_ASK}, or clear the marks."
            )
        return _plan(question, asked, task, planner)
    except _RefusalError as why:
        return Plan(task=task, planner=planner, reason=why.reason, code=why.code, needs=why.needs)


def with_unused_marks(plan: Plan, question: Question) -> Plan:
    """A plan that is not about the marks, which says so where there are some."""
    if not question.prompts or not plan.steps:
        return plan
    told = f"What is marked plays no part in this question. {HOW_TO_ASK} to use it."
    return plan.model_copy(update={"warnings": (*plan.warnings, told)})


def _points_at_something(asked: _Asked, question: Question) -> bool:
    """Whether words without marks are about a thing that only a mark could show."""
    if question.region is not None or question.landmarks or asked.how == "the":
        return False
    return asked.is_cut or not question.vectors


def _read(text: str) -> _Asked | None:
    said = re.sub(r"\s+", " ", Text(text).text).strip(" ?.!")
    said = re.sub(r"^(?:please,? |hello,? |hi,? |(?:can|could|would) you (?:please )?)+", "", said)
    said = re.sub(r",? please$", "", said)
    for pattern in _PATTERNS:
        m = pattern.fullmatch(said)
        if m is None:
            continue
        g = m.groupdict()
        units = [u for u in (g.get("unit"), g.get("unit_b"), g.get("many")) if u]
        if len(units) > 1:
            return None
        unit = units[0] if units else ""
        unit = "px" if re.fullmatch(r"pixels?|px", unit) else unit_of(unit) or ""
        is_edge = bool(g.get("edge") or g.get("edge_b"))
        noun = next((g[k] for k in ("noun1", "noun2", "noun3", "noun4") if g.get(k)), "")
        how: Literal["marked", "this", "the"] = "marked" if g["marked"] else "this" if g["this"] else "the"
        if how == "the" and noun.endswith("s") and not noun.endswith("ss"):
            return None  # several are meant
        return _Asked(is_edge, unit, noun, how, bool(g.get("cut")))
    return None


# --- where the marks lie ------------------------------------------------------------------------------------------------------
def scenes_under(prompts: Sequence[Prompt], scenes: Sequence[SceneInfo]) -> list[SceneInfo]:
    """The scenes on which all marks lie, the finest first, and of equally fine ones the newest."""
    able = [
        s
        for s in scenes
        if all(p.crs == "image" or s.grid.crs is not None for p in prompts)
        and all(pixel_on(s.grid, x, y, p.crs) for p in prompts for x, y in p.corners)
    ]

    def order(s: SceneInfo) -> tuple[float, float, str]:
        return (s.effective_gsd_m or float("inf"), -(s.acquired_at.timestamp() if s.acquired_at else 0.0), s.scene_id)

    return sorted(able, key=order)


def method_of(prompts: Sequence[Prompt], scene: SceneInfo) -> JsonMap:
    """The marks as the tool takes them: in pixels of a scene on which they lie (see ``scenes_under``)."""
    points: list[Any] = []
    strokes: list[Any] = []
    box: list[float] | None = None
    for mark in prompts:
        at = [pixel_on(scene.grid, x, y, mark.crs) or (0.0, 0.0) for x, y in mark.corners]
        here = [[round(col, 3), round(row, 3)] for col, row in at]
        if mark.kind == "point":
            points.append([*here[0], int(mark.inside)])
        elif mark.kind == "stroke":
            strokes.append({"inside": mark.inside, "line": here})
        else:
            # a box of degrees is turned against the grid; the upright one about it holds it all
            cols, rows = zip(*here, strict=True)
            box = [min(cols), min(rows), max(cols), max(rows)]
    return {"kind": "prompt", "points": points, "box": [*box] if box else None, "scribbles": strokes, "model": "best"}


# --- planning -----------------------------------------------------------------------------------------------------------------
def _plan(question: Question, asked: _Asked, task: TaskRef, planner: str) -> Plan:
    if not question.scenes:
        raise _RefusalError("Marks are segmented on an image; add one.", "NO_ANSWER", {"scenes": True})
    able = scenes_under(question.prompts, question.scenes)
    if not able:
        raise _RefusalError("No image holds all marks; mark one thing on one image.", "NEEDS_PROMPTS", {"prompts": True})
    scene = able[0]
    has_scale = scene.grid.crs is not None or scene.effective_gsd_m is not None
    unit = _unit(asked, scene, has_scale=has_scale)
    region: JsonMap = {"region": question.region, "region_crs": question.region_crs} if question.region is not None else {}
    place = " in the region" if region else ""
    look: JsonMap = {
        "image_paths": [scene.scene_id],
        "objective": f"The outline of what was marked on {scene.name}"[:1000],
        "mode": "regions",
        "target_groups": {TARGET: []},
        "regions_method": method_of(question.prompts, scene),
        **region,
    }
    steps = [PlanStep(step=1, tool="perceive", arguments=look, why=f"Segment what is marked: {marks_text(question.prompts)}.")]
    # the figure is the mask's, whoever looks says whether that is the thing
    phrase = f"Area of the mask that grew from the marks{place}"
    options: JsonMap = {"phrase": phrase}
    kind = "value"
    if unit == "px":
        kind, options = "reading", {**options, "path": ["mask_px"], "is_count": True}
    else:
        source: JsonMap = {"name": TARGET, "mode": "regions", "layer": step_reference(1)}
        if scene.grid.crs is None and scene.effective_gsd_m is not None:
            source["gsd_m"] = scene.effective_gsd_m
        spec: JsonMap = {"metric": "area", "subject": TARGET, "unit": unit}
        measure: JsonMap = {"sources": [source], "spec": spec, **region}
        steps.append(PlanStep(step=2, tool="measure", arguments=measure, why=f"{phrase}.", needs=(1,)))
    if question.choices:
        options, kind = {**options, "of": kind, "mode": "nearest"}, "choice"
    return Plan(
        task=task,
        steps=tuple(steps),
        answer=AnswerRecipe(kind=kind, steps=(steps[-1].step,), unit=unit, options=options),
        planner=planner,
        understood=f"{phrase}, on {scene.name}.",
        warnings=_warnings(question.prompts, asked, able, unit, is_asked=bool(asked.unit)),
    )


def _unit(asked: _Asked, scene: SceneInfo, *, has_scale: bool) -> str:
    """The unit of the area: the one asked for, else m², or pixels where nobody knows the scale."""
    if asked.is_perimeter:
        raise _RefusalError(
            "The perimeter of a mask is not measured: the stairs of its pixels would make it up to a quarter too long. Ask for "
            "its area, or trace its outline on the map (X)."
        )
    if asked.unit == "px" and has_scale:
        raise _RefusalError(
            "The image tells how large a pixel is, so it is measured on the ground; the evidence tells the pixels.",
            "BAD_ARGUMENT",
        )
    if asked.unit not in ("", "px") and dimension(asked.unit) != "area":
        raise _RefusalError(f"An area is not given in {asked.unit}.", "BAD_ARGUMENT")
    if has_scale:
        return asked.unit or "m2"
    if asked.unit not in ("", "px"):
        raise _RefusalError(
            f"{scene.name} has neither a coordinate system nor a GSD, so nothing on it has a size on the ground. Set how many "
            "metres a pixel measures.",
            "NEEDS_GSD",
            {"gsd_m": True},
        )
    return "px"


def _warnings(
    prompts: Sequence[Prompt], asked: _Asked, able: Sequence[SceneInfo], unit: str, *, is_asked: bool
) -> tuple[str, ...]:
    out = [_trust(prompts)]
    if asked.noun:
        out.append(f"That it is a {asked.noun} is your word: nothing but its outline was looked for.")
    if len(able) > 1:
        out.append(f"The marks lie on {len(able)} of the images; the finest and newest was taken, {able[0].name}.")
    if unit == "px" and not is_asked:
        out.append("The image has neither a coordinate system nor a GSD, so the size is in pixels; set the GSD for metres.")
    return tuple(out)


def _trust(prompts: Sequence[Prompt]) -> str:
    """How often such a mask was the thing. Measured on 14 labelled water bodies and 14 buildings, see docs/coverage.md."""
    if any(p.kind == "box" for p in prompts):
        overlap = "0.56 to 0.69"
    elif any(p.kind == "stroke" for p in prompts):
        overlap = "0.54 to 0.61"
    else:
        overlap = "0.39" if len(prompts) == 1 else "0.39 to 0.44"
    return (
        "Only a look tells whether the mask is the thing, and its interval does not: by the classical method, masks from such "
        f"marks overlapped labelled water bodies and buildings by {overlap} (IoU, mean of 28), some areas several times too "
        "small or large. A mask that comes out otherwise when it is grown again waits for a person. See it on the map; mark more "
        "where it leaks or stops short."
    )


def marks_text(prompts: Sequence[Prompt]) -> str:
    """'2 points inside, 1 stroke outside, a box'."""
    parts = []
    for kind in ("point", "stroke"):
        for inside in (True, False):
            if n := sum(p.kind == kind and p.inside == inside for p in prompts):
                parts.append(f"{n} {kind}{'' if n == 1 else 's'} {'inside' if inside else 'outside'}")
    if any(p.kind == "box" for p in prompts):
        parts.append("a box")
    return ", ".join(parts)
