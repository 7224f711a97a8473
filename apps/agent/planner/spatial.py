"""Words that name places: vector files by name or by what they hold, their features, coordinates.

File and feature names are compared with the words and become one sign each before anything else is read, so that nothing in
a name is ever read as a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from apps.agent.planner.attributes import part_signs
from apps.agent.planner.lexicon import lexicon
from apps.agent.planner.named_parts import join_named
from apps.agent.planner.relations import COUNTS
from apps.agent.planner.rewritten import rewritten
from apps.agent.units import UNIT_PATTERN, unit_of
from apps.core.evidence.plan import Question
from apps.core.geo.vector import VectorInfo

# Signs of the private use area stand for the things that were found: no pattern of words matches them.
FIRST = 0xE000
SIGN = "[\ue000-\ue3ff]"
# What people call the features of any file.
_GENERIC = (
    "polygon|feature|point|line|shape|geometry|geometries|zone|record|object|field|parcel|plot|site|station|place|location|"
    "district|county|counties|municipality|municipalities|tract|block|commune|province|state|country|countries|"
    "neighbourhood|neighborhood|catchment|basin|road|street|path|track|railway|footprint|outline|unit|cell"
)
_NOUN = rf"(?:{_GENERIC})(?:e?s)?"
# Those of places, in singular: what else stands in one file with a place that is named.
_PLACE_NOUNS = "|".join(w for w in _GENERIC.split("|") if not w.endswith("ies") and w not in ("object", "record", "geometry"))
_PLACE_NOUNS += "|countrie|countie|municipalitie"
# Nouns that stand before a letter or number that names an area.
_AREA_NOUN = r"(?:polygon|zone|area|field|parcel|plot|site|district|county|region|block|basin|catchment|province|state|country)"
# Words of questions that are no name of what a file holds, whatever the file is called.
_ASKING = frozenset({
    "far", "close", "long", "near", "nearest", "area", "distance", "length", "share", "ratio", "density", "count", "number",
    "mean", "average", "median", "minimum", "maximum", "lowest", "highest", "largest", "smallest", "most", "least", "trend",
    "change", "difference", "north", "south", "east", "west", "between", "inside", "within", "cloud", "clouds", "quality",
    "mask", "band", "index", "date", "data", "test", "map", "layer", "file", "vector", "export", "final", "new", "copy",
    "output", "result", "sample",
})  # fmt: skip
_UNITS = rf"(?:{UNIT_PATTERN})(?![a-z])"


@dataclass(slots=True)
class Found:
    """What was put in place of names: sign → key (see ``things``), and why nothing can be done where something is wrong; ``by``:
    the attribute whose values the rows of a table are; ``parts``: features chosen by a value, as files of their own."""

    text: str
    keys: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    needs: dict[str, object] = field(default_factory=dict)
    by: str = ""
    parts: list[VectorInfo] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    n_signs: int = 0

    def sign(self, key: str) -> str:
        held = next((s for s, k in self.keys.items() if k == key), None)
        if held is None:
            held = chr(FIRST + self.n_signs)
            self.n_signs += 1
            self.keys[held] = key
        return held


def put_signs(text: str, question: Question) -> Found:
    """The small-lettered question with a sign in place of each file, feature and coordinate that it names."""
    out = Found(rewritten(text))
    _coordinates(out)
    _files(out, question.vectors, question)
    _features(out, question.vectors, question.text, has_image=bool(question.scenes))
    if not out.reason and any(v.fields for v in question.vectors):
        part_signs(out, question, _noun_of, plain_words())
    if not out.reason:
        _attribute(out, question.vectors, is_called_so=True)
    if not out.reason:
        _held(out, question.vectors, question)
    if not out.reason and not out.by:
        _attribute(out, question.vectors, is_called_so=False)
    if not out.reason and not out.keys and question.vectors:
        _only_file(out, question.vectors, has_image=bool(question.scenes))
    if not out.reason and question.vectors:
        _each_of_the_file(out, question.vectors)
        _others_of_the_file(out, question)
    if not out.reason:
        join_named(out, question)
    if out.keys:
        out.text = re.sub(" +", " ", out.text)
    return out


def plain_words() -> frozenset[str]:
    """Words that mean something of their own where they stand right before a thing."""
    words = lexicon()
    return frozenset({
        *_ASKING, *COUNTS, *words.fillers, *words.cannot, "all", "any", "total", "single", "same", "other", "whole", "each",
        "longest", "shortest", "biggest", "greatest", "closest", "smaller", "larger", "many", "which", "what", "of", "not",
        *(w for i in words.indices.values() for w in i.words), *(w for b in words.bands.values() for w in b.words),
        *(w for e in words.targets.values() for w in (*e.words, *e.narrower)),
        *(w for o in words.objects.values() for w in o.words),
    })  # fmt: skip


def _replace(out: Found, pattern: str, key: str) -> bool:
    if not re.search(pattern, out.text):
        return False
    out.text = re.sub(pattern, f" {out.sign(key)} ", out.text)
    return True


def _coordinates(out: Found) -> None:
    number = r"[-+]?\d{1,3}(?:\.\d+)?"
    word = r"(?:lat(?:itude)?|lon(?:gitude)?|long)?\.?\s*[:=]?\s*"
    pair = re.compile(
        rf"(?<![\w.,/-])\(?(?P<w1>{word})(?P<a>{number})\s*°?\s*(?P<h1>[nsew](?![a-z]))?\s*[,;/ ]\s*"
        rf"(?P<w2>{word})(?P<b>{number})\s*°?\s*(?P<h2>[nsew](?![a-z]))?\s*\)?(?![\w]|\.\d|,\d)"
    )

    def one(m: re.Match[str]) -> str:
        a, b = float(m["a"]), float(m["b"])
        h1, h2, w1, w2 = m["h1"] or "", m["h2"] or "", m["w1"].strip(), m["w2"].strip()
        is_told = bool((h1 and h2) or (w1 and w2))
        is_decimal = "." in m["a"] and "." in m["b"] and "," in m[0]
        if not is_told and not is_decimal:
            return m[0]
        first_is_lon = h1 in ("e", "w") if h1 else w1.startswith("lo")
        lon, lat = (a, b) if first_is_lon else (b, a)
        for hemisphere in (h1, h2):
            if hemisphere == "s":
                lat = -abs(lat)
            elif hemisphere == "w":
                lon = -abs(lon)
        if not (-90 <= lat <= 90 and -180 <= lon <= 180):
            out.reason = (
                f"“{m[0].strip()}” is no place: I read latitude {lat:g} and longitude {lon:g}. Give latitude first, as in "
                "48.1, 11.5, or say which is which: 11.5E 48.1N."
            )
            return m[0]
        return f" {out.sign(f'place:{lon!r},{lat!r}')} "

    out.text = pair.sub(one, out.text)

    def pixel(m: re.Match[str]) -> str:
        return f" {out.sign(f'px:{float(m[1])!r},{float(m[2])!r}')} "

    out.text = re.sub(r"\b(?:pixel|px)\s*\(?\s*(\d+(?:\.\d+)?)\s*,\s*(\d+(?:\.\d+)?)\s*\)?(?![\w])", pixel, out.text)


def _stem(vector: VectorInfo) -> str:
    return vector.name.lower().rsplit(".", 1)[0]


def _singular(word: str) -> str:
    for end, instead in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("s", "")):
        if word.endswith(end) and not word.endswith("ss") and len(word) > len(end) + 2:
            return word[: -len(end)] + instead
    return word


def _noun_of(vector: VectorInfo) -> str:
    """A pattern of the last word of a file's name, in singular and plural: roads.kml holds roads."""
    words = re.findall(r"[a-z]{3,}", _stem(vector))
    if not words:
        return ""
    one = _singular(words[-1])
    many = f"{one[:-1]}ies" if one.endswith("y") else f"{one}e?s"
    return rf"(?:{re.escape(one)}|{many}|{re.escape(words[-1])})"


def _files(out: Found, vectors: Iterable[VectorInfo], question: Question) -> None:
    names: dict[str, list[VectorInfo]] = {}
    for v in vectors:
        names.setdefault(v.name.lower(), []).append(v)
    for v in sorted(vectors, key=lambda v: -len(v.name)):
        name, stem = v.name.lower(), _stem(v)
        key = f"vector:{v.vector_id}"
        # "the points in fields.geojson" where it holds polygons is something else
        own = v.noun.removesuffix("s")
        generic = "|".join(w for w in _GENERIC.split("|") if w not in ("polygon", "point", "line") or w == own)
        # and "the roads in fields.geojson" are those of roads.kml where it is at hand
        others = "|".join(p for o in vectors if o is not v and (p := _noun_of(o)))
        unlike = rf"(?!(?:{others})\b)" if others else ""
        noun = "|".join(filter(None, [rf"{unlike}(?:{generic})(?:e?s)?", _noun_of(v)]))
        for called in (name, stem if len(stem) >= 4 and (re.search(r"[\d_\-]", stem)) else ""):
            if not called:
                continue
            file = (
                rf"(?:the |this |that )?(?:(?:vector )?(?:file|layer|dataset|table) )?[\"'“”‘’(]?(?<![\w.\-]){re.escape(called)}"
                rf"(?![\w\-])(?:'s)?[\"'“”’)]?(?: (?:file|layer|dataset))?"
            )
            if not re.search(file, out.text):
                continue
            if len(names[name]) > 1:
                out.reason = f"{len(names[name])} vector files are called “{v.name}”; choose one of them below the question."
                out.needs = {"vectors": [x.vector_id for x in names[name]]}
                return
            of = (
                rf"(?:(?:the |all |all the |all of the |any |any of the |these |of the )?(?:{noun}) "
                r"(?:(?:in|of|from|on|given (?:in|by)) )?)?"
            )
            _replace(out, rf"(?<!\w){of}{file}", key)
            _objects_of(out, v, key, question)


def _objects_of(out: Found, vector: VectorInfo, key: str, question: Question) -> None:
    """'the buildings in labels.geojson' are its features; where the file holds polygons and there is an image, they could also be
    buildings that are found in the image inside of them: then it is asked."""
    sign = out.sign(key)
    words = sorted((w for o in lexicon().objects.values() for w in o.words), key=len, reverse=True)
    noun = "|".join(re.escape(w) for w in words)
    pattern = rf"(?<!\w)(?:the|all|any|these)(?: of the)? (?P<noun>{noun}) (?:in|of|from) +{sign}"
    m = re.search(pattern, out.text)
    if m is None:
        return
    if vector.noun != "polygons" or not question.scenes:
        out.text = re.sub(pattern, f" {sign} ", out.text)
        return
    out.reason = (
        f"Do you mean the polygons of {vector.name} themselves, or {m['noun']} that are found in the image inside of them? Write "
        f"“the polygons in {vector.name}”, or “{m['noun']} inside {vector.name}”."
    )


def _held(out: Found, vectors: Iterable[VectorInfo], question: Question) -> None:
    """What a file holds, in the words of its name: "the roads" where roads.kml is at hand. A word that also names objects in an
    image is the file's where there is no image; where there is one, it is asked which is meant."""
    words = lexicon()
    objects = {w for o in words.objects.values() for w in o.words}
    taken = {
        *_ASKING,
        *(w for e in words.targets.values() for w in (*e.words, *e.narrower)),
        *(objects if question.scenes else ()),
        *(w for i in words.indices.values() for w in i.words),
        *words.fillers,
    }
    by_noun: dict[str, list[VectorInfo]] = {}
    unsure: list[tuple[VectorInfo, str]] = []
    for v in vectors:
        pattern = _noun_of(v)
        if question.scenes and pattern and any(re.fullmatch(pattern, w) for w in objects):
            unsure.append((v, rf"(?<![\w\-.])(?:{pattern})(?![\w\-]|\.\w)"))
            continue
        if pattern and not any(re.fullmatch(pattern, w) for w in taken):
            by_noun.setdefault(pattern, []).append(v)
    for pattern, held in by_noun.items():
        if len(held) == 1 and not any(re.fullmatch(pattern, w) for w in words.fillers):
            _replace(out, rf"(?<![\w\-.])(?:the )?(?:{pattern})(?![\w\-]|\.\w)", f"vector:{held[0].vector_id}")
    for v, pattern in unsure:
        _ask_which(out, v, pattern)


def _ask_which(out: Found, vector: VectorInfo, pattern: str) -> None:
    """ "The buildings" where there are an image and buildings.gpkg: those of the file, or those found in the image?"""
    is_named = f"vector:{vector.vector_id}" in out.keys.values()
    in_image = r"\b(?:detected|visible|seen|shown|found in|(?:in|on) (?:the|this) (?:image|picture|photo|scene))\b"
    is_told = re.search(in_image, out.text)
    said = re.search(pattern, out.text)
    if is_named or is_told or out.reason or not out.keys or said is None:
        return
    noun = said[0]
    out.reason = (
        f"Do you mean the {vector.noun} of {vector.name}, or {noun} that are found in the image? Write “the {vector.noun} in "
        f"{vector.name}”, or “{noun} found in the image”."
    )
    out.needs = {"vectors": [vector.vector_id]}


# "The S1 image", "from L8" speak of a satellite, whatever a feature is called.
_SENSOR = (
    r"\bCODE (?:images?|imagery|scenes?|data|acquisitions?|products?|pixels?|grd|sar|radar|backscatter|tiles?|series|bands?)\b|"
    r"\b(?:satellites?|sensors?|sentinel|landsat|taken by|acquired by|seen by) CODE\b"
)


def _features(out: Found, vectors: Iterable[VectorInfo], original: str, *, has_image: bool) -> None:
    owners: dict[str, list[tuple[VectorInfo, str]]] = {}
    for v in vectors:
        for name in v.names:
            owners.setdefault(name.lower(), []).append((v, name))
    words = lexicon()
    plain = {
        *words.fillers,
        *words.cannot,
        *(w for i in words.indices.values() for w in i.words),
        *(w for b in words.bands.values() for w in b.words),
        *(w for e in words.targets.values() for w in (*e.words, *e.narrower)),
        *(w for o in words.objects.values() for w in o.words),
    }
    for called, held in sorted(owners.items(), key=lambda o: -len(o[0])):
        if called not in out.text:
            continue
        noun = rf"(?:the )?(?:{_AREA_NOUN}|{_noun_of(held[0][0]) or _AREA_NOUN})"
        quoted = re.escape(called)
        patterns = [rf"(?<![\w\-]){noun} [\"'“]?{quoted}[\"'”]?(?:'s)?(?![\w\-])"]
        # "S3", "A-12": a letter or two with a number, which is no unit and no band
        is_code = re.fullmatch(r"[a-z]{1,3}[-_ ]?\d{1,4}[a-z]?", called) is not None and unit_of(called) is None
        is_code = is_code and not (re.fullmatch(r"b\d+a?", called.replace(" ", "")) and has_image)
        is_code = is_code and not re.search(_SENSOR.replace("CODE", re.escape(called)), out.text)
        if (len(called) >= 4 or is_code) and not called.isdigit() and called not in plain:
            patterns.append(rf"(?<![\w\-])(?:the )?[\"'“]?{quoted}[\"'”]?(?:'s)?(?: {_AREA_NOUN})?(?![\w\-])")
        elif len(called) >= 2 and not called.isdigit() and called not in plain:
            patterns.append(rf"(?<![\w\-])(?:the )?[\"'“]?{quoted}[\"'”]? {noun.removeprefix('(?:the )?')}(?:'s)?(?![\w\-])")
        for pattern in patterns:
            if not re.search(pattern, out.text):
                continue
            if len(held) > 1:
                files = ", ".join(v.name for v, _ in held)
                out.reason = f"“{held[0][1]}” is a feature of several files ({files}); name the file."
                return
            _replace(out, pattern, f"vector:{held[0][0].vector_id}:{held[0][1]}")
    # "NDVI in Larimer of counties.geojson": the file says nothing more than its feature
    for sign, key in list(out.keys.items()):
        if key.count(":") == 1 and key.startswith("vector:"):
            of = rf"(?<=[\ue000-\ue3ff] )\s*(?:in|of|from) +{sign}"
            inner = [s for s, k in out.keys.items() if k.startswith(f"{key}:")]
            if inner:
                out.text = re.sub(of, " ", out.text)
    # a letter or number that names an area which no file has
    lost = re.search(
        rf"(?<![\w\-]){_AREA_NOUN} (?P<which>[a-z]|\d{{1,4}}|[a-z]\d{{1,3}})(?![\w\-.])(?!\s*(?:%|{_UNITS}))", out.text
    )
    if lost and not out.reason and re.search(rf"\b{lost['which'].upper()}\b", original):
        out.reason = (
            f"I do not know “{lost[0]}”: add a vector file whose polygons have names and ask by those, or draw a region on the "
            "map."
        )
        out.needs = {"vectors": True}


# What the features of a file are called whatever it holds, by their kind.
_PLAINLY = {
    "polygons": r"(?:polygon|shape|feature|outline)s?", "lines": r"(?:line|polyline|shape|feature)s?",
    "points": r"(?:point|feature)s?", "features": r"(?:feature|shape)s?",
}  # fmt: skip


def _only_file(out: Found, vectors: Iterable[VectorInfo], *, has_image: bool) -> None:
    """'Which field has the highest NDVI?' asks of the one file of polygons there is; "the polygons" are those of the one file."""
    held = [v for v in vectors if v.noun in _PLAINLY]
    if len(held) == 1 and len(list(vectors)) == 1:
        plain = _PLAINLY[held[0].noun]
        _replace(out, rf"(?<![\w\-])(?:of the |the |all the |all |these )?{plain}(?![\w\-])", f"vector:{held[0].vector_id}")
        if out.keys:
            return
        if not has_image:
            # the one file is all there is to ask of
            extremes = ("largest", "biggest", "smallest", "longest", "shortest")
            extreme = "|".join(rf"(?<=\b{w} ){_NOUN}(?![\w\-])" for w in extremes)
            _replace(out, rf"(?<=\bhow many ){_NOUN}(?![\w\-])|(?<![\w\-])(?:the|all|all the|list|of the) {_NOUN}(?![\w\-])|"
                     rf"{extreme}", f"vector:{held[0].vector_id}")  # fmt: skip
            if out.keys:
                return
    if not re.search(rf"\b(?:which|what|in which|for which) (?:of the )?{_NOUN}\b", out.text):
        return
    held = [v for v in vectors if v.noun == "polygons" and v.n > 1]
    if len(held) == 1:
        _replace(out, rf"(?<=\bwhich )(?:of the )?{_NOUN}\b|(?<=\bwhat ){_NOUN}\b", f"vector:{held[0].vector_id}")
    elif len(held) > 1:
        out.reason = f"Of which file? There are {', '.join(v.name for v in held)}; name one."
        out.needs = {"vectors": [v.vector_id for v in held]}


def _others_of_the_file(out: Found, question: Question) -> None:
    """ "Countries" beside one that is named are the features of its file, where that is the one file that could be meant."""
    named = {key.split(":")[1].partition("/")[0] for key in out.keys.values() if key.startswith("vector:")}
    files = [v for v in question.vectors if v.vector_id in named and v.n > 1]
    if len(files) != 1 or (not out.by and any(key == f"vector:{files[0].vector_id}" for key in out.keys.values())):
        return
    v, others = files[0], [o for o in question.vectors if o.vector_id not in named]
    if out.by:
        # "how many countries per continent", "which continent has the most countries"
        lead = r"(?<=\bmany )|(?<=\bmost )|(?<=\bfewest )|(?<=\barea of )|(?<=\bnumber of )|(?<=\bcount )"
        out.text = re.sub(rf"(?:{lead})(?:the )?{_NOUN}(?![\w\-])", out.sign(f"vector:{v.vector_id}"), out.text)
        return
    if any(o.noun == v.noun and o.n > 1 for o in others) or not any(key.count(":") > 1 for key in out.keys.values()):
        return
    nouns = "|".join(w for w in _PLACE_NOUNS.split("|") if w not in ("line", "point") or w == v.noun.removesuffix("s"))
    # several, or one that is asked for; what stands before a name ("county Mesa") was read with it
    _replace(
        out,
        rf"(?<![\w\-])(?:of the |all the |the |all |other )?(?:{nouns})(?:e?s)(?![\w\-])|"
        rf"(?<=\bwhich )(?:{nouns})(?![\w\-])|(?<=\bwhat )(?:{nouns})(?![\w\-])",
        f"vector:{v.vector_id}",
    )


# What is said of one feature after the other; nouns that also say something else ("per unit", "by place") are left out.
_EACH_NOUN = "|".join(
    w for w in _GENERIC.split("|")
    if w not in ("unit", "cell", "object", "record", "point", "line", "place", "location", "geometry", "geometries")
)  # fmt: skip
# "by" lists only where no passive verb stands before it: "covered by", "occupied by", "taken up by" say something else.
EACH_WORDS = r"(?:each|every)(?: (?:one|single|individual))?(?: of)?|per|(?<!ed )(?<!up )(?<!in )(?<!en )by"


def _attribute(out: Found, vectors: Iterable[VectorInfo], *, is_called_so: bool) -> None:
    """'per continent', 'by crop': the attribute of a vector file whose values are the rows. An attribute whose name is also a
    word for things ("per building") is taken only where it is said to be one ("per attribute building")."""
    words = lexicon()
    things = {
        *words.fillers,
        *(w for o in words.objects.values() for w in o.words),
        *(w for e in words.targets.values() for w in (*e.words, *e.narrower)),
    }
    nouns = [_NOUN, *(p for v in vectors if (p := _noun_of(v)))]
    named = {key.split(":")[1] for key in out.keys.values() if key.startswith("vector:")}
    owners: dict[str, list[tuple[VectorInfo, str]]] = {}
    for v in vectors:
        for name in v.fields:
            if len(name) >= 3 and name.lower() not in _ASKING and not re.fullmatch(UNIT_PATTERN, name.lower()):
                owners.setdefault(name.lower(), []).append((v, name))
    for called, held in sorted(owners.items(), key=lambda o: -len(o[0])):
        many = rf"{re.escape(called)}|{re.escape(called.replace('_', ' '))}"
        if not is_called_so and (called in things or any(re.fullmatch(p, called) for p in nouns)):
            continue
        said = r"(?:attribute |column |value of (?:the )?(?:attribute |column )?)" if is_called_so else ""
        pattern = rf"\b(?:{EACH_WORDS}) (?:the )?{said}(?:{many})(?![\w\-]|\.\w)"
        is_which = False
        if not re.search(pattern, out.text):
            pattern = rf"(?<=\bwhich ){said}(?:{many})(?= (?:has|have|had|is|was|shows?|lost|gained|changed|covers?)\b)"
            is_which = re.search(pattern, out.text) is not None
            if not is_which:
                continue
        chosen = [h for h in held if h[0].vector_id in named] or held
        if len(chosen) > 1:
            files = ", ".join(v.name for v, _ in chosen)
            out.reason = f"“{called}” is an attribute of several files ({files}); name the file."
            out.needs = {"vectors": [v.vector_id for v, _ in chosen]}
            return
        out.by = chosen[0][1]
        sign = out.sign(f"vector:{chosen[0][0].vector_id}")
        out.text = re.sub(pattern, f"{sign} " if is_which else f" each {sign} ", out.text, count=1)
        return


def _each_of_the_file(out: Found, vectors: Iterable[VectorInfo]) -> None:
    """'in each district' where no file is called so: the one file of polygons that there is."""
    pattern = rf"\b(?P<how>{EACH_WORDS}) (?:the )?(?P<noun>(?:{_EACH_NOUN})(?:e?s)?)\b(?![\w\-])(?! (?:band|index))"
    m = re.search(pattern, out.text)
    if m is None:
        return
    held = [v for v in vectors if v.noun == "polygons" and v.n > 1]
    if len(held) == 1:
        out.text = re.sub(pattern, lambda m: f"{m['how']} {out.sign(f'vector:{held[0].vector_id}')} ", out.text, count=1)
    elif len(held) > 1:
        out.reason = f"Each {_singular(m['noun'])} of which file? There are {', '.join(v.name for v in held)}; name one."
        out.needs = {"vectors": [v.vector_id for v in held]}
