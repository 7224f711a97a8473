"""Pages as PDF: what text may do to it, rows longer than a page, the figure's scale bar. Read back by pypdf."""

import io
import re

import numpy as np
import pytest
from pypdf import PdfReader
from pypdf.generic import ContentStream
from pyproj import Geod

from apps.runs.printed import FONTS, Figure, page_tree, pdf_bytes, round_length
from apps.runs.report_page import metres_across
from tests.unit.tools.rasters import scene


def text_of(data: bytes) -> str:
    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(data)).pages)


def bare(text: str) -> str:
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        ("Ångström — Ελλάδα, Москва, r̂ ≥ 0.5, −1 km²", "Ångström — Ελλάδα, Москва, r̂ ≥ 0.5, −1 km²"),
        ("日本のカナ 北京 서울", "日本のカナ 北京 서울"),
        (
            "&lt;b&gt;bold&lt;/b&gt; &amp;amp; &lt;img src='file:///etc/passwd'/&gt;",
            "<b>bold</b> &amp; <img src='file:///etc/passwd'/>",
        ),
        ("&lt;font size='99'&gt;&lt;para&gt;{{ 7*7 }} {% x %}", "<font size='99'><para>{{ 7*7 }} {% x %}"),
        ("a\x07b\x1bc\ud800d\uffffe", "a\ufffdb\ufffdc\ufffdd\ufffde"),
        ("𓀀 no font draws this", "[U+13000] no font draws this"),
    ],
)
def test_text_is_printed_as_it_is(said: str, printed: str) -> None:
    html = f"<main><h2>{said}</h2><p>{said} <b>{said}</b></p><table><tr><th>k</th></tr><tr><td>{said}</td></tr></table></main>"
    assert bare(text_of(pdf_bytes(html, title="t", footer="f"))).count(bare(printed)) == 4


def test_a_word_without_end_is_broken_and_whole() -> None:
    word = "x" * 3000
    html = f"<h1>{word}</h1><p>{word}</p><table data-widths='1 9'><tr><td>{word}</td><td>{word}</td></tr></table>"
    assert text_of(pdf_bytes(html, title="t", footer="f")).count("x") == 4 * 3000


def test_a_row_longer_than_pages_is_split_and_nothing_is_lost() -> None:
    words = [f"w{i}" for i in range(4000)]
    html = f"<table data-widths='1 3'><tr><th>a</th><th>b</th></tr><tr><td>left</td><td>{' '.join(words)}</td></tr></table>"
    data = pdf_bytes(html, title="t", footer="f")
    reader = PdfReader(io.BytesIO(data))
    assert len(reader.pages) > 3
    assert re.findall(r"\bw\d+\b", text_of(data)) == words
    for number, page in enumerate(reader.pages, 1):
        assert f"Page {number} of {len(reader.pages)}" in page.extract_text()


def test_what_acts_or_is_hidden_is_left_out_and_nothing_is_linked() -> None:
    html = (
        "<main><p>seen <a href='https://example.org/'>link</a><svg><text>drawn</text></svg></p><script>run()</script>"
        "<button>Press</button><form><label>asked</label></form><p hidden>secret</p><span aria-hidden='true'>dots</span>"
        "<details><summary>more</summary><p>inside</p></details><dl><dt>Key</dt><dd>Value</dd></dl><div data-figure></div></main>"
    )
    data = pdf_bytes(html, title="t", footer="f")
    assert text_of(data).split() == ["seen", "link", "more", "inside", "Key", "Value", "f", "Page", "1", "of", "1"]
    assert all("/Annots" not in page for page in PdfReader(io.BytesIO(data)).pages)


def test_the_scale_bar_is_as_long_as_it_says() -> None:
    rgba = np.full((200, 400, 4), 255, np.uint8)
    data = pdf_bytes("<div data-figure></div>", title="t", footer="f", figure=Figure(rgba, ("A caption",), 2.5))
    reader = PdfReader(io.BytesIO(data))
    page = reader.pages[0]
    assert "200 m" in page.extract_text() and "A caption" in page.extract_text()
    operations = ContentStream(page.get_contents(), reader).operations
    widths = [float(operands[2]) for operands, name in operations if name == b"re" and float(operands[3]) == 3]
    pictures = [float(operands[0]) for operands, name in operations if name == b"cm" and float(operands[0]) > 100]
    # the picture shows 400 × 2.5 m
    assert widths[0] / max(pictures) == pytest.approx(200 / 1000, rel=1e-3)


def test_the_colours_of_a_printed_map_are_told() -> None:
    rgba = np.full((20, 40, 4), 255, np.uint8)
    legend = (("#1f77b4", "high regrowth"), ("#d62728", "low severity"), ("#00429d", "−0.917"))
    data = pdf_bytes("<div data-figure></div>", title="t", footer="f", figure=Figure(rgba, (), None, legend))
    reader = PdfReader(io.BytesIO(data))
    assert all(words in reader.pages[0].extract_text() for _, words in legend)
    operations = ContentStream(reader.pages[0].get_contents(), reader).operations
    fills = [tuple(round(255 * float(v)) for v in operands) for operands, name in operations if name == b"rg"]
    assert all(tuple(int(color[i : i + 2], 16) for i in (1, 3, 5)) in fills for color, _ in legend)


@pytest.mark.parametrize(("most", "length"), [(1, 1), (9.99, 5), (250, 200), (4999, 2000), (5000, 5000), (0.07, 0.05)])
def test_a_scale_bar_is_round(most: float, length: float) -> None:
    assert round_length(most) == pytest.approx(length)


def test_unclosed_and_crossed_elements_are_read_through() -> None:
    assert pdf_bytes("<p>a<b>b</p></b></div><td>c<table><tr><td>d", title="", footer="")[:5] == b"%PDF-"
    assert [c.tag for c in page_tree("<br><p>x</p>").children if not isinstance(c, str)] == ["br", "p"]


def test_the_fonts_may_ship() -> None:
    terms = (FONTS / "DejaVu-LICENSE.txt").read_text()
    assert "Permission is hereby granted, free of charge" in terms and "publish, distribute" in terms


def test_a_scale_bar_is_as_long_as_the_ground_under_it() -> None:
    pixels = np.ones((1, 100, 400), dtype=np.uint8)
    degrees, _ = scene(pixels, ["gray"], crs="EPSG:4326", pixel=1e-4, origin=(10.0, 60.0))
    across = Geod(ellps="WGS84").inv(10, 59.995, 10.04, 59.995)[2]
    assert metres_across(degrees, 200) == pytest.approx(across / 200, rel=1e-5)
    picture, _ = scene(pixels, ["gray"], crs=None)
    assert metres_across(picture, 200) is None
    assert metres_across(picture.model_copy(update={"gsd_m": 0.5}), 200) == 1.0
