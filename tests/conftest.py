"""What every test gets: no network, a state folder of its own, skips that say why."""

import importlib.util
import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from tests.stack import LiveStack

# a flush is tried so often
FLUSHES = 5
ROOT = Path(__file__).resolve().parent.parent


def _services_from_checkout() -> None:
    """Plain `pytest` finds the embedded services when `./rsure services start` has started them."""
    if os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL"):
        return
    answer = subprocess.run([ROOT / "rsure", "services", "env"], capture_output=True, text=True, check=False)
    for line in answer.stdout.splitlines():
        key, _, value = line.removeprefix("export ").partition("=")
        if key in ("DATABASE_URL", "REDIS_URL"):
            os.environ.setdefault(key, value.strip("'"))


def _environment() -> None:
    """Set before Django reads its settings, and inherited by the processes that tests start."""
    _services_from_checkout()
    suffix = os.environ.get("RSURE_TEST_SUFFIX", "")
    from django.conf import settings

    # Not in pytest's configuration: the Django plug-in would then read the settings before this file is.
    assert not settings.configured, "unset DJANGO_SETTINGS_MODULE to run the tests"
    os.environ["DJANGO_SETTINGS_MODULE"] = "rsure_web.settings"
    os.environ["RSURE_TESTING"] = "1"
    os.environ["RSURE_NAMESPACE"] = f"test-{suffix or 'rsure'}-{os.getpid()}"
    os.environ["RSURE_HOME"] = tempfile.mkdtemp(prefix="rsure-test-")
    os.environ.setdefault("LOG_LEVEL", "WARNING")
    # Libraries and processes beyond the guard below: a proxy that nobody answers.
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        os.environ[name] = os.environ[name.upper()] = "http://127.0.0.1:9"
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = "localhost,127.0.0.1,::1"
    assert settings.TESTING  # reads them: the Django plug-in sets Django up when it finds them read
    from django.contrib.auth.hashers import PBKDF2PasswordHasher

    # Each test has people of its own: the same hash in fewer rounds, which web and worker processes verify as any other.
    PBKDF2PasswordHasher.iterations = 1000


_environment()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Each process of a run in several reads the settings for itself, with a state folder and names of its own; a core each."""
    os.environ.pop("DJANGO_SETTINGS_MODULE")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Removes the state folder of the run."""
    import shutil

    shutil.rmtree(os.environ["RSURE_HOME"], ignore_errors=True)


class NetworkBlockedError(RuntimeError):
    """A test tried to reach another machine."""


_LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")


def _refuse_remote(family: int, address: Any) -> None:
    if family in (socket.AF_INET, socket.AF_INET6):
        host = str(address[0])
        if host and not host.startswith(_LOOPBACK):
            raise NetworkBlockedError(f"network access in a test: {host}")


@pytest.fixture(autouse=True, scope="session")
def network_blocked() -> Iterator[None]:
    """Only loopback and unix sockets can be reached for the whole run."""
    original = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex", "sendto")}
    resolve = socket.getaddrinfo

    def connect(self: socket.socket, address: Any) -> Any:
        _refuse_remote(self.family, address)
        return original["connect"](self, address)

    def connect_ex(self: socket.socket, address: Any) -> Any:
        _refuse_remote(self.family, address)
        return original["connect_ex"](self, address)

    def sendto(self: socket.socket, data: Any, *arguments: Any) -> Any:
        _refuse_remote(self.family, arguments[-1])
        return original["sendto"](self, data, *arguments)

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name and not str(name).startswith(_LOOPBACK):
            raise NetworkBlockedError(f"name looked up in a test: {name}")
        return resolve(host, *arguments, **options)

    patch = pytest.MonkeyPatch()
    patch.setattr(socket.socket, "connect", connect)
    patch.setattr(socket.socket, "connect_ex", connect_ex)
    patch.setattr(socket.socket, "sendto", sendto)
    patch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield
    patch.undo()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips what this machine cannot run, with the reason and the remedy; orders what several processes share."""
    from tests.shared import DATA, has_shared
    from tests.sharing import share_out

    if hasattr(config, "workerinput"):
        share_out(items)
    lacks = {}
    if not has_shared():
        lacks["shared_data"] = f"no data folder {DATA.parent.name}/{DATA.name} beside the checkout (RSURE_SHARED names another)"
    if not _chromium():
        lacks["browser"] = "no Chromium (install the package chromium, or set RSURE_CHROMIUM)"
    if importlib.util.find_spec("torch") is None:
        lacks["ml"] = "torch is not installed (./rsure setup)"
    for item in items:
        for name, reason in lacks.items():
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))


def _chromium() -> str | None:
    import shutil

    return os.environ.get("RSURE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Path of the browser."""
    path = _chromium()
    assert path is not None
    return path


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The data folder; the test is skipped where it is absent."""
    from tests.shared import DATA, has_shared

    if not has_shared():
        pytest.skip("no shared data folder beside the checkout (RSURE_SHARED names another)")
    return DATA


@pytest.fixture(autouse=True, scope="session")
def flush_tried_again() -> Iterator[None]:
    """A flush that lost a deadlock is done again: web and worker of the live stack may read while it locks the tables."""
    from django.db import OperationalError
    from django.db.backends.postgresql.operations import DatabaseOperations
    from psycopg.errors import DeadlockDetected

    flush = DatabaseOperations.execute_sql_flush

    def flush_patiently(self: Any, sql_list: Any) -> None:
        for _ in range(FLUSHES - 1):
            try:
                return flush(self, sql_list)
            except OperationalError as error:
                if not isinstance(error.__cause__, DeadlockDetected):
                    raise
        return flush(self, sql_list)

    DatabaseOperations.execute_sql_flush = flush_patiently  # type: ignore[method-assign]
    yield
    DatabaseOperations.execute_sql_flush = flush  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def live_stack_session(django_db_setup: None, django_db_blocker: Any) -> "Iterator[LiveStack]":
    """Web and worker processes on the test database; tests use `live_stack`."""
    from tests.stack import live_stack_processes

    with django_db_blocker.unblock():
        yield from live_stack_processes()


@pytest.fixture
def live_stack(transactional_db: None, live_stack_session: "LiveStack") -> "Iterator[LiveStack]":
    """The whole product in its own processes, on a flushed database that this test writes to as well."""
    live_stack_session.settle()
    yield live_stack_session
    # the flush that follows locks every table: what web and worker are still at would stand in its way
    live_stack_session.rest()


CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser(chromium_path: str) -> "Iterator[Browser]":
    """One Chromium for the run."""
    from playwright.sync_api import sync_playwright

    # The driver keeps an event loop in this thread, in which Django would refuse the tests' own queries.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=chromium_path, args=list(CHROMIUM_FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def context(browser: "Browser", live_stack: "LiveStack") -> "Iterator[BrowserContext]":
    """An empty profile with the product as its base address."""
    found = browser.new_context(base_url=live_stack.url, viewport={"width": 1280, "height": 900})
    found.set_default_timeout(15_000)
    yield found
    found.close()


@pytest.fixture
def page(context: "BrowserContext") -> "Page":
    """A page nobody has signed in to."""
    return context.new_page()


@pytest.fixture
def sign_in(context: "BrowserContext", live_stack: "LiveStack") -> "Callable[[Any], None]":
    """A function that signs a user in to the browser without the form (which has its own test)."""
    from django.conf import settings
    from django.test import Client

    def enter(user: Any) -> None:
        client = Client()
        client.force_login(user)
        cookie = client.cookies[settings.SESSION_COOKIE_NAME]
        context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": live_stack.url}])

    return enter
