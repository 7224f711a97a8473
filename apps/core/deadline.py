"""A bound on the whole time of requests over the network: a read has its own timeout, and a server that sends a byte now and
then passes each of them."""

from __future__ import annotations

import socket
import threading
import time
from types import TracebackType
from typing import Any, Self


class Deadline:
    """Seconds for all that is asked inside of the ``with``. httpx is given ``extensions`` with each request: once the time is
    over the connections that it opened are shut, so that a read that waits (for the head of an answer, too) ends with an error,
    and ``is_over`` says why."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._shut)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._timer.cancel()
        self._open.clear()

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    @property
    def extensions(self) -> dict[str, Any]:
        return {"trace": self._trace}

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        """Told by httpcore of each connection that it made."""
        if event.rsplit(".", 1)[-1] != "complete" or not any(w in event for w in ("connect_tcp", "start_tls", "connect_unix")):
            return
        held = info["return_value"].get_extra_info("socket")
        if held is not None:
            with self._lock:
                self._open.append(held)
            if self.is_over:
                self._shut()

    def _shut(self) -> None:
        with self._lock:
            for held in self._open:
                try:
                    held.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # closed already
