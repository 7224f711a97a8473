"""Questions about the kind of place: "what kind of land cover is this?", "is this a forest or a city?".

A question is read only where it says nothing else; every other one goes to the parser of measurements. Which labels a model knows
at the scene's GSD is the tool's to say.
"""

from __future__ import annotations

import re

from apps.core.evidence.observation import JsonMap, TaskRef
from apps.core.evidence.plan import AnswerRecipe, Plan, PlanStep, Question
from apps.core.geo.scene import SceneInfo

# What can be asked for by name; the models' cards know more words.
PLACES = frozenset("""
forest woodland woods city town village settlement urban|area built-up|area residential|area suburb industrial|area factory
commercial|area farmland cropland crops field fields agricultural|land agricultural|area agriculture annual|crop permanent|crop
pasture meadow grassland herbaceous|vegetation shrubland orchard vineyard river lake sea water highway motorway freeway road
airport runway harbor harbour port marina beach parking|lot car|park golf|course desert intersection overpass
""".replace("\n", " ").split())
_PLACE = "|".join(sorted((re.escape(p).replace(r"\|", "[ -]") for p in PLACES), key=len, reverse=True))
_THIS = r"(?:this|that|it|here|(?:the|this|that|my|our) (?:image|scene|picture|photo|tile|area|place|region|patch|raster))"
_COVER = (r"(?:(?:land[- ]?cover|land[- ]?use|land use (?:and|or|/) land cover|surface cover)(?: (?:class|type|kind|category))?"
          r"|landscape|scene(?: (?:class|type|category))?|place|terrain)")
_MAIN = r"(?:(?:main|dominant|predominant|prevailing|most common) )?"
_IN = (rf"(?: (?:is|does|do|can be seen|is seen|is shown)?(?: ?(?:in|on|of|at|for))? ?{_THIS}"
       r"(?: shows?| show| belong to| contain)?)?")
_OPEN = re.compile(
    rf"(?:what|which) (?:(?:kind|type|sort|class)s? of )?{_MAIN}{_COVER}{_IN}(?: (?:mostly|mainly|predominantly|shown|seen))?"
    rf"|what (?:is|are) the {_MAIN}(?:(?:kind|type|class|category) of )?{_COVER}{_IN}"
    rf"|what(?: is|'s) {_THIS} (?:of|used for)"
    rf"|classify (?:the )?(?:{_COVER}(?: (?:of|in|on) {_THIS})?|{_THIS})(?: by {_COVER})?")
_MOSTLY = r"(?:(?:mostly|mainly|predominantly|rather|more likely|either) )?"
_ARTICLE = r"(?:(?:an|a|the|of|in) ){0,2}"
_EITHER = re.compile(
    rf"(?:is|does|do|was)(?: there)? (?:{_THIS}|the {_MAIN}{_COVER}(?: (?:of|in|on) {_THIS})?)(?: show)? {_MOSTLY}{_ARTICLE}"
    rf"(?P<one>{_PLACE})(?P<more>(?:,? (?:or )?{_ARTICLE}(?:{_PLACE}))*)(?: (?:shown|seen))?")


def reads_place(question: Question) -> tuple[str, ...] | None:
    """Labels to choose between, () for the model's own classes, None where the question is about something else."""
    text = re.sub(r"\s+", " ", question.text.strip().lower()).strip(" ?.!")
    text = re.sub(r"^(?:please |tell me |say )+", "", text)
    if _OPEN.fullmatch(text):
        options = tuple(dict.fromkeys(_plain(v) for v in question.choices.values()))
        return options if all(re.search(r"[a-z]", o) and not re.search(r"\d", o) for o in options) else None
    m = _EITHER.fullmatch(text)
    if m is None:
        return None
    found = [m["one"], *re.findall(rf"\b({_PLACE})\b", m["more"])]
    if question.choices:
        return tuple(dict.fromkeys(_plain(v) for v in question.choices.values())) if len(found) > 1 else None
    # one label alone is not forced upon the picture: the model names what it sees
    return tuple(dict.fromkeys(found)) if len(found) > 1 else ()


def plan_place(question: Question, planner: str = "offline") -> Plan | None:
    """The plan of such a question; None where it is about something else."""
    labels = reads_place(question)
    if labels is None:
        return None
    choice = bool(question.choices)
    task = TaskRef(task_type="scene_classification", question=question.text, answer_form="choice" if choice else "class")
    among = f" among {', '.join(labels)}" if labels else ""

    def none(reason: str, code: str, needs: JsonMap) -> Plan:
        return Plan(task=task, planner=planner, reason=reason, code=code, needs=needs)

    if len(question.scenes) != 1:
        return none(f"The kind of place is told of one image; the question has {len(question.scenes)}. Ask about one of them.",
                    "NO_ANSWER", {"scenes": 1})
    scene = question.scenes[0]
    missing = _missing(scene)
    if missing:
        return none("The kind of place is told from red, green and blue; "
                    f"{scene.name} has no band known as {', '.join(missing)}.", "NEEDS_BANDS", {"roles": [*missing]})
    if scene.effective_gsd_m is None:
        return none("Nobody knows how many metres a pixel has, and each scene classifier was made for one size of pixel. "
                    "Say the GSD.", "NEEDS_GSD", {"gsd_m": True})
    arguments: JsonMap = {"image_paths": [scene.scene_id], "objective": question.text[:1000], "mode": "scene",
                          "label_space": list(labels)}
    if question.region is not None:
        arguments = {**arguments, "region": question.region, "region_crs": question.region_crs}
    step = PlanStep(step=1, tool="perceive", arguments=arguments,
                    why=f"Kind of place{among}, by the scene classifier made for this GSD and sensor.")
    recipe = AnswerRecipe(kind="choice" if choice else "text", steps=(1,), unit="1",
                          options={"phrase": "kind of place", **({"of": "text", "mode": "match"} if choice else {})})
    return Plan(task=task, steps=(step,), answer=recipe, planner=planner,
                understood=f"Which kind of place {scene.name} shows{among}.")


def _missing(scene: SceneInfo) -> list[str]:
    if sum(1 for b in scene.bands if b.role in ("pan", "gray")) == 1:
        return []
    return [r for r in ("red", "green", "blue") if len(scene.bands_with_role(r)) != 1]


def _plain(text: str) -> str:
    return re.sub(r"^(?:an?|the) ", "", re.sub(r"\s+", " ", text.strip().lower()).strip(" .?!"))
