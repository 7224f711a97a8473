"""What `./rsure` finds on the machine, and what it says when something is missing."""

from pathlib import Path

import pytest

from rsure_web.boot import paths, system
from rsure_web.boot.console import SetupError


@pytest.mark.parametrize(
    ("distribution", "version", "package"),
    [
        ("debian", "12", "postgresql-15-postgis-3"),
        ("debian", "13", "postgresql-17-postgis-3"),
        ("ubuntu", "24.04", "postgresql-16-postgis-3"),
    ],
)
def test_package_fits_the_distribution(monkeypatch: pytest.MonkeyPatch, distribution: str, version: str, package: str) -> None:
    monkeypatch.setattr(system, "_os_release", lambda: {"ID": distribution, "VERSION_ID": version})
    assert system.postgis_package() == package


def test_ordinary_user_is_told_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(system, "POSTGRES_ROOT", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(system, "_os_release", lambda: {"ID": "debian", "VERSION_ID": "13"})
    monkeypatch.setattr(system, "can_install", lambda: False)
    with pytest.raises(SetupError, match="apt-get install postgresql-17-postgis-3") as caught:
        system.postgres_ensure()
    assert caught.value.status == 2


def test_postgresql_without_postgis_does_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    programs = tmp_path / "postgresql" / "15" / "bin"
    programs.mkdir(parents=True)
    for name in ("initdb", "pg_ctl", "postgres", "psql", "pg_isready"):
        (programs / name).touch(mode=0o755)
    share = tmp_path / "share"
    (share / "extension").mkdir(parents=True)
    (programs / "pg_config").write_text(f"#!/bin/sh\necho {share}\n")
    (programs / "pg_config").chmod(0o755)
    monkeypatch.setattr(system, "POSTGRES_ROOT", tmp_path / "postgresql")
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert system.postgres_find() is None
    (share / "extension" / "postgis.control").touch()
    assert system.postgres_find() == programs


def test_machine_without_chromium_goes_on_with_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RSURE_CHROMIUM", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert system.chromium_ensure() is None
    captured = capsys.readouterr()
    assert "apt-get install chromium" in captured.err
    assert captured.out == ""


def test_two_checkouts_have_two_states(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paths, "_state_root", lambda: tmp_path / "state")
    states = []
    for name in ("one", "two"):
        monkeypatch.setenv("RSURE_HOME", str(tmp_path / name))
        states.append(paths.places().state)
        assert paths.places().state == states[-1]
    assert states[0] != states[1]


def test_new_clone_at_an_old_path_gets_a_new_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paths, "_state_root", lambda: tmp_path / "state")
    monkeypatch.setenv("RSURE_HOME", str(tmp_path / "home"))
    before = paths.places().state
    (tmp_path / "home" / "instance").unlink()
    assert paths.places().state != before


def test_socket_paths_stay_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paths, "_state_root", lambda: tmp_path / ("a" * 100))
    monkeypatch.setenv("RSURE_HOME", str(tmp_path / "home"))
    state = paths.places().state
    try:
        assert len(str(state / "postgres" / ".s.PGSQL.5432.lock")) <= paths.SOCKET_PATH_LIMIT
    finally:
        for entry in state.iterdir():
            entry.unlink()
        state.rmdir()


def test_unwritable_home_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RSURE_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(SetupError, match="Set RSURE_HOME"):
        paths.home_path()
