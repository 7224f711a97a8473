"""``./rsure verify`` over observations of this installation's scenes: what a file invents does not stand."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.core.evidence.observation import Observation
from apps.runs import selectors

FIGURE = "/result/value"


def verify(path: Path, observations: list[Any]) -> tuple[int, list[dict[str, Any]]]:
    """(exit status, decisions) of the command over the observations as JSON Lines."""
    path.write_text("\n".join(json.dumps(o) for o in observations))
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("verify", str(path), "--json", stdout=out)
    return int(ended.value.code or 0), [json.loads(line) for line in out.getvalue().splitlines()]


def recorded(run: Any) -> list[dict[str, Any]]:
    held: list[Observation] = [o.observation for o in selectors.run_state(run.pk).history]
    return [o.model_dump(mode="json") for o in held]


def changed(observation: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(observation))
    at: Any = copy
    *path, last = pointer.strip("/").split("/")
    for key in path:
        at = at[int(key)] if isinstance(at, list) else at[key]
    at[last] = value
    return copy


def test_forged_observations_are_not_accepted_and_the_true_one_is(ask: Any, tmp_path: Path) -> None:
    (true,) = recorded(ask("How many hectares have NDVI above 0.4?"))
    value = true["result"]["value"]
    nodes = true["evidence"]["intermediate"]["nodes"]
    doubled = changed(true, FIGURE, 2 * value)
    doubled["evidence"]["intermediate"]["nodes"] = [n | {"value": 2 * value} if "value" in n else n for n in nodes]
    forged = {
        "0.1 % more": changed(true, FIGURE, value * 1.001),
        "doubled with its node": doubled,
        "doubled, without layers": changed(doubled, "/result/layers", []),
        "another unit": changed(true, "/result/unit", "km2"),
        "other bytes": changed(true, "/inputs/0/artifact", "sha256:" + "0" * 64),
        "parent from nowhere": changed(true, "/parents", ["nope"]),
        "no evidence": changed(true, "/evidence", {"source": {}, "intermediate": {}, "validity": {}}),
    }
    status, decisions = verify(tmp_path / "o.jsonl", [true, *forged.values()])
    assert status == 0
    assert decisions[0]["decision"] == "accept"
    assert {name: d["decision"] for name, d in zip(forged, decisions[1:], strict=True) if d["decision"] == "accept"} == {}


def test_a_file_without_an_observation_is_bad_input(db: None, tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    path.write_text("[]")
    with pytest.raises(SystemExit) as ended:
        call_command("verify", str(path), stdout=io.StringIO())
    assert ended.value.code == 2
