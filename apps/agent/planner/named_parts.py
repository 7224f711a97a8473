"""Several features of a file that are named as one thing: "Denver or Mesa", "Denver and Mesa together", "all but Denver"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apps.agent.planner.attribute_parts import MAX_LISTED, put_part
from apps.agent.planner.attributes import OF_TWO, TOGETHER
from apps.agent.planner.fields import MAX_KEY
from apps.agent.units import UNIT_PATTERN
from apps.core.evidence.plan import Question
from apps.core.geo.vector import VectorInfo

if TYPE_CHECKING:
    from apps.agent.planner.spatial import Found

_SIGN = "[\ue000-\ue3ff]"
_RUN = rf"{_SIGN}(?: *(?:, *(?:and |or )?|(?:and|or) +)(?:the )?{_SIGN})"
# What is one relation to either of two; "which is larger, A or B" is none.
_STANDS = (
    r"(?:touch(?:es|ing)?|border(?:s|ing)?(?: on)?|adjoin(?:s|ing)?|adjacent to|next to|neighbou?r(?:s|ing)?(?: of)?|"
    r"overlap(?:s|ping)?(?: with)?|intersect(?:s|ing)?|cross(?:es|ing)?|inside(?: of)?|within|outside(?: of)?|"
    rf"\d[\d,.]* *(?:{UNIT_PATTERN}) (?:of|from|around|to))(?: either(?: of)?| any of)? *"
)
_EXCEPT = r",? *\(?(?:except(?: for)?|excluding|excepting|other than|besides|apart from|but not|all but|without)(?: for)?"


def join_named(out: Found, question: Question) -> None:
    """Puts one sign in place of several that name features of one file, where the words make one thing of them."""
    for v in question.vectors:
        if v.n < 2 or not v.name_field or v.noun == "features":
            continue
        _all_but(out, v)
        if not out.reason:
            _either(out, v)
        if not out.reason and not re.search(OF_TWO, out.text):
            _both(out, v)
        if out.reason:
            return


def _either(out: Found, v: VectorInfo) -> None:
    """'touch Denver or Mesa': each of them serves."""
    m = re.search(rf"(?<=\b)(?P<lead>{_STANDS})(?P<run>{_RUN}+)", out.text)
    if m is not None and " or " in m["run"] and " and " not in m["run"] and not re.search(OF_TWO, out.text[: m.start()]):
        run = re.compile(re.escape(m["run"])).search(out.text, m.start("run"))
        assert run is not None
        _put_named(out, run, v, _names(out, v, m["run"]))


def _both(out: Found, v: VectorInfo) -> None:
    """'the area of Denver and Mesa together', 'the total length of A1 and A2': one figure, where the words say so."""
    m = re.search(rf"(?<!between )(?P<run>{_RUN}+)", out.text)
    names = _names(out, v, m["run"]) if m is not None and " or " not in m["run"] else ()
    if m is None or not names:
        return
    if re.search(TOGETHER, out.text):
        _put_named(out, m, v, names)
        out.text = re.sub(r"\b(?:(?:taken )?(?:all )?together|altogether|in all)\b", " ", out.text)
    elif re.search(r"\b(?:area|length|perimeter|size)s? of *(?:the )?$", out.text[: m.start()]):
        told = f"{', '.join(names[:-1])} and {names[-1]}"
        out.reason = f"One figure of {told} together, or one of each? Write “… of {told} together”, or ask for one at a time."


def _all_but(out: Found, v: VectorInfo) -> None:
    """'all counties except Denver and Mesa', 'counties other than Denver'."""
    sign = next((s for s, k in out.keys.items() if k == f"vector:{v.vector_id}"), None)
    if sign is None:
        return
    there = r"(?P<there>(?: *(?:are|is) there)?)"
    m = re.search(
        rf"{sign}{there}{_EXCEPT} +(?:the )?(?P<run>{_SIGN}(?: *(?:, *(?:and |or )?|(?:and|or) +)(?:the )?{_SIGN})*)\)?", out.text
    )
    named = _names(out, v, m["run"]) if m is not None else ()
    if m is None or not named:
        return
    rest = tuple(n for n in v.names if n not in named)
    if not rest:
        out.reason = f"{v.name} has nothing but what is left out."
        return
    there_is = m["there"].strip()
    if len(rest) > MAX_LISTED and len(v.names) == v.n:
        put_part(out, m, v, v.all_but(named))
        out.keys = {s: k for s, k in out.keys.items() if s in out.text}
    else:
        _put_named(out, m, v, rest)
    if there_is and not out.reason:
        out.text = f"{out.text.rstrip(' ?.')} {there_is}?" if out.text.rstrip(" ?.").endswith(tuple(out.keys)) else out.text


def _names(out: Found, v: VectorInfo, run: str) -> tuple[str, ...]:
    """The names of the features of one file that a run of signs stands for; none where one of them is something else."""
    keys = [out.keys[s] for s in re.findall(_SIGN, run) if s in out.keys]
    head = f"vector:{v.vector_id}:"
    if not keys or not all(k.startswith(head) for k in keys):
        return ()
    return tuple(dict.fromkeys(k.removeprefix(head) for k in keys))


def _put_named(out: Found, m: re.Match[str], v: VectorInfo, names: tuple[str, ...]) -> None:
    if not names:
        return
    part = v.part(v.name_field, names)
    if len(names) > MAX_LISTED or len(f"vector:{part.vector_id}") > MAX_KEY:
        out.reason = f"{len(names)} features of {v.name} are too many to name at once; choose them by an attribute."
        return
    put_part(out, m, v, part)
    out.keys = {s: k for s, k in out.keys.items() if s in out.text}
