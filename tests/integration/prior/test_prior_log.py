"""The log in the real database: append-only, undone to the digit, rebuilt bit for bit."""

import json
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, transaction

from apps.core.errors import FaultError, NotFoundError, UserError
from apps.core.ports import PriorSource
from apps.prior.models import PriorEvent, PriorVersion
from apps.prior.selectors import (
    DatabasePrior,
    prior_compare,
    prior_current,
    prior_digest,
    prior_events_for_cell,
    prior_export,
    prior_rebuild,
    prior_table,
    prior_view,
)
from apps.prior.services import (
    outcomes_from_text,
    prior_freeze,
    prior_import,
    prior_record_verdict,
    prior_rollback,
    prior_undo,
    prior_use,
    prior_verify_version,
)

pytestmark = pytest.mark.django_db
CELL: dict[str, Any] = {"task_type": "object_counting", "tool": "measure", "coarse": "count", "fine": "count/auto/objects"}


def say(is_success: bool, **more: Any) -> PriorEvent:
    return prior_record_verdict(**{**CELL, **more}, is_success=is_success, author="ana")


def test_a_verdict_moves_the_cell_and_its_undo_restores_it_to_the_digit() -> None:
    say(True)
    say(False, fine="count/auto/regions")
    say(True, shown_probability=0.1, fine="count/x")
    before, digest = prior_view(**CELL), prior_digest(prior_current())
    event = say(False)
    moved = prior_view(**CELL)
    assert moved.r_hat < before.r_hat
    assert moved.n == before.n + 1
    undo = prior_undo(event_id=event.pk, author="ana", reason="mistake")
    after = prior_view(**CELL)
    assert (after.r_hat, after.interval, after.n, after.level) == (before.r_hat, before.interval, before.n, before.level)
    assert prior_digest(prior_current()) == digest
    assert undo.compensates == event
    assert after.version != before.version  # the log went on
    with pytest.raises(UserError, match="CONFLICT"):
        prior_undo(event_id=event.pk, author="ana")
    with pytest.raises(UserError, match="CONFLICT"):
        prior_undo(event_id=undo.pk, author="ana")
    with pytest.raises(NotFoundError):
        prior_undo(event_id="01890000-0000-7000-8000-000000000000", author="ana")


def test_the_log_refuses_changes() -> None:
    event = say(True)
    event.is_success = False
    with pytest.raises(FaultError):
        event.save()
    with pytest.raises(FaultError):
        event.delete()
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        PriorEvent.objects.filter(pk=event.pk).update(is_success=False)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        PriorEvent.objects.filter(pk=event.pk).delete()
    assert PriorEvent.objects.get(pk=event.pk).is_success


def test_versions_freeze_compare_and_roll_back() -> None:
    for i in range(6):
        say(i != 2)
    version = prior_freeze(name="may", author="root", note="before the new detector")
    first = prior_rebuild("may")
    undone_later = PriorEvent.objects.order_by("seq").first()
    assert undone_later is not None
    prior_undo(event_id=undone_later.pk, author="ana")
    for _ in range(4):
        say(False)
    assert prior_digest(prior_rebuild("may")) == version.digest == prior_digest(first)
    assert prior_verify_version(name="may")
    changed = prior_compare("may", None)
    assert {c.key[0] for c in changed} >= {"fine", "global"}
    assert prior_rollback(name="may", author="root") == 5  # four new outcomes and one undo
    assert prior_digest(prior_rebuild()) == version.digest
    with pytest.raises(UserError, match="CONFLICT"):
        prior_freeze(name="may", author="root")


def test_a_version_in_use_is_what_decisions_see() -> None:
    say(True)
    prior_freeze(name="steady", author="root")
    prior_use(name="steady", author="root")
    say(False)
    assert prior_view(**CELL).version == "steady"
    assert prior_view(**CELL).n == 1
    prior_use(name=None, author="root")
    assert prior_view(**CELL).n == 2
    assert PriorVersion.objects.filter(in_use=True).count() == 0
    pinned = DatabasePrior("steady")
    assert isinstance(pinned, PriorSource)
    assert pinned.view(**CELL).n == 1


def test_import_is_all_or_nothing_and_once() -> None:
    lines = [{**CELL, "success": i % 4 != 0, "source": "offline"} for i in range(40)]
    assert prior_import(outcomes=lines, author="root", batch="earth.jsonl") == 40
    assert prior_import(outcomes=lines, author="root", batch="earth.jsonl") == 0
    row = next(r for r in prior_table(level="fine"))
    assert (row.n, row.n_offline, row.n_people) == (40, 40, 0)
    with pytest.raises(UserError, match="Line 2"):
        prior_import(outcomes=[{**CELL, "success": True}, {**CELL, "success": "yes"}], author="root")
    for wrong in ({"weight": -1}, {"shown_probability": 0}, {"weight": float("nan")}, {"surprise": 1}, {"tool": "hammer"}):
        with pytest.raises(UserError, match="BAD_ARGUMENT"):
            prior_import(outcomes=[{**CELL, "success": True, **wrong}], author="root")
    assert PriorEvent.objects.count() == 40
    exported = prior_export()
    assert len(exported) == 40
    assert prior_import(outcomes=exported, author="other", batch="copy") == 40


def test_standard_input_is_taken_once_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def piped(lines: list[dict[str, Any]]) -> dict[str, int]:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text.encode())))
        out = StringIO()
        with pytest.raises(SystemExit) as ended:
            call_command("prior", "import", "-", stdout=out)
        assert not ended.value.code
        return dict(json.loads(out.getvalue()))

    lines = [{**CELL, "success": i != 2} for i in range(3)]
    assert piped(lines) == {"imported": 3, "skipped": 0}
    assert piped(lines) == {"imported": 0, "skipped": 3}
    # outcomes that look the same in another feed are outcomes of their own
    assert piped(lines[:1]) == {"imported": 1, "skipped": 0}
    assert PriorEvent.objects.count() == 4


def test_events_of_a_cell_hold_their_compensations() -> None:
    event = say(True, reason="")
    prior_undo(event_id=event.pk, author="bo")
    say(False, fine="count/other")
    seen = list(prior_events_for_cell(level="fine", **CELL))
    assert [e.source for e in seen] == ["undo", "verdict"]
    assert len(prior_events_for_cell(level="coarse", **CELL)) == 3


def test_the_view_costs_at_most_three_queries(django_assert_max_num_queries: Any) -> None:
    for _ in range(5):
        say(True)
    prior_view(**CELL)
    with django_assert_max_num_queries(3):
        prior_view(**CELL)


def test_the_command(tmp_path: Path) -> None:
    def run(*arguments: str) -> list[str]:
        out = StringIO()
        with pytest.raises(SystemExit) as ended:
            call_command("prior", *arguments, stdout=out)
        assert ended.value.code == 0
        return out.getvalue().splitlines()

    assert "0.500" in run("show")[0]
    file = tmp_path / "labels.jsonl"
    file.write_text("".join(json.dumps({**CELL, "success": ok}) + "\n" for ok in (True, True, False)))
    assert json.loads(run("import", str(file))[0]) == {"imported": 3, "skipped": 0}
    assert json.loads(run("import", str(file))[0]) == {"imported": 0, "skipped": 3}
    rows = [json.loads(line) for line in run("show", "--json")]
    assert {r["level"] for r in rows} == {"fine", "coarse", "tool", "global"}
    assert next(r["r_hat"] for r in rows if r["level"] == "global") == pytest.approx(3 / 5)
    frozen = json.loads(run("freeze", "one")[0])
    rebuilt = json.loads(run("rebuild", "one")[0])
    assert rebuilt["digest"] == frozen["digest"]
    assert rebuilt["is_same"] is True
    assert len(run("export")) == 3
    assert [len(run("export", "--version", v)) for v in ("one", "log-3", "log-2", "log-0")] == [3, 3, 2, 0]
    assert run("show", "--task-type", "nothing_of_the_kind") == ["No cell of the prior is of that level and task type."]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("show", "--version", "nope"),
            "such version of the prior.\n  Why: Known are kept-1, and the log ends at log-1.\n  What to do: Name one of them",
        ),
        (("compare", "nope"), "no such version of the prior"),
        (("export", "--out", "{folder}/absent/prior.jsonl"), "“prior.jsonl” cannot be used.\n  Why: No such file or"),
        (("export", "--out", "{folder}"), "cannot be used.\n  Why: Is a directory"),
        (("import", "{folder}/absent.jsonl"), "“absent.jsonl” cannot be used.\n  Why: No such file or directory"),
        (("import", "{folder}"), "Why: Is a directory"),
        (("import", "{folder}/empty"), "The file holds no outcome.\n  Why: It is empty."),
        (("import", "{folder}/deep"), "Line 1 is no JSON object."),
        (("import", "{folder}/list"), "Line 2 is no JSON object."),
        (("import", "{folder}/binary"), "Line 1 is no JSON object."),
        (("freeze", ""), "The version cannot be frozen."),
        (("freeze", "head"), "printed characters that is not “head”"),
        (("freeze", "two\nlines"), "The version cannot be frozen."),
        *(
            ((verb, *option, version), "and the log ends at log-1.")
            for verb, option in (("show", ["--version"]), ("export", ["--version"]), ("rebuild", []), ("compare", ["log-1"]))
            for version in ("log-2", "log-99999999999999999999", "log-", "log--1", "log-\u0661")
        ),
        (("rollback", "log-9"), "no such version of the prior"),
        (("use", "log-9"), "no such version of the prior"),
    ],
)
def test_what_the_command_cannot_do_is_told_in_three_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    say(True)
    prior_freeze(name="kept-1", author="a test")
    for name, content in (("empty", b"\n"), ("deep", b"[" * 100_000), ("list", b"{}\n[]\n"), ("binary", bytes(range(128, 256)))):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SystemExit) as stopped:
        call_command("prior", *(a.format(folder=tmp_path) for a in arguments), stdout=StringIO())
    assert stopped.value.code == 2
    errors = capsys.readouterr().err
    assert told in errors
    assert "\n  What to do: " in errors
    assert PriorEvent.objects.count() == 1


def test_what_an_export_writes_is_taken_whatever_its_texts_hold(tmp_path: Path) -> None:
    say(True, coarse="count\u2028two", fine="f\u0085g")
    file = tmp_path / "out.jsonl"
    with pytest.raises(SystemExit) as ended:
        call_command("prior", "export", "--out", str(file), stdout=StringIO())
    assert ended.value.code == 0
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())  # as an editor may leave it
    assert outcomes_from_text(file.read_text("utf-8-sig")) == prior_export()
    with pytest.raises(SystemExit) as ended:
        call_command("prior", "import", str(file), stdout=StringIO())
    assert ended.value.code == 0
    assert [line["coarse"] for line in prior_export()] == ["count\u2028two"] * 2
