"""Services that were pinned stay up when a command ends whose environment names them itself."""

import os
from pathlib import Path
from typing import Any

import pytest

from rsure_web.boot import services as boot
from rsure_web.boot.paths import Places

NAMES = ("DATABASE_URL", "REDIS_URL")


class Part:
    """A server that is this process, so that it lives; tells how often it was stopped."""

    url = "unix:///none"
    stopped: list[str] = []

    def __init__(self, place: Places) -> None:
        self.folder = place.state

    def start(self) -> None: ...

    def pid(self) -> int:
        return os.getpid()

    def stop(self) -> None:
        self.stopped.append("stopped")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    class Here:
        state = tmp_path

    Part.stopped = []
    monkeypatch.setattr(boot, "places", lambda: Here())
    monkeypatch.setattr(boot, "Cluster", Part)
    monkeypatch.setattr(boot, "Broker", Part)
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("given", [(), NAMES[:1], NAMES[1:], NAMES], ids=["none", "database", "broker", "both"])
def test_a_pin_outlives_commands_with_services_of_their_own(
    state: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[Any, ...]
) -> None:
    boot.Services().start()
    for name in given:
        monkeypatch.setenv(name, "there")
    with boot.Services().lease():
        pass
    boot.Services().start()
    for name in given:
        monkeypatch.delenv(name)
    with boot.Services().lease():
        pass
    assert Part.stopped == []
    assert boot.Services().stop() and Part.stopped == ["stopped", "stopped"]


def test_without_a_pin_the_last_command_stops_them(state: Path) -> None:
    with boot.Services().lease():
        assert Part.stopped == []
    assert Part.stopped == ["stopped", "stopped"]


def test_a_pin_of_other_processes_counts_for_nothing(state: Path) -> None:
    (state / "pinned").write_text("1.1 2.2")
    with boot.Services().lease():
        pass
    assert Part.stopped == ["stopped", "stopped"]
