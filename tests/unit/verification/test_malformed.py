"""Ten thousand malformed or random observations: none is accepted, none is a traceback."""

from __future__ import annotations

import json
import random
import string
from collections import Counter
from typing import Any

import pytest

from apps.core.evidence.observation import REQUIRED_EVIDENCE
from apps.verification.judge import CalibratedJudge
from tests.unit.verification import samples as s

KINDS = ("text", "shape", "type", "random", "number")
NUMBERS: tuple[Any, ...] = (0, -1, 1, 1e308, -1e308, 10**400, 0.5, 3, 1e-320, 2**63, True, None, "", "12", [], {}, [[]])


def _good() -> list[dict[str, Any]]:
    made = (s.mean, s.area, s.share, s.series, s.trend, s.lowest, s.water, s.objects, s.counted, s.caption)
    return [json.loads(m().observation.model_dump_json()) for m in made]


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    out = [at] if at else []
    if isinstance(value, dict):
        for k, v in value.items():
            out += _paths(v, (*at, k))
    elif isinstance(value, list):
        for k, v in enumerate(value[:3]):
            out += _paths(v, (*at, k))
    return out


def _holder(whole: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        whole = whole[key]
    return whole


def _anything(draw: random.Random, depth: int = 0) -> Any:
    kind = draw.randrange(8 if depth < 4 else 5)
    if kind == 0:
        return draw.choice(NUMBERS)
    if kind == 1:
        return "".join(draw.choice(string.printable) for _ in range(draw.randrange(12)))
    if kind == 2:
        return draw.gauss(0, 10.0 ** draw.randrange(-3, 9))
    if kind == 3:
        return draw.randrange(-(10**9), 10**9)
    if kind == 4:
        return draw.choice([True, False, None])
    if kind in (5, 6):
        return {draw.choice("abcde") + str(draw.randrange(9)): _anything(draw, depth + 1) for _ in range(draw.randrange(4))}
    return [_anything(draw, depth + 1) for _ in range(draw.randrange(4))]


def _random_observation(draw: random.Random) -> dict[str, Any]:
    """Right in form, with nothing in it that hangs together; half of them bring every key of evidence that is owed."""
    tool = draw.choice(["perceive", "measure", "execute"])
    kind = draw.choice(
        ["count", "area", "distance", "ratio", "boolean", "statistic", "series", "trend", "date", "class", "text", "layer"]
    )
    value: Any = {
        "boolean": draw.random() < 0.5,
        "date": "2020-01-01",
        "class": "forest",
        "text": "a text",
        "layer": None,
        "count": draw.randrange(500),
    }.get(kind, draw.gauss(0, 100))
    evidence: dict[str, Any] = {"source": {}, "intermediate": {}, "validity": {}}
    if draw.random() < 0.5:
        for part, keys in REQUIRED_EVIDENCE[tool].items():
            for key in keys:
                evidence[part][key if isinstance(key, str) else key[0]] = _anything(draw, 3)
    return {
        "protocol": "rsure.observation/1",
        "id": f"o{draw.randrange(10**9)}",
        "step": draw.randrange(5),
        "task": {"task_type": "object_counting", "question": "How many trees are there?", "answer_form": "integer"},
        "tool": tool,
        "configuration": {"coarse": "c", "fine": "c/d"},
        "arguments": {k: _anything(draw, 2) for k in draw.sample(["mode", "nodes", "output", "sources", "spec", "region"], 3)},
        "status": {"state": draw.choice(["ok", "ok", "partial", "failed"]), "started_at": "2024-01-01T00:00:00Z", "elapsed_s": 1},
        "result": {"kind": kind, "value": value, "unit": draw.choice(["1", "m2", "ha", "m", "%", "K", "furlong", "1/year"])},
        "evidence": evidence,
    }


def _malformed(draw: random.Random, kind: str, good: list[dict[str, Any]]) -> Any:
    whole = json.loads(json.dumps(draw.choice(good)))
    if kind == "text":
        text = json.dumps(whole)
        at = draw.randrange(1, len(text) - 1)
        return draw.choice(
            [
                text[:at],
                text[:at] + draw.choice('{}[]",:\x00\ud7ff') + draw.choice('{}[]",:') + text[at:],
                "[" * draw.randrange(1, 3000),
                text.encode()[:at] + bytes([255, 254]) + text.encode()[at:],
                text.replace('"value":', '"value": NaN, "value_":', 1),
                "",
                "null",
            ]
        )
    if kind == "shape":
        required = [("id",), ("step",), ("task",), ("tool",), ("configuration",), ("status",), ("result",), ("result", "kind")]
        path = draw.choice(required)
        if draw.random() < 0.5:
            del _holder(whole, path)[path[-1]]
        else:
            _holder(whole, draw.choice([("x",), ("task", "x"), ("result", "x"), ("status", "x")]))[
                f"extra{draw.randrange(99)}"
            ] = 1
        return whole
    if kind == "type":
        # the parts whose form is fixed: whatever stands there now is of another type
        path = draw.choice(
            [p for p in _paths(whole) if p[0] in ("task", "tool", "status", "step", "parents", "inputs", "protocol")]
        )
        old = _holder(whole, path)[path[-1]]
        _holder(whole, path)[path[-1]] = {"not": "this"} if not isinstance(old, dict) else [old]
        return whole
    if kind == "number":
        whole["result"]["value"] = draw.choice(["about nine", "Failed to call model", [], {}, 10**400, "NaN", ["1"]])
        if whole["result"]["kind"] in ("text", "class", "layer", "date"):
            whole["result"]["kind"] = "count"
        return whole
    return _random_observation(draw)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_malformed_is_accepted(seed: int) -> None:
    draw, judge, good = random.Random(seed), CalibratedJudge(), _good()
    ends: Counter[str] = Counter()
    for n in range(2000):
        what = _malformed(draw, KINDS[n % len(KINDS)], good)
        checks, decision = judge.judge_json(what)
        assert decision.decision != "accept", (seed, n, str(what)[:600], decision.reasons)
        assert decision.reasons
        assert not [c for c in checks if c.outcome == "errored"], (seed, n, [c.message for c in checks if c.outcome == "errored"])
        ends[decision.decision] += 1
    assert ends["reject"] > 1000


def test_a_change_anywhere_is_no_crash() -> None:
    """What may be right all the same (a log line, a name) may be accepted; no check may fall over it."""
    draw, judge, good = random.Random(11), CalibratedJudge(), _good()
    read = 0
    for _ in range(2000):
        whole = json.loads(json.dumps(draw.choice(good)))
        for _ in range(draw.randrange(1, 4)):
            path = draw.choice(_paths(whole))
            _holder(whole, path)[path[-1]] = _anything(draw, 1)
        checks, decision = judge.judge_json(whole)
        assert decision.reasons, whole
        assert not [c.message for c in checks if c.outcome == "errored"], (whole, [c for c in checks if c.outcome == "errored"])
        read += bool(checks)
    assert read > 200
