"""The page Models says what the cards say: for what each was made, how good it was, what it must not be used for."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.tools.zoo import registry
from tests.shared import ROOT

pytestmark = pytest.mark.django_db
CARDS = sorted((ROOT / "apps/tools/zoo/weights").glob("*.json"))


@pytest.fixture
def page(analyst: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setattr(registry, "user_folder", lambda: tmp_path)
    client = Client()
    client.force_login(analyst)

    def get() -> str:
        answer = client.get("/models/")
        assert answer.status_code == 200
        return answer.content.decode()

    return get


def said(text: str) -> str:
    """The text with what Django escapes of it."""
    return html.escape(text).replace("&#x27;", "&#x27;")


def whole_percent(share: float) -> str:
    return "more than 99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def test_it_is_for_those_who_are_signed_in_and_in_the_menu(analyst: Any) -> None:
    assert Client().get("/models/").status_code == 302
    client = Client()
    client.force_login(analyst)
    assert 'href="/models/"' in client.get("/status/").content.decode()
    assert client.post("/models/").status_code == 405


@pytest.mark.parametrize("path", CARDS, ids=lambda p: p.stem)
def test_every_shipped_card_is_told(path: Path, page: Any) -> None:
    card = json.loads(path.read_text())
    whole = page()
    start = whole.index(f'id="{card["name"]}"')
    section = whole[start : whole.index("</section>", start)]
    for text in (card["title"], card["licence"], card["sha256"], card["places"], *card["data"], *card["not_for"]):
        assert said(text) in section, text
    assert section.count('<th scope="row"') >= len(card["classes"])
    for one in card["classes"]:
        # as words; where these differ the name of the card stands behind
        lead = rf'<th scope="row" class="lead">(?:{re.escape(one["name"])}|[a-z ]+ <span[^>]*>{re.escape(one["name"])}</span>)'
        row = re.search(rf"{lead}(.*?)</tr>", section, re.S)
        assert row is not None, one["name"]
        assert ("experimental" in row[1]) is one.get("experimental", False)
        for key in ("precision", "recall"):
            if key in one.get("scores", {}):
                assert f"{100 * one['scores'][key]:.0f} %" in row[1]
        if "per_class" in card["scores"]:
            assert whole_percent(card["scores"]["per_class"][one["name"]]) in row[1]
    if "accuracy" in card["scores"]:
        assert whole_percent(card["scores"]["accuracy"]) in section
        assert f"Right on the test ({card['scores']['n_test']:,} pictures of all classes)" in section
    assert not re.search(r"\d\.\d+ %", section), "no share is told finer than its pictures carry"
    n = sum(one.get("experimental", False) for one in card["classes"])
    assert (f"{n} of {len(card['classes'])} class" in section) is (n > 0)


def test_classes_are_told_in_words(page: Any) -> None:
    whole = page()
    for words, name in (("dense residential", "denseresidential"), ("storage tanks", "storagetanks"),
                        ("herbaceous vegetation", "HerbaceousVegetation"), ("sea lake", "SeaLake")):  # fmt: skip
        assert re.search(rf'class="lead">{words} <span[^>]*>{name}</span>', whole), name
    assert "medium residential taken for dense residential: 6" in whole


def test_an_added_model_of_which_nothing_is_known_says_so(page: Any, tmp_path: Path) -> None:
    folder = tmp_path / "kilns"
    folder.mkdir()
    (folder / "weights.onnx").write_bytes(b"x" * 64)
    title = "<script>alert(1)</script>.onnx"
    (folder / "card.json").write_text(json.dumps({
        "name": "kilns", "title": title, "task": "detect", "format": "onnx", "file": "weights.onnx", "bytes": 64,
        "sha256": "sha256:" + "0" * 64, "classes": [{"name": "kiln", "experimental": True}], "licence": "not stated",
        "source": "added", "trusted": False,
    }))  # fmt: skip
    whole = page()
    assert "<script>alert" not in whole
    section = whole[whole.index('id="kilns"') :]
    section = section[: section.index("</section>")]
    for text in ("not trusted", "Nothing is known of its scores", "The card names nothing", "added here", "&lt;script&gt;"):
        assert text in section
    assert "All scores of the card" not in section


def test_what_is_switched_off_says_how_to_switch_it_on(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RSURE_NO_ML", "1")
    whole = page()
    assert "off: torch is not installed" in whole
    assert ">pip install -r requirements-ml.txt</code>" in whole and ">./rsure setup</code>" in whole and "`" not in whole
    ids = re.findall(r'\bid="([^"]+)"', whole)
    assert len(ids) == len(set(ids))
