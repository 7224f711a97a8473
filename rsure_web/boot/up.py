"""`./rsure up`: sets up, serves, supervises, and stops all that it started."""

import argparse
import errno
import fcntl
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from . import packages
from .console import SetupError, say
from .paths import PYTHON, ROOT, home_path
from .processes import start_child, stop_child
from .services import Services

DEFAULT_PORT = 8000
START_TIMEOUT_S = 90.0
# A child that dies sooner than this after its start counts as a failed start; so many in a row end `up`.
HEALTHY_AFTER_S = 20.0
FAILED_STARTS_ALLOWED = 4


@dataclass
class Child:
    """A supervised process."""

    name: str
    command: list[str]
    env: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    failed_starts: int = 0


@dataclass
class Supervisor:
    """Starts children, restarts those that die, stops all of them."""

    env: Mapping[str, str]
    logs: Path
    children: list[Child] = field(default_factory=list)

    def log_of(self, name: str) -> Path:
        """Log file of a child."""
        return self.logs / f"{name}.log"

    def add(self, name: str, *command: str, env: Mapping[str, str] | None = None) -> Child:
        """Starts a child, with `env` on top of the common environment."""
        child = Child(name, list(command), env or {})
        self.children.append(child)
        self._start(child)
        return child

    def _start(self, child: Child) -> None:
        child.process = start_child(child.command, env={**self.env, **child.env}, cwd=ROOT, log=self.log_of(child.name))
        child.started_at = time.monotonic()

    def tail(self, name: str) -> str:
        """Last lines of a child's log."""
        path = self.log_of(name)
        return "\n".join(path.read_text(errors="replace").splitlines()[-12:]) if path.exists() else ""

    def check(self) -> None:
        """Restarts children that have ended.

        Raises:
            SetupError: one cannot be kept alive; its log's end is in the message.
        """
        for child in self.children:
            if child.process is None or child.process.poll() is None:
                continue
            status = child.process.returncode
            stop_child(child.process)  # what is left of its session: pool processes of a killed worker
            is_failed = time.monotonic() - child.started_at < HEALTHY_AFTER_S
            child.failed_starts = child.failed_starts + 1 if is_failed else 0
            if child.failed_starts >= FAILED_STARTS_ALLOWED:
                raise SetupError(
                    f"{child.name} ended {child.failed_starts} times right after its start "
                    f"(log: {self.log_of(child.name)}):\n{self.tail(child.name)}",
                    status=1,
                )
            say(f"{child.name} ended (status {status}); starting it again.")
            self._start(child)

    def stop(self) -> None:
        """Asks all to end, and ends them by force after 10 s."""
        for child in self.children:
            if child.process is not None and child.process.poll() is None:
                child.process.terminate()
        for child in reversed(self.children):
            if child.process is not None:
                stop_child(child.process)


@contextmanager
def _only_one(home: Path) -> Iterator[Callable[[str], None]]:
    """One `up` a checkout; yields a function that records its address for the next one's message."""
    path = home / "up.lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise SetupError(f"already running: {file.read().strip() or 'it is starting'}. Stop it with Ctrl+C there.") from None

        def record(text: str) -> None:
            file.truncate(0)
            file.write(text)
            file.flush()

        record("")
        yield record


def _is_free(host: str, port: int) -> bool:
    """Whether nobody listens there. SetupError for a port or an address that cannot be listened on at all."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except PermissionError:
        raise SetupError(f"port {port} may not be used by this user. Choose one above 1023: ./rsure up --port N") from None
    except (UnicodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            return False
        what = f"“{host[:80]}” is no address of this machine"
        raise SetupError(f"{what}. Leave --host out, or name one of its own: ./rsure up --host 0.0.0.0") from None
    return True


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        port = 0
    if not 1 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no port; ports are whole numbers from 1 to 65535")
    return port


def _port_choose(host: str, wanted: int | None) -> int:
    if wanted is not None:
        if not _is_free(host, wanted):
            raise SetupError(f"port {wanted} is in use. Choose another: ./rsure up --port N")
        return wanted
    for port in range(DEFAULT_PORT, DEFAULT_PORT + 50):
        if _is_free(host, port):
            return port
    raise SetupError(f"no free port from {DEFAULT_PORT} on. Choose one: ./rsure up --port N")


def _health(host: str, port: int) -> dict[str, object]:
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        answer = connection.getresponse()
        return dict(json.loads(answer.read()))
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    finally:
        connection.close()


def _wait_healthy(supervisor: Supervisor, host: str, port: int) -> None:
    end = time.monotonic() + START_TIMEOUT_S
    while True:
        health = _health(host, port)
        if health.get("ok"):
            return
        supervisor.check()
        if time.monotonic() > end:
            raise SetupError(f"the web server does not answer ({health}):\n{supervisor.tail('web')}", status=1)
        time.sleep(0.2)


def _collect_static(env: Mapping[str, str]) -> None:
    say("collecting static files ...", is_progress=True)
    answer = subprocess.run(
        [PYTHON, ROOT / "manage.py", "collectstatic", "--no-input", "--verbosity", "0"],
        env=dict(env),
        stdout=sys.stderr,
        check=False,
    )
    if answer.returncode:
        raise SetupError("the static files could not be collected (see above).", status=1)


def _manage_told(env: Mapping[str, str], command: str, problem: str) -> str:
    """Runs a management command; returns what it printed, or says the problem and goes on."""
    answer = subprocess.run([PYTHON, ROOT / "manage.py", command], env=dict(env), stdout=subprocess.PIPE, text=True, check=False)
    if answer.returncode:
        say(f"{problem} (see above); the rest runs.")
    return answer.stdout.strip()


def _sample_prepare(env: Mapping[str, str]) -> str:
    """Loads the sample project, answers its question, makes the first user; returns what to tell of them."""
    told = [
        _manage_told(env, "sample_load", "the sample project could not be loaded"),
        _manage_told(env, "sample_ask", "the sample question could not be answered"),
        _manage_told(env, "first_user", "the first user could not be made"),
    ]
    return "\n".join(filter(None, told))


def _celery(*arguments: str) -> list[str]:
    return [str(PYTHON), "-m", "celery", "-A", "rsure_web", *arguments]


def _worker_add(supervisor: Supervisor, name: str, queues: str, concurrency: int) -> None:
    command = _celery(
        "worker",
        *("--hostname", f"{name}@%h"),
        *("--queues", queues),
        *("--concurrency", str(concurrency)),
        *("--loglevel", "INFO"),
        "--without-gossip",
        "--without-mingle",
    )
    # A task that needs another capability than its worker's is passed on: it must know the worker's.
    supervisor.add(f"worker-{name}", *command, env={"RSURE_QUEUES": queues})


class MlInstallation:
    """torch and its kin, installed beside the running web; never before the page is up."""

    def __init__(self) -> None:
        self.is_done = False
        self.error: str | None = None
        self._thread = threading.Thread(target=self._install, daemon=True)

    def start(self) -> None:
        """Begins."""
        say("installing torch and ultralytics in the background (minutes, 7 GB); --no-ml leaves them out.")
        self._thread.start()

    def _install(self) -> None:
        try:
            packages.ml_ensure()
        except Exception as error:
            self.error = str(error)
        self.is_done = True


def _workers_start(supervisor: Supervisor, *, has_ml: bool) -> None:
    cores = os.cpu_count() or 1
    _worker_add(supervisor, "light", "light", 1)
    # Without a vision worker the raster worker takes its work: the tools then say that they are off, and why.
    _worker_add(supervisor, "raster", "raster" if has_ml else "raster,vision", max(1, min(4, cores - 1)))
    if has_ml:
        _worker_add(supervisor, "vision", "vision", 1)
    supervisor.add("beat", *_celery("beat", "--loglevel", "WARNING"))


def _serve(supervisor: Supervisor, *, wants_installation: bool) -> None:
    installation = None
    if wants_installation:
        installation = MlInstallation()
        installation.start()
    while True:
        time.sleep(0.5)
        supervisor.check()
        if installation is not None and installation.is_done:
            if installation.error is None:
                say("torch is installed: starting the vision worker.")
                _worker_add(supervisor, "vision", "vision", 1)
            else:
                say(f"torch could not be installed; all but the vision tools runs.\n{installation.error}")
            installation = None


def up(arguments: list[str]) -> int:
    """Runs the whole product until Ctrl+C."""
    from .commands import migrate_ensure

    parser = argparse.ArgumentParser(prog="./rsure up", description="Sets up everything and serves; Ctrl+C stops all.")
    parser.add_argument("--port", type=_port, help=f"port of the page (default: the first free one from {DEFAULT_PORT})")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--no-ml", action="store_true", help="leave torch alone; tools that need it say so")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    home = home_path()
    with _only_one(home) as record:
        port = _port_choose(options.host, options.port)
        packages.packages_ensure()
        services = Services()
        with services.lease() as urls:
            env = packages.environment() | urls
            if options.host not in ("127.0.0.1", "localhost", "::1") and not env.get("ALLOWED_HOSTS"):
                env["ALLOWED_HOSTS"] = f"localhost,127.0.0.1,{options.host},{socket.gethostname()}"
            if options.no_ml:
                env["RSURE_NO_ML"] = "1"
            quiet = packages.command_environment() | env
            migrate_ensure(services, quiet)
            _collect_static(quiet)
            supervisor = Supervisor(env=env, logs=home / "logs")
            try:
                supervisor.add(
                    "web",
                    str(PYTHON),
                    "-m",
                    "uvicorn",
                    "rsure_web.asgi:application",
                    "--host",
                    options.host,
                    "--port",
                    str(port),
                    "--no-access-log",
                    "--timeout-graceful-shutdown",
                    "5",
                )
                local = "127.0.0.1" if options.host == "0.0.0.0" else options.host
                wants_ml = not options.no_ml
                has_ml = wants_ml and packages.has_ml()
                _workers_start(supervisor, has_ml=has_ml)
                _wait_healthy(supervisor, local, port)
                address = f"http://{'localhost' if local in ('127.0.0.1', '::1') else local}:{port}/"
                record(address)
                say(f"the page is up after {time.monotonic() - began:.0f} s at {address}; preparing the sample ...")
                told = _sample_prepare(quiet)
                print(f"\nRSure Web is ready after {time.monotonic() - began:.0f} s: {address}", flush=True)
                if told:
                    print(told, flush=True)
                print(f"Logs: {supervisor.logs}. Ctrl+C stops everything.\n", flush=True)
                _serve(supervisor, wants_installation=wants_ml and not has_ml)
            except KeyboardInterrupt:
                say("stopping ...")
                return 0
            finally:
                supervisor.stop()
    return 0
