"""What every test gets: no network, a state folder of its own, skips that say why."""

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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


_environment()


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what this machine cannot run, with the reason and the remedy."""
    from tests.shared import DATA, has_shared

    lacks = {}
    if not has_shared():
        lacks["shared_data"] = f"no data folder {DATA.parent.name}/{DATA.name} beside the checkout (RSURE_SHARED names another)"
    if not _chromium():
        lacks["browser"] = "no Chromium (install the package chromium, or set RSURE_CHROMIUM)"
    if importlib.util.find_spec("torch") is None:
        lacks["ml"] = "torch is not installed (./rsure setup --ml)"
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


def python() -> str:
    """The interpreter of this run, for processes that tests start."""
    return sys.executable
