"""The whole product for tests: uvicorn and Celery workers in their own processes, on the test database.

The processes live as long as the test run; every test that uses them gets a flushed database.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote
from urllib.request import ProxyHandler, build_opener

from django.conf import settings
from django.db import connection

from rsure_web.boot.processes import start_child, stop_child
from tests.shared import ROOT

# looks, 50 ms apart, in which nobody is inside a transaction: then web and worker are taken to be at rest
QUIET_LOOKS = 3


def _database_url() -> str:
    """DATABASE_URL of the test database that this process uses."""
    parts = connection.settings_dict
    login = quote(parts["USER"], safe="") + (f":{quote(parts['PASSWORD'], safe='')}" if parts["PASSWORD"] else "")
    host = quote(parts["HOST"], safe="") + (f":{parts['PORT']}" if parts["PORT"] else "")
    return f"postgis://{login}@{host}/{parts['NAME']}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class LiveStack:
    """Processes of the product.

    Attributes:
        url: address of the page, without a slash at the end.
        queues: queues of the worker, comma separated.
    """

    url: str = ""
    queues: str = "light,raster,vision"
    _env: dict[str, str] = field(default_factory=dict)
    _logs: Path = Path()
    _web: subprocess.Popen[bytes] | None = None
    worker: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts web and worker and waits until both serve."""
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._logs = Path(settings.RSURE_HOME) / "logs"
        self._env = os.environ | {
            "DATABASE_URL": _database_url(),
            "RSURE_QUEUES": self.queues,
            "LOG_LEVEL": "INFO",
        }
        command = [sys.executable, "-m", "uvicorn", "rsure_web.asgi:application", "--port", str(port)]
        command += ["--timeout-graceful-shutdown", "2"]
        self._web = start_child(command, env=self._env, cwd=ROOT, log=self._logs / "web.log")
        self.worker_start()
        self._wait_for(self._is_serving, "web")

    def _is_serving(self) -> bool:
        try:
            with build_opener(ProxyHandler({})).open(f"{self.url}/healthz", timeout=5) as answer:
                return int(answer.status) == 200
        except OSError:
            return False

    def _wait_for(self, is_ready: object, name: str) -> None:
        end = time.monotonic() + 60
        while not is_ready():  # type: ignore[operator]
            assert time.monotonic() < end, f"{name} does not answer:\n{self.log(name)}"
            time.sleep(0.1)

    def log(self, name: str) -> str:
        """Log of `web` or `worker` until now."""
        path = self._logs / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def worker_start(self) -> None:
        """Starts the worker and waits until it takes tasks."""
        seen = self.log("worker").count("ready.")
        command = [sys.executable, "-m", "celery", "-A", "rsure_web", "worker", "--concurrency", "1"]
        command += ["--queues", self.queues, "--loglevel", "INFO", "--without-gossip", "--without-mingle"]
        self.worker = start_child(command, env=self._env, cwd=ROOT, log=self._logs / "worker.log")
        self._wait_for(lambda: self.log("worker").count("ready.") > seen, "worker")

    def worker_kill(self) -> None:
        """kill -9 of the worker and its pool, as when the machine dies."""
        assert self.worker is not None
        os.killpg(self.worker.pid, signal.SIGKILL)
        self.worker.wait()

    def settle(self) -> None:
        """Between tests: a worker that is alive and no task left over."""
        import redis

        if self.worker is None or self.worker.poll() is not None:
            self.worker_start()
        client = redis.Redis.from_url(settings.REDIS_URL)
        for key in client.scan_iter(match=f"{settings.NAMESPACE}:*"):
            name = key.decode().removeprefix(f"{settings.NAMESPACE}:")
            if name in self.queues.split(",") or name.startswith("unacked"):
                client.delete(key)
        client.close()

    def rest(self, seconds: float = 10.0) -> None:
        """Waits until nobody else has been inside a transaction of the test database for a moment, for so long at most.

        A moment, not a look: a request that a closing page has sent may reach the database only after the first look.
        """
        end = time.monotonic() + seconds
        busy = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND xact_start IS NOT NULL AND backend_type = 'client backend'"
        )
        quiet = 0
        while quiet < QUIET_LOOKS and time.monotonic() < end:
            with connection.cursor() as cursor:
                cursor.execute(busy)
                quiet = quiet + 1 if cursor.fetchone() == (0,) else 0
            time.sleep(0.05)

    def stop(self) -> None:
        """Stops both."""
        for process in (self._web, self.worker):
            if process is not None:
                stop_child(process)


def live_stack_processes() -> Iterator[LiveStack]:
    """Body of the session fixture in conftest."""
    stack = LiveStack()
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
