"""Parts of a blob in object storage, by HTTP range requests.

The address is made by the storage that the site configured (``Storage.url``: signed, and renewed for each request), never by a
person. Redirects are not followed, and an answer that is not exactly the part asked for is an error: pixels are never guessed. So
is one of another version of the blob than the answers before: parts of two versions are no image.
"""

from __future__ import annotations

import io
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Any

BLOCK = 1 << 20
_KEPT_BLOCKS = 24
_TRIES = 3
_TIMEOUT_S = 30.0
# A part that comes in drops is given up: each drop alone is in time.
_WHOLE_S = 120.0
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})


class BlobChangedError(OSError):
    """The blob is another one than when its first part was read."""


class RemoteBlob:
    """A blob of ``size`` bytes at the address that ``url_of`` makes. Thread-safe; what was read last is kept (24 MB at most).

    It opens as a path does (``open("rb")``), so that a reader of rasters takes either.
    """

    def __init__(self, url_of: Callable[[], str], size: int, name: str):
        self._url_of, self.size, self.name = url_of, size, name
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self.n_requests = self.n_bytes = 0
        self.trouble: OSError | None = None
        self._version: str | None = None

    def open(self, mode: str = "rb") -> RangeFile:
        if mode not in ("r", "rb"):
            raise ValueError("a remote blob is only read")
        return RangeFile(self)

    def opener(self, name: str, mode: str = "rb") -> RangeFile:
        """What rasterio opens files by; nothing lies beside the blob. GDAL takes no errors of Python's: what went wrong stands in
        ``trouble``, and whoever reads must ask for it after each read."""
        if name != self.name or mode not in ("r", "rb"):
            raise FileNotFoundError(name)
        return RangeFile(self, is_quiet=True)

    def read(self, start: int, length: int) -> bytes:
        """``length`` bytes from ``start``, fewer at the end. OSError where the storage does not give them."""
        end = min(start + length, self.size)
        if end <= start:
            return b""
        first, last = start // BLOCK, (end - 1) // BLOCK
        with self._lock:
            held = {k: self._kept[k] for k in range(first, last + 1) if k in self._kept}
            for k in held:
                self._kept.move_to_end(k)
        missing = [k for k in range(first, last + 1) if k not in held]
        if missing:
            # one request for the whole gap: what lies between is wanted too, or was just dropped
            at, stop = missing[0] * BLOCK, min((missing[-1] + 1) * BLOCK, self.size)
            data = self._fetched(at, stop)
            for k in range(missing[0], missing[-1] + 1):
                held[k] = data[k * BLOCK - at:(k + 1) * BLOCK - at]
            with self._lock:
                for k in missing:
                    self._kept[k] = held[k]
                    self._kept.move_to_end(k)
                while len(self._kept) > _KEPT_BLOCKS:
                    self._kept.popitem(last=False)
        whole = b"".join(held[k] for k in range(first, last + 1))
        return whole[start - first * BLOCK:end - first * BLOCK]

    def _fetched(self, start: int, stop: int) -> bytes:
        import httpx

        client, why = _client(), ""
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(0.2 * 4 ** (attempt - 1))
            asked = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
            try:
                # what stands at the head is looked at before the body is taken, which may be as large as it likes
                with client.stream("GET", self._url_of(), headers=asked) as answer:
                    if answer.status_code in _AGAIN:
                        why = f"status {answer.status_code}"
                        continue
                    self._check(answer, start, stop)
                    data = _body(answer, stop - start)
            except httpx.TransportError as error:
                why = type(error).__name__
                continue
            if data is None:
                why = f"a part was not there after {_WHOLE_S:.0f} s"
                continue
            if len(data) != stop - start:
                raise OSError(f"the object storage gave another part of {self.name} than was asked for")
            with self._lock:
                self.n_requests += 1
                self.n_bytes += stop - start
            return data
        raise OSError(f"the object storage does not give {self.name}: {why}")

    def _check(self, answer: Any, start: int, stop: int) -> None:
        """OSError where the head of an answer is not that of the part that was asked for, of the blob that was read before."""
        place = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", answer.headers.get("Content-Range", ""))
        if answer.status_code != 206 or place is None:
            raise OSError(f"the object storage answered {answer.status_code} to a request for a part of {self.name}")
        version = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        with self._lock:
            self._version = self._version or version
            is_same = version == self._version
        first, last, size = map(int, place.groups())
        if not is_same or size != self.size:
            raise BlobChangedError(f"{self.name} changed in the object storage while it was read")
        if (first, last) != (start, stop - 1):
            raise OSError(f"the object storage gave another part of {self.name} than was asked for")

    def rest(self) -> None:
        """Lets go of what is kept in memory."""
        with self._lock:
            self._kept.clear()


def _body(answer: Any, length: int) -> bytes | None:
    """The body, of which no more is taken than tells that it is too long; None where it comes too slowly."""
    end, parts, n = time.monotonic() + _WHOLE_S, list[bytes](), 0
    for part in answer.iter_raw():
        parts.append(part)
        n += len(part)
        if n > length:
            break
        if n < length and time.monotonic() > end:
            return None
    return b"".join(parts)


_clients: dict[int, Any] = {}
_clients_lock = threading.Lock()


def _client() -> Any:
    """One client with its connections a process (never one of the process that this one was forked from)."""
    import httpx

    with _clients_lock:
        if os.getpid() not in _clients:
            _clients.clear()
            _clients[os.getpid()] = httpx.Client(timeout=_TIMEOUT_S, follow_redirects=False)
        return _clients[os.getpid()]


class RangeFile(io.RawIOBase):
    """A place in a remote blob, as a file to be read."""

    def __init__(self, blob: RemoteBlob, is_quiet: bool = False):
        self._blob, self._at, self._is_quiet = blob, 0, is_quiet

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._blob.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        try:
            data = self._blob.read(self._at, self._blob.size if size is None or size < 0 else size)
        except OSError as error:
            self._blob.trouble = error
            if not self._is_quiet:
                raise
            return b""
        self._at += len(data)
        return data

    def __enter__(self) -> RangeFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
