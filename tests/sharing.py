"""In which order the processes of a run take the files of tests."""

from typing import TYPE_CHECKING

from tests.shared import ROOT

if TYPE_CHECKING:
    import pytest

# Folders whose files take long.
LONG = ("tests/architecture/", "tests/integration/", "tests/unit/tools/", "tests/unit/evaluation/", "tests/unit/verification/")
# Files that wait stand in this share of the order, so that none is left for the end.
EARLY = 0.6


def _path(item: "pytest.Item") -> str:
    return item.nodeid.split("::", 1)[0]


def waits(path: str) -> bool:
    """Whether a file's tests drive the product in its own processes: they wait for it more than they work."""
    return path.startswith("tests/browser/") or "live_stack" in (ROOT / path).read_text()


def share_out(items: "list[pytest.Item]") -> None:
    """Orders tests file by file: long files come first, so that small ones fill the end; those that wait are spread among the
    others, so that few of them run beside one another."""
    files = list(dict.fromkeys(_path(item) for item in items))
    waiting = [f for f in files if waits(f)]
    others = [f for f in files if f not in waiting]
    others.sort(key=lambda f: next((i for i, folder in enumerate(LONG) if f.startswith(folder)), len(LONG)))
    place = {f: float(k) for k, f in enumerate(others)}
    place |= {f: EARLY * len(others) * k / len(waiting) - 0.5 for k, f in enumerate(waiting)}
    items.sort(key=lambda item: place[_path(item)])
