"""What the planner can answer, by kinds: a refusal names those nearest to what was asked, and where all of them stand."""

from __future__ import annotations

import re

# Each kind as it is told, and the beginnings of words by which a question comes near to it.
KINDS: tuple[tuple[str, str], ...] = (
    ("how many objects of a kind", r"how many|number|count|object|car|vehicle|ship|boat|plane|tree"),
    ("whether there are any", r"(?:is|are) there|any|exist|contain"),
    (
        "how much area or which share is water, vegetation, bare or built-up land, snow, burned land, or none of one of them",
        r"area|share|percent|%|hectare|how (?:much|large)|water|veget|bare|built|snow|burn|land|cover|forest|flood|river|lake",
    ),
    (
        "how much area or which share has an index above or below a number",
        r"above|below|over|under|thresh|index|nd[vw]|area|share",
    ),
    (
        "mean, median, minimum, maximum, standard deviation or trend of an index or band",
        r"mean|averag|median|min|max|std|stand|trend|nd[vw]|index|band|temper|eleva|bright",
    ),
    ("differences between two dates", r"chang|differ|lost|loss|gain|between|since|grow|grew|shrank|before|after"),
    ("on which date something is highest or lowest", r"when|date|day|month|year|peak"),
    ("which of two is larger", r"which|larger|smaller|bigger|longer|shorter|compar|than|two"),
    ("the distance between two things or places", r"how (?:far|close)|distan|near|km|apart"),
    (
        "how many objects or features of a vector file lie within a distance of something or beyond, inside it, or north of it",
        r"within|inside|outside|north|south|east|west|near|beyond|how many",
    ),
    (
        "which length, area or share of lines and polygons lies inside polygons or near to something",
        r"length|long|road|line|inside|within|area|share",
    ),
    (
        "any of these inside the polygons of a vector file, in each of them as a table, and which polygon has most of it",
        r"each|every|per|field|polygon|count(?:y|ies)|district|parcel|most|least|table",
    ),
    (
        "which things are the largest, second largest or nearest, their mean size and perimeter, several conditions at once",
        r"larg|small|nearest|second|size|perimet|longest|short",
    ),
    ("how many more there are here than there", r"more|fewer|than"),
    ("multiple choice over these", r"choice|choose|option"),
)
SHOWN = 3
WHERE_ALL = "All that I can answer stands in docs/agent.md, “What can be asked”."


def can_do(text: str) -> str:
    """The few kinds nearest to a question's words, and where the whole list is."""
    low = text.lower()
    near = [len(set(re.findall(rf"(?<!\w)(?:{stems})", low))) for _, stems in KINDS]
    # of kinds alike near, and where none is, the plainer ones, which come first
    first = sorted(range(len(KINDS)), key=lambda i: -near[i])[:SHOWN]
    return f"I can answer, nearest to this: {'; '.join(KINDS[i][0] for i in first)}. {WHERE_ALL}"
