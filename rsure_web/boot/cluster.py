"""The embedded PostGIS cluster: a private PostgreSQL on a unix socket, of this checkout alone."""

import os
import pwd
import shutil
import signal
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

from . import system
from .console import SetupError, say
from .paths import Places
from .processes import command_line, pids_in_folder, wait_gone

DATABASE = "rsure"
ROLE = "rsure"
PORT = "5432"  # only a part of the socket's name: the cluster listens on no address

# Reached only through a socket in a folder of mode 0700, hence `trust`. A crash may lose the last
# fraction of a second of commits (synchronous_commit) but never corrupts.
SETTINGS = {
    "listen_addresses": "''",
    "port": PORT,
    "max_connections": "200",
    "shared_buffers": "'128MB'",
    "synchronous_commit": "off",
    "timezone": "'UTC'",
    "log_timezone": "'UTC'",
    "max_wal_size": "'1GB'",
}


class Cluster:
    """The cluster of one checkout."""

    def __init__(self, places: Places) -> None:
        self.folder = places.postgres
        self.data = places.postgres / "data"
        self.log = places.postgres / "postgres.log"
        self._bin: Path | None = None

    @property
    def url(self) -> str:
        """DATABASE_URL of the cluster; the host is the socket's folder, percent-encoded."""
        return f"postgis://{ROLE}@{quote(str(self.folder), safe='')}/{DATABASE}"

    def _program(self, name: str) -> str:
        if self._bin is None:
            self._bin = system.postgres_ensure()
        return str(self._bin / name)

    def _owner(self) -> pwd.struct_passwd:
        if os.geteuid() != 0:
            try:
                return pwd.getpwuid(os.geteuid())
            except KeyError:
                raise SetupError(
                    f"user id {os.geteuid()} has no entry in the password file, and PostgreSQL asks for one. "
                    "Run as a user that has one, or set DATABASE_URL."
                ) from None
        for name in ("postgres", "nobody"):
            try:
                return pwd.getpwnam(name)
            except KeyError:
                continue
        raise SetupError("PostgreSQL does not run as root and there is no user `postgres` to run it as.")

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs a program of PostgreSQL as the cluster's owner; output to a file, a daemon keeps it open."""
        owner = self._owner()
        env = {"PATH": os.defpath, "HOME": str(self.folder), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        output = self.folder / "command.log"
        with output.open("w+") as file:
            is_root = os.geteuid() == 0
            answer = subprocess.run(
                command,
                cwd=self.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                check=False,
                user=owner.pw_uid if is_root else None,
                group=owner.pw_gid if is_root else None,
                extra_groups=[] if is_root else None,
            )
            file.seek(0)
            return subprocess.CompletedProcess(command, answer.returncode, file.read(), "")

    def is_ready(self) -> bool:
        """Whether the cluster answers on its socket."""
        if not (self.folder / f".s.PGSQL.{PORT}").exists():
            return False
        return (
            self._run(
                self._program("pg_isready"), "-q", "-h", str(self.folder), "-p", PORT, "-U", ROLE, "-d", DATABASE
            ).returncode
            == 0
        )

    def pid(self) -> int | None:
        """Process id of the postmaster of this data folder, if one lives."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None
        arguments = command_line(pid)
        return pid if arguments and "postgres" in arguments[0] and str(self.data) in arguments else None

    def start(self) -> None:
        """Makes the cluster if there is none, clears what a killed one left, starts it.

        Raises:
            SetupError: PostGIS is missing, or PostgreSQL failed; the message ends with its own words.
        """
        self._program("postgres")
        owner = self._owner()
        self.folder.mkdir(mode=0o700, exist_ok=True)
        os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        self.folder.chmod(0o700)
        if not (self.data / "rsure.ready").exists():
            self._create()
            return
        self._clear_stale()
        end = time.monotonic() + 60
        while self.pid() is not None and not self.is_ready():
            # Somebody else's start, or a recovery after a crash, is still under way.
            if time.monotonic() > end:
                raise SetupError(f"PostgreSQL runs but does not answer (log: {self.log}).", status=1)
            time.sleep(0.1)
        if self.pid() is None:
            self._launch()

    def _create(self) -> None:
        say("making the PostGIS cluster ...", is_progress=True)
        if self.data.exists():
            # An earlier attempt died half way: nothing of value is in there before the mark is written.
            self._clear_stale(is_final=True)
            shutil.rmtree(self.data)
        answer = self._run(
            self._program("initdb"),
            "-D",
            str(self.data),
            "-U",
            ROLE,
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-instructions",
            "--no-sync",  # the mark below is written last: a crash before it starts all over
        )
        if answer.returncode:
            raise SetupError(f"initdb failed:\n{answer.stdout[-1500:]}", status=1)
        lines = [f"{key} = {value}" for key, value in SETTINGS.items()]
        lines.append(f"unix_socket_directories = '{self.folder}'")
        with (self.data / "postgresql.conf").open("a") as file:
            file.write("\n# Of RSure Web\n" + "\n".join(lines) + "\n")
        self._launch()
        # In template1, so that every database made later (the tests' too) starts with it.
        self._sql("template1", "CREATE EXTENSION IF NOT EXISTS postgis")
        self._sql("postgres", f"CREATE DATABASE {DATABASE}")
        (self.data / "rsure.ready").write_text("1\n")

    def _sql(self, database: str, statement: str) -> None:
        answer = self._run(
            self._program("psql"),
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            str(self.folder),
            "-p",
            PORT,
            "-U",
            ROLE,
            "-d",
            database,
            "-c",
            statement,
        )
        if answer.returncode:
            raise SetupError(f"the database refused `{statement}`:\n{answer.stdout[-1500:]}", status=1)

    def _launch(self) -> None:
        answer = self._run(self._program("pg_ctl"), "-D", str(self.data), "-l", str(self.log), "-w", "-t", "60", "start")
        if answer.returncode:
            tail = self.log.read_text(errors="replace")[-1500:] if self.log.exists() else answer.stdout[-1500:]
            raise SetupError(f"PostgreSQL did not start (log: {self.log}):\n{tail}", status=1)

    def _clear_stale(self, *, is_final: bool = False) -> None:
        """After a crash: ends orphaned back ends and removes the pid and lock files of a dead postmaster."""
        pid = self.pid()
        if pid is not None and not is_final:
            return
        for orphan in pids_in_folder(self.data):
            try:
                os.kill(orphan, signal.SIGKILL)
            except ProcessLookupError:
                continue
            wait_gone(orphan, timeout_s=10)
        socket = self.folder / f".s.PGSQL.{PORT}"
        for path in (self.data / "postmaster.pid", socket, socket.with_name(socket.name + ".lock")):
            path.unlink(missing_ok=True)

    def stop(self) -> None:
        """Stops the cluster; open connections are cut."""
        if self.pid() is not None:
            self._run(self._program("pg_ctl"), "-D", str(self.data), "-m", "fast", "-w", "-t", "30", "stop")
