"""`./rsure` on embedded services of its own: it starts what it needs, stops what it started, survives kills."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest

from rsure_web.boot.system import postgres_find
from tests.shared import ROOT

pytestmark = pytest.mark.skipif(postgres_find() is None, reason="no PostgreSQL with PostGIS on this machine")

SLEEP_AND_QUERY = (
    "import time; time.sleep(4); from django.db import connection as c; "
    "u = c.cursor(); u.execute('select 41 + 1'); print(u.fetchone()[0])"
)


@dataclass
class Entry:
    """`./rsure` with a state folder of its own."""

    home: Path

    @property
    def env(self) -> dict[str, str]:
        """Environment of a person who has set nothing but RSURE_HOME."""
        dropped = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "RSURE_TESTING", "RSURE_TEST_SUFFIX")
        return {k: v for k, v in os.environ.items() if k not in dropped} | {"RSURE_HOME": str(self.home)}

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return subprocess.run(
            [ROOT / "rsure", *arguments],
            env=self.env | (env or {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts a command."""
        return subprocess.Popen(
            [ROOT / "rsure", *arguments],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def status(self) -> list[str]:
        """`running` or `stopped` of PostGIS and Valkey."""
        return [line.split()[1] for line in self.run("services", "status").stdout.splitlines()[:2]]

    def folder(self) -> Path:
        """Folder of the embedded services."""
        line = self.run("services", "env").stdout.splitlines()[0]
        return Path(unquote(line.partition("@")[2].partition("/")[0])).parent


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Entry]:
    found = Entry(tmp_path_factory.mktemp("home"))
    yield found
    found.run("services", "stop", "--force")
    assert found.run("services", "remove").returncode == 0


def test_command_starts_what_it_needs_and_stops_it(entry: Entry) -> None:
    answer = entry.run("manage", "shell", "--verbosity", "0", "-c", SLEEP_AND_QUERY.replace("(4)", "(0)"))
    assert answer.stdout == "42\n"
    assert answer.returncode == 0
    assert entry.status() == ["stopped", "stopped"]


@pytest.mark.parametrize("status", [0, 1, 2, 3])
def test_exit_status_passes_through(entry: Entry, status: int) -> None:
    answer = entry.run("manage", "shell", "--verbosity", "0", "-c", f"import sys; sys.exit({status})")
    assert answer.returncode == status


def test_services_that_ran_before_go_on(entry: Entry) -> None:
    assert entry.run("services", "start").returncode == 0
    assert entry.run("manage", "check").returncode == 0
    assert entry.status() == ["running", "running"]
    assert entry.run("services", "stop").returncode == 0
    assert entry.status() == ["stopped", "stopped"]


def test_one_command_leaves_another_its_services(entry: Entry) -> None:
    long = entry.begin("manage", "shell", "--verbosity", "0", "-c", SLEEP_AND_QUERY)
    time.sleep(1.5)
    assert entry.run("manage", "check").returncode == 0
    output, errors = long.communicate(timeout=60)
    assert output == "42\n", errors
    assert entry.status() == ["stopped", "stopped"]


def test_killed_services_start_again(entry: Entry) -> None:
    assert entry.run("services", "start").returncode == 0
    folder = entry.folder()
    for pid_file in (folder / "postgres" / "data" / "postmaster.pid", folder / "valkey" / "valkey.pid"):
        os.kill(int(pid_file.read_text().split()[0]), signal.SIGKILL)
    answer = entry.run("manage", "shell", "--verbosity", "0", "-c", SLEEP_AND_QUERY.replace("(4)", "(0)"))
    assert answer.stdout == "42\n", answer.stderr
    # The pin was on the processes that died.
    assert entry.status() == ["stopped", "stopped"]


def test_pid_files_that_name_another_process_are_seen_through(entry: Entry) -> None:
    folder = entry.folder()
    stale = folder / "postgres" / "data" / "postmaster.pid"
    stale.write_text(f"{os.getpid()}\n{folder / 'postgres' / 'data'}\n0\n5432\n")
    (folder / "valkey" / "valkey.pid").write_text(str(os.getpid()))
    answer = entry.run("manage", "shell", "--verbosity", "0", "-c", SLEEP_AND_QUERY.replace("(4)", "(0)"))
    assert answer.stdout == "42\n", answer.stderr


def test_killed_command_leaves_no_claim(entry: Entry) -> None:
    long = entry.begin("manage", "shell", "--verbosity", "0", "-c", SLEEP_AND_QUERY)
    time.sleep(2)
    long.kill()
    long.communicate()
    assert entry.run("manage", "check").returncode == 0
    assert entry.status() == ["stopped", "stopped"]


def test_given_services_are_used_and_none_started(entry: Entry) -> None:
    given = {key: os.environ[key] for key in ("DATABASE_URL", "REDIS_URL")}
    answer = entry.run("manage", "shell", "--verbosity", "0", "-c", SLEEP_AND_QUERY.replace("(4)", "(0)"), env=given)
    assert answer.stdout == "42\n", answer.stderr
    assert "external" in entry.run("services", "status", env=given).stdout
    assert entry.status() == ["stopped", "stopped"]


def test_unknown_command_is_bad_usage(entry: Entry) -> None:
    answer = entry.run("serve")
    assert answer.returncode == 2
    assert "no command `serve`" in answer.stderr
    assert answer.stdout == ""


def test_help_names_every_command(entry: Entry) -> None:
    answer = entry.run("--help")
    assert answer.returncode == 0
    for name in ("up", "test", "setup", "ask", "verify", "evaluate", "prior", "models", "bench", "manage"):
        assert f"  {name} " in answer.stdout


def test_port_in_use_is_explained(entry: Entry) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = entry.run("up", "--no-ml", "--port", str(port))
    assert answer.returncode == 2
    assert f"port {port} is in use" in answer.stderr
