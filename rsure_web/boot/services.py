"""The embedded services, shared by all commands of one checkout.

Every command that uses them holds a lease (a file named by pid and start time). Who leaves last
stops them, unless `services start` pinned them. A lease of a killed command counts for nothing, and
a pin counts only for the very processes that it was set on.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .broker import Broker
from .cluster import Cluster
from .console import SetupError, say
from .paths import Places, places
from .processes import start_ticks


class Services:
    """PostGIS and Valkey of this checkout, or those that DATABASE_URL and REDIS_URL name."""

    def __init__(self) -> None:
        self.places: Places = places()
        self.cluster = None if os.environ.get("DATABASE_URL") else Cluster(self.places)
        self.broker = None if os.environ.get("REDIS_URL") else Broker(self.places)
        self._leases = self.places.state / "leases"
        self._pin = self.places.state / "pinned"
        self._leases.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.places.state / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def environment(self) -> dict[str, str]:
        """DATABASE_URL and REDIS_URL of the services in use."""
        return {
            "DATABASE_URL": self.cluster.url if self.cluster else os.environ["DATABASE_URL"],
            "REDIS_URL": self.broker.url if self.broker else os.environ["REDIS_URL"],
        }

    def _own_lease(self) -> Path:
        return self._leases / f"{os.getpid()}.{start_ticks(os.getpid())}"

    def _live_leases(self) -> list[Path]:
        live = []
        for path in self._leases.iterdir():
            pid, _, ticks = path.name.partition(".")
            if start_ticks(int(pid)) == ticks:
                live.append(path)
            else:
                path.unlink(missing_ok=True)
        return live

    def _marks(self) -> set[str]:
        """Names of our server processes that run now; those that the environment names are none of ours."""
        pids = [part.pid() for part in (self.cluster, self.broker) if part is not None]
        return {f"{pid}.{start_ticks(pid) if pid else None}" for pid in pids}

    def _pinned(self) -> set[str]:
        return set(self._pin.read_text().split()) if self._pin.exists() else set()

    def _is_pinned(self) -> bool:
        return self._pin.exists() and self._marks() <= self._pinned()

    def _start(self) -> None:
        if self.cluster is not None:
            self.cluster.start()
        if self.broker is not None:
            self.broker.start()

    def _stop(self) -> None:
        self._pin.unlink(missing_ok=True)
        if self.broker is not None:
            self.broker.stop()
        if self.cluster is not None:
            self.cluster.stop()

    @contextmanager
    def lease(self) -> Iterator[dict[str, str]]:
        """Services up for the length of a block; yields their environment."""
        with self._locked():
            self._start()
            self._own_lease().touch()
        try:
            yield self.environment()
        finally:
            with self._locked():
                self._own_lease().unlink(missing_ok=True)
                if not self._live_leases() and not self._is_pinned():
                    self._stop()

    def start(self) -> None:
        """Starts the services and leaves them running until `stop`."""
        with self._locked():
            self._start()
            # what another command pinned stays so where this one's environment names a service of its own
            self._pin.write_text(" ".join(sorted(self._marks() | self._pinned())))

    def stop(self, *, is_forced: bool = False) -> bool:
        """Unpins and stops the services unless a running command holds them; tells whether they stopped."""
        with self._locked():
            self._pin.unlink(missing_ok=True)
            live = self._live_leases()
            if live and not is_forced:
                pids = ", ".join(path.name.partition(".")[0] for path in live)
                say(f"still used by process {pids}; they will be stopped with it.")
                return False
            self._stop()
            return True

    def remove(self) -> None:
        """Stops the services and deletes their data (the embedded database with all that is in it)."""
        if not self.stop():
            raise SetupError("not removed: the services are in use.")
        shutil.rmtree(self.places.state)

    def status(self) -> list[str]:
        """One line a service."""
        lines = []
        for name, part in (("PostGIS", self.cluster), ("Valkey", self.broker)):
            if part is None:
                lines.append(f"{name}: external, from the environment")
            else:
                state = "running" if part.pid() is not None and part.is_ready() else "stopped"
                lines.append(f"{name}: {state} ({part.folder})")
        lines.append(f"pinned: {'yes' if self._is_pinned() else 'no'}; used by {len(self._live_leases())} commands")
        return lines
