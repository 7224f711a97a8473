"""A STAC API on this machine's loopback: what is asked, what is told, and what is never fetched."""

from __future__ import annotations

import collections
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from apps.core.errors import ModelError
from apps.imagery import stac
from apps.imagery.stac import StacApi, search_apis
from tests.unit.imagery.test_stac import ITEM
from tests.unit.tools.rasters import Bench, scene


class Server:
    """Answers with what ``answer(method, path, body)`` gives: (status, JSON or bytes, headers)."""

    def __init__(self, answer: Callable[[str, str, dict[str, Any]], tuple[int, Any, dict[str, str]]]):
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        held = self

        class Handler(BaseHTTPRequestHandler):
            def _do(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length) or b"{}")
                held.asked.append((self.command, self.path, body))
                status, content, headers = answer(self.command, self.path, body)
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for k, v in headers.items():
                    self.send_header(k, v)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = _do  # noqa: N815 (the server's names)

            def log_message(self, *_: Any) -> None:
                return None

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(answer: Any) -> Server:
        servers.append(Server(answer))
        return servers[-1]

    yield start
    for s in servers:
        s.close()


def item(day: str, **more: Any) -> dict[str, Any]:
    return ITEM | {"id": f"S2B_{day}", "properties": ITEM["properties"] | {"datetime": f"{day}T10:00:00Z"}} | more


def collection(*items: Any, links: Any = ()) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": list(items), "links": list(links)}


WANTED = {"bbox": [10.4, 45.4, 10.6, 45.6], "start": "2024-06-01", "end": "2024-06-30", "collections": ["sentinel-2-l2a"]}


def test_a_search_of_two_pages_and_what_is_asked(serve: Any) -> None:
    def answer(method: str, path: str, body: dict[str, Any]) -> Any:
        if "token" in body:
            return 200, collection(item("2024-06-06")), {}
        link = {"rel": "next", "href": "/stac/search", "method": "POST", "merge": True, "body": {"token": "t2"}}
        return 200, collection(item("2024-06-21"), {"type": "Thing"}, links=[{"rel": "self", "href": "/x"}, link]), {}

    server = serve(answer)
    items, is_whole = StacApi(f"{server.url}/stac").search(WANTED)
    assert [i["id"] for i in items] == ["S2B_2024-06-06", "S2B_2024-06-21"] and is_whole
    assert items[0]["roles"] == ["nir", "red", "swir1"] and items[0]["level"] == "L2A"
    (m1, p1, first), (_, _, second) = server.asked
    assert (m1, p1, first["bbox"]) == ("POST", "/stac/search", WANTED["bbox"])
    assert first["datetime"] == "2024-06-01T00:00:00Z/2024-06-30T23:59:59Z" and first["collections"] == ["sentinel-2-l2a"]
    assert second == first | {"token": "t2"}


def test_pages_by_get_and_open_periods(serve: Any) -> None:
    def answer(method: str, path: str, body: dict[str, Any]) -> Any:
        if method == "GET":
            return 200, collection(item("2024-06-06")), {}
        return 200, collection(item("2024-06-01"), links=[{"rel": "next", "href": "search?page=2"}]), {}

    server = serve(answer)
    items, _ = StacApi(server.url).search({"bbox": [0, 0, 1, 1], "start": "2024-06-01", "end": ""})
    assert len(items) == 2 and server.asked[0][2]["datetime"] == "2024-06-01T00:00:00Z/.."
    assert server.asked[1][:2] == ("GET", "/search?page=2")


def test_no_other_host_is_asked(serve: Any) -> None:
    other = serve(lambda *_: (200, collection(item("2024-06-01")), {}))
    moved = serve(lambda *_: (307, {}, {"Location": f"{other.url}/search"}))
    with pytest.raises(ModelError, match="status 307"):
        StacApi(moved.url).search(WANTED)
    paged = serve(lambda *_: (200, collection(item("2024-06-01"), links=[{"rel": "next", "href": f"{other.url}/search"}]), {}))
    with pytest.raises(ModelError, match="another host"):
        StacApi(paged.url).search(WANTED)
    assert other.asked == []  # and the assets' addresses (../../../etc/passwd, example.org) were opened by nobody
    for url in ("http://example.org/stac", "ftp://127.0.0.1/x", "https://user:word@example.org", "nonsense", "file:///etc"):
        with pytest.raises(ValueError, match=r"STAC API|encrypted"):
            StacApi(url)
    assert StacApi("https://example.org/stac/v1/").url == "https://example.org/stac/v1"


@pytest.mark.parametrize(("content", "status", "part"), [
    (b"<html>", 200, "no JSON"), ({"type": "Catalog"}, 200, "collection of items"), ([1], 200, "collection of items"),
    ({}, 503, "status 503"), (b"[" * 100_000, 200, "no JSON"),
])
def test_answers_that_are_none(serve: Any, content: Any, status: int, part: str) -> None:
    server = serve(lambda *_: (status, content, {}))
    with pytest.raises(ModelError, match=part):
        StacApi(server.url).search(WANTED)


@pytest.mark.parametrize("href", ["http://[", "//[::1", "http://127.0.0.1:99999999/", "file:///etc/passwd", "javascript:1"])
def test_a_next_page_without_an_address_is_refused(serve: Any, href: str) -> None:
    server = serve(lambda *_: (200, collection(item("2024-06-01"), links=[{"rel": "next", "href": href}]), {}))
    with pytest.raises(ModelError, match="next page"):
        StacApi(server.url).search(WANTED)
    assert [path for _, path, _ in server.asked] == ["/search"]


def test_too_much_and_endless_answers(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    same = {"rel": "next", "href": "/search", "method": "POST"}
    endless = serve(lambda *_: (200, collection(item("2024-06-01"), links=[same]), {}))
    with pytest.raises(ModelError, match="again and again"):
        StacApi(endless.url).search(WANTED)
    monkeypatch.setattr(stac, "MAX_ITEMS", 3)
    many = serve(lambda *_: (200, collection(*(item(f"2024-06-0{k}") for k in range(1, 6)),
                                             links=[{"rel": "next", "href": "/search?p=2"}]), {}))
    items, is_whole = StacApi(many.url).search(WANTED)
    assert len(items) == 3 and not is_whole
    monkeypatch.setattr(stac, "MAX_PAGE_BYTES", 500)
    with pytest.raises(ModelError, match="larger than"):
        StacApi(many.url).search(WANTED)
    many.close()
    with pytest.raises(ModelError, match="could not be reached"):
        StacApi(many.url, timeout_s=2).search(WANTED)


# --- asset.catalog over it ---------------------------------------------------------------------------------------------------
def bench(server: Server, **more: Any) -> Bench:
    api = StacApi(server.url)
    stored = np.ones((2, 4, 4), dtype=np.uint16)
    return Bench(scene(stored, ["red", "nir"], date="2024-06-01", sensor="Sentinel-2", crs="EPSG:4326", pixel=0.1,
                       origin=(10.3, 45.7)), stac_search=lambda q: search_apis([api], q), **more)


def test_what_is_missing_from_a_series_in_project_and_api(serve: Any) -> None:
    server = serve(lambda *_: (200, collection(item("2024-06-06"), item("2024-06-26"), item("2024-06-16", assets={}),
                                               item("2024-06-11", bbox=[50, 50, 51, 51])), {}))
    other = scene(np.ones((2, 4, 4), dtype=np.uint16), ["red", "nir"], scene_id="p", date="2024-06-11", sensor="Sentinel-2",
                  crs="EPSG:4326", pixel=0.1, origin=(10.3, 45.7))[0]
    b = bench(server, project_scenes=lambda: [other])
    params = {"bbox": WANTED["bbox"], "start": "2024-06-01", "end": "2024-06-30", "roles": ["nir"]}
    o = b.execute([("c", "asset.catalog", (), params)])
    assert o.status.state == "ok", o.status.reason
    assert [(i["date"], i["source"]) for i in o.result.items] == [
        ("2024-06-01", "question"), ("2024-06-06", "api"), ("2024-06-11", "project"), ("2024-06-16", "api"),
        ("2024-06-26", "api")]
    found: Any = o.evidence.intermediate["nodes"]
    # that of 16 June has no near infrared, so it fills no gap; Sentinel-2 comes back after five days
    assert found[0]["missing"] == ["S2B_2024-06-16 does not tell its bands"]
    assert [(g["from"], g["to"], g["expected"]) for g in found[0]["gaps"]] == [
        ("2024-06-11", "2024-06-26", ["2024-06-16", "2024-06-21"])]
    assert found[0]["sources"] == {"question": 1, "project": 1, "folder": 0, "api": 4}
    again = b.execute([("c", "asset.catalog", (), params | {"source": "project"})])
    assert again.result.value == 1 and len(server.asked) == 1


def test_an_api_that_fails_is_no_empty_series(serve: Any) -> None:
    b = bench(serve(lambda *_: (500, {}, {})))
    o = b.execute([("c", "asset.catalog", (), {"bbox": WANTED["bbox"]})])
    assert o.status.state == "failed" and "status 500" in o.status.reason and o.result.value is None
    assert b.execute([("c", "asset.catalog", (), {})]).result.value == 1  # no place: the API is not asked
    assert "give its bbox" in b.execute([("c", "asset.catalog", (), {"source": "api"})]).status.reason
    alone = Bench(scene(np.ones((1, 4, 4)), ["red"]))
    plain = alone.execute([("c", "asset.catalog", (), {"source": "api", "bbox": [0, 0, 1, 1]})])
    assert "No STAC API is configured" in plain.status.reason


def test_a_cut_list_tells_no_gaps(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stac, "MAX_PAGES", 1)
    more = [{"rel": "next", "href": "/s?2"}]
    b = bench(serve(lambda *_: (200, collection(item("2024-06-06"), item("2024-06-30"), links=more), {})))
    o = b.execute([("c", "asset.catalog", (), {"bbox": WANTED["bbox"]})])
    found: Any = o.evidence.intermediate["nodes"]
    assert not found[0]["is_whole"] and found[0]["gaps"] == [] and found[0]["n_missing_dates"] is None
    assert any("more items than were read" in line.message for line in o.status.log)


def test_an_empty_period_is_one_gap(serve: Any) -> None:
    b = bench(serve(lambda *_: (200, collection(), {})))
    o = b.execute([("c", "asset.catalog", (), {"bbox": WANTED["bbox"], "source": "api", "sensor": "Sentinel-2",
                                               "start": "2024-07-01", "end": "2024-07-31"})])
    found: Any = o.evidence.intermediate["nodes"]
    assert o.result.value == 0 and found[0]["n_missing_dates"] == 6 and found[0]["revisit_days"] == 5


@contextlib.contextmanager
def dripping(head: bytes, pages: tuple[bytes, ...] = (), *, every_s: float = 0.05) -> Iterator[str]:
    """The address of a server that answers the first requests with ``pages``, whole, whatever connection they come by, and each
    later one with ``head`` and a byte now and then without end."""
    server = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()
    left = collections.deque(pages)

    def ask_whole(stream: Any) -> bool:
        """Reads one request with its body, which may come in pieces; False where the connection ended."""
        size, line = 0, stream.readline()
        if not line:
            return False
        while line.strip():
            line = stream.readline()
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        stream.read(size)
        return True

    def answer(link: socket.socket) -> None:
        with link, contextlib.suppress(OSError), link.makefile("rb") as stream:
            while ask_whole(stream):
                if left:
                    page = left.popleft()
                    link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
                    continue
                link.sendall(head)
                while not stop.wait(every_s):
                    link.sendall(b" ")
                return

    def accept() -> None:
        with contextlib.suppress(OSError):
            while not stop.is_set():
                threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    stop.set()
    server.close()


@pytest.mark.parametrize("head", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{", b"HTTP/1.1 200 OK\r\nX-Slow: "], ids=["body", "head"])
def test_a_server_that_drips_is_left_when_the_time_is_over(head: bytes) -> None:
    with dripping(head) as url:
        began = time.monotonic()
        with pytest.raises(ModelError, match=r"did not answer within 0\.5 seconds"):
            StacApi(url, search_s=0.5).search(WANTED)  # each read has 15 s and gets its byte in time
        assert time.monotonic() - began < 3


def test_pages_before_the_time_was_over_are_told_as_not_all() -> None:
    link = {"rel": "next", "href": "search?page=2"}
    page = json.dumps(collection(item("2024-06-01"), links=[link])).encode()
    with dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{", (page,)) as url:
        items, is_whole = StacApi(url, search_s=1.5).search(WANTED)
    assert [i["id"] for i in items] == ["S2B_2024-06-01"] and not is_whole


def test_the_time_is_that_of_all_pages_together(serve: Any) -> None:
    def slow(method: str, path: str, body: dict[str, Any]) -> Any:
        time.sleep(0.2)
        n = len(server.asked)
        return 200, collection(item(f"2024-06-{n:02d}"), links=[{"rel": "next", "href": f"search?page={n}"}]), {}

    server = serve(slow)
    items, is_whole = StacApi(server.url, search_s=0.7).search(WANTED)
    assert 1 <= len(items) <= 3 and not is_whole and len(server.asked) <= 4


def test_a_planning_model_that_drips_is_left_in_time_too() -> None:
    from apps.agent.planner.chat import ChatSettings, HttpChatProvider

    with dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{") as url:
        began = time.monotonic()
        with pytest.raises(ModelError, match="planning model"):
            HttpChatProvider(ChatSettings(base_url=url, model="m", timeout_s=0.5)).complete(
                [{"role": "user", "content": "?"}], schema={}, max_tokens=10)
        assert time.monotonic() - began < 3
