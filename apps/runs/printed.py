"""A rendered page as PDF: its headings, paragraphs, lists and tables, set by ReportLab with the DejaVu fonts of ``fonts/``.

The page's own template is what is printed, so the two say the same. Text is data: nothing of it is read as markup, no address is
followed, nothing is loaded. Elements that are hidden from readers (``aria-hidden``) or that act (buttons, forms, scripts) are
left out. A table names the widths of its columns by ``data-widths`` ("10 30 60", in parts of the whole).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

FONTS = Path(__file__).resolve().parent / "fonts"
_VOID = frozenset({"br", "hr", "img", "input", "meta", "link", "use", "rect", "path", "circle", "line"})
_LEFT_OUT = frozenset(
    {"svg", "script", "style", "button", "form", "input", "select", "textarea", "progress", "template", "dialog"}
)
_BLOCKS = frozenset(
    {"main", "section", "header", "div", "article", "ul", "ol", "details", "summary", "h1", "h2", "h3", "p", "li", "table", "dl"}
)
# Elements without a class of their own that set what they hold apart from the text around it.
_STYLES = {"h1": "title", "h2": "head", "h3": "small_head", "p": "text", "li": "item", "summary": "text"}
# The two marks in the colours of the light page (frontend/css/tokens.css): kind → colour, of a machine and of a person apart.
_MARKS = {
    ("dec", "accept"): "#3B4A6B", ("dec", "ask"): "#8A5A00", ("dec", "reject"): "#8F2D2D",
    ("ver", "right"): "#0B6B46", ("ver", "wrong"): "#A3262A", ("ver", "unsure"): "#7A5B00", ("ver", "none"): "#5B6673",
}  # fmt: skip
_CJK = (
    ("HeiseiKakuGo-W5", re.compile("[\u3040-\u30ff\u31f0-\u31ff]")),
    ("HYGothic-Medium", re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]")),
)
_HAN = re.compile("[\u2e80-\u2fdf\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef]")


_HEAD_ROOM_PT = 70
# What a frame keeps free on each side.
_PADDING_PT = 6
# Of a cell: left, right, top, bottom.
_CELL_PT = (2, 4, 2, 2.5)
# Rows higher than this are split over pages.
_MOST_ROW_PT = 300


@dataclass(slots=True)
class Node:
    """An element of a page."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture in the PDF, where the page has an element with ``data-figure``: ``rgba`` (height, width, 4); ``caption`` under
    it; ``metres_per_px`` of the picture for its scale bar, None where it is not known; ``legend``: colours and their words."""

    rgba: NDArray[np.uint8]
    caption: tuple[str, ...]
    metres_per_px: float | None = None
    legend: tuple[tuple[str, str], ...] = ()


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("root")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {k: v or "" for k, v in attrs})
        self._open[-1].children.append(node)
        if tag not in _VOID:
            self._open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Node(tag, {k: v or "" for k, v in attrs}))

    def handle_endtag(self, tag: str) -> None:
        for i in range(len(self._open) - 1, 0, -1):
            if self._open[i].tag == tag:
                del self._open[i:]
                return

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def page_tree(html: str) -> Node:
    """The elements of a page or fragment, under a root."""
    tree = _Tree()
    tree.feed(html)
    tree.close()
    return tree.root


def _is_left_out(node: Node) -> bool:
    held = node.attributes
    return node.tag in _LEFT_OUT or held.get("aria-hidden") == "true" or "hidden" in held or held.get("data-print") == "no"


def pdf_bytes(html: str, *, title: str, footer: str, figure: Figure | None = None) -> bytes:
    """The page as PDF, A4, with ``footer`` and the page's number under each. The same page gives the same bytes.

    ``title`` goes into the document's properties. The figure stands where the page says, else it is left out.
    """
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.units import mm
    from reportlab.platypus import SimpleDocTemplate

    _fonts()
    out = io.BytesIO()
    document = SimpleDocTemplate(
        out, pagesize=A4, leftMargin=16 * mm, rightMargin=16 * mm, topMargin=15 * mm, bottomMargin=18 * mm, title=_plain(title),
        author="RSure Web", creator="RSure Web", producer="RSure Web", subject="Report of a run", lang="en", invariant=1,
    )  # fmt: skip
    story = list(_flowables(page_tree(html), _sheet(), document.width - 2 * _PADDING_PT, figure))
    document.build(story, canvasmaker=_numbered(_plain(footer)))
    return out.getvalue()


def _numbered(footer: str) -> Any:
    from reportlab.lib.units import mm
    from reportlab.pdfgen.canvas import Canvas

    class Numbered(Canvas):
        """Keeps the pages until their number is known, then writes the footers."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._kept: list[dict[str, Any]] = []

        def showPage(self) -> None:  # noqa: N802 - ReportLab's name
            self._kept.append(dict(self.__dict__))
            self._startPage()

        def save(self) -> None:
            for number, held in enumerate(self._kept, 1):
                self.__dict__.update(held)
                self.setFont("DejaVu", 7)
                self.setFillColor("#5B6673")
                self.drawString(16 * mm, 10 * mm, footer)
                self.drawRightString(self._pagesize[0] - 16 * mm, 10 * mm, f"Page {number} of {len(self._kept)}")
                super().showPage()
            super().save()

    return Numbered


# --- fonts and text ---------------------------------------------------------------------------------------------------------
@cache
def _fonts() -> frozenset[int]:
    """Registers the fonts; code points that both faces of DejaVu draw."""
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.pdfbase.ttfonts import TTFont

    faces = {"DejaVu": "DejaVuSans.ttf", "DejaVu-Bold": "DejaVuSans-Bold.ttf"}
    drawn = []
    for name, file in faces.items():
        font = TTFont(name, str(FONTS / file))
        pdfmetrics.registerFont(font)
        drawn.append(frozenset(font.face.charToGlyph))
    pdfmetrics.registerFontFamily("DejaVu", normal="DejaVu", bold="DejaVu-Bold", italic="DejaVu", boldItalic="DejaVu-Bold")
    # Chinese, Japanese and Korean are left to the reader's own fonts, as every PDF reader knows these by name
    for cid in ("STSong-Light", *(name for name, _ in _CJK)):
        pdfmetrics.registerFont(UnicodeCIDFont(cid))
    return drawn[0] & drawn[1]


def _plain(text: str) -> str:
    """Text in one line; what is no character is shown as one that is missing, what no font draws by its number."""
    return "".join(_drawable(c) for c in re.sub(r"\s+", " ", text))


def _drawable(c: str) -> str:
    if ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 or ord(c) in (0xFFFE, 0xFFFF):
        return "\ufffd"
    return c if ord(c) in _fonts() or _cid_of(c) else f"[U+{ord(c):04X}]"


def _cid_of(c: str) -> str:
    return next((name for name, held in _CJK if held.match(c)), "STSong-Light" if _HAN.match(c) else "")


def _marked(text: str) -> str:
    """Text for a paragraph: escaped, each run of another script in its font."""
    out, run, font = [], "", ""
    # a text with kana is Japanese, one with Hangul Korean: their signs of Chinese are drawn in the same face
    han = next((name for name, held in _CJK if held.search(text)), "STSong-Light")
    for c in _plain(text):
        wanted = "" if ord(c) in _fonts() else _cid_of(c)
        wanted = han if wanted == "STSong-Light" else wanted
        if wanted != font:
            out.append(_run(run, font))
            run, font = "", wanted
        run += c
    return "".join([*out, _run(run, font)])


def _run(text: str, font: str) -> str:
    return f'<font name="{font}">{escape(text)}</font>' if font and text else escape(text)


def _sheet() -> dict[str, Any]:
    from reportlab.lib.styles import ParagraphStyle

    base = ParagraphStyle(
        "text", fontName="DejaVu", fontSize=8.5, leading=11.5, textColor="#12181F", spaceAfter=3, splitLongWords=1
    )  # fmt: skip

    def style(name: str, **changes: Any) -> Any:
        return ParagraphStyle(name, parent=base, **changes)

    return {
        "text": base,
        "title": style("title", fontName="DejaVu-Bold", fontSize=14, leading=18, spaceAfter=4),
        "head": style("head", fontName="DejaVu-Bold", fontSize=10.5, leading=14, spaceBefore=8, spaceAfter=4),
        "small_head": style("small_head", fontName="DejaVu-Bold", fontSize=8.5, leading=12, spaceBefore=5),
        "answer": style("answer", fontName="DejaVu-Bold", fontSize=11, leading=15),
        "item": style("item", leftIndent=8),
        "cell": style("cell", fontSize=7, leading=9, spaceAfter=0),
        "column": style("column", fontName="DejaVu-Bold", fontSize=7, leading=9, spaceAfter=0, textColor="#3F4A57"),
        "caption": style("caption", fontSize=7, leading=9.5, textColor="#3F4A57"),
    }


# --- elements ---------------------------------------------------------------------------------------------------------------
def _inline(node: Node) -> str:
    """What an element says, as a paragraph's markup."""
    out = []
    for child in node.children:
        if isinstance(child, str):
            out.append(_marked(child))
        elif child.tag == "br":
            out.append("<br/>")
        elif not _is_left_out(child):
            out.append(_wrapped(child, _inline(child)))
    return "".join(out)


def _wrapped(node: Node, inner: str) -> str:
    classes = node.classes
    colour = next((c for (mark, kind), c in _MARKS.items() if mark in classes and kind in classes), "")
    if colour:
        return f'<font color="{colour}">{inner}</font> '
    if node.tag in ("b", "strong"):
        return f"<b>{inner}</b>"
    if node.tag in ("s", "del"):
        return f"<strike>{inner}</strike>"
    if "cite" in classes:
        return f'<super size="7">{inner}</super>'
    if "chk" in classes:
        return f"{inner} "
    return f"{inner} " if node.tag in _BLOCKS else inner


def _says(markup: str) -> bool:
    return bool(re.sub(r"<[^>]*>", "", markup).strip())


def _flowables(node: Node, sheet: dict[str, Any], width: float, figure: Figure | None) -> Iterator[Any]:
    from reportlab.platypus import CondPageBreak, Paragraph

    inline: list[Node | str] = []

    def told(style: str) -> Iterator[Any]:
        markup = _inline(Node("span", children=list(inline)))
        inline.clear()
        if _says(markup):
            if style in ("head", "small_head"):
                yield CondPageBreak(_HEAD_ROOM_PT)  # a heading does not end a page
            yield Paragraph(markup, sheet[style])

    own = _STYLES.get(node.tag, "text")
    style = "answer" if "a1" in node.classes else own
    for child in node.children:
        if isinstance(child, Node) and _is_left_out(child):
            continue
        if isinstance(child, Node) and ("data-figure" in child.attributes or child.tag in _BLOCKS):
            yield from told(style)
            if "data-figure" in child.attributes:
                yield from _figure(figure, sheet, width) if figure is not None else ()
            elif child.tag == "table":
                yield from _table(child, sheet, width)
            elif child.tag == "dl":
                yield from _definitions(child, sheet, width)
            else:
                yield from _flowables(child, sheet, width, figure)
        else:
            inline.append(child)
    yield from told(style)


def _rows(node: Node) -> Iterator[Node]:
    for child in node.children:
        if isinstance(child, Node) and not _is_left_out(child):
            if child.tag == "tr":
                yield child
            else:
                yield from _rows(child)


def _table(node: Node, sheet: dict[str, Any], width: float) -> Iterator[Any]:
    from reportlab.platypus import Paragraph

    for child in node.children:
        # one that only readers of the screen hear says what the heading says
        if isinstance(child, Node) and child.tag == "caption" and "vh" not in child.classes:
            yield Paragraph(_inline(child), sheet["caption"])
    rows: list[list[Any]] = []
    heads = 0
    for row in _rows(node):
        cells = [c for c in row.children if isinstance(c, Node) and c.tag in ("td", "th")]
        is_head = bool(cells) and all(c.tag == "th" for c in cells)
        heads += is_head and heads == len(rows)
        rows.append([Paragraph(_inline(c), sheet["column" if c.tag == "th" else "cell"]) for c in cells])
    columns = max((len(row) for row in rows), default=0)
    if columns:
        parts = [float(p) for p in node.attributes.get("data-widths", "").split()]
        yield from _grid([row + [""] * (columns - len(row)) for row in rows], parts, width, heads)


def _definitions(node: Node, sheet: dict[str, Any], width: float) -> Iterator[Any]:
    from reportlab.platypus import Paragraph

    terms = [c for c in node.children if isinstance(c, Node)]
    rows = [
        [Paragraph(_inline(term), sheet["column"]), Paragraph(_inline(said), sheet["cell"])]
        for term, said in pairwise(terms)
        if term.tag == "dt" and said.tag == "dd"
    ]
    if rows:
        yield from _grid(rows, [1, 4], width, 0)


def _grid(rows: list[list[Any]], parts: Sequence[float], width: float, heads: int) -> Iterator[Any]:
    """Tables of the rows, one below the other. A row that no page can hold is a table of its own, since that one alone may be
    parted within: a table that may part all its rows loses one where the foot of a page holds no line of it."""
    columns = len(rows[0])
    given = list(parts) if len(parts) == columns else [1.0] * columns
    widths = [width * p / sum(given) for p in given]
    heights = [_row_height(row, widths) for row in rows]
    start = 0
    for at, height in enumerate([*heights, None]):
        if height is not None:
            continue
        # the heading goes with the rows that it stands above
        if at > start:
            n = min(heads - start, at - start) if start < heads else 0
            yield _rows_together(rows[start:at], widths, heights[start:at], n, at < len(rows))
        if at < len(rows):
            yield _rows_together(rows[at : at + 1], widths, [None], 0, at + 1 < len(rows))
        start = at + 1


def _rows_together(rows: list[list[Any]], widths: list[float], heights: list[float | None], heads: int, goes_on: bool) -> Any:
    from reportlab.platypus import Table

    table = Table(rows, colWidths=widths, rowHeights=heights, repeatRows=heads, splitInRow=int(None in heights),
                  spaceAfter=0 if goes_on else 6)  # fmt: skip
    left, right, top, bottom = _CELL_PT
    table.setStyle(
        [
            ("VALIGN", (0, 0), (-1, -1), "TOP"),
            ("LINEBELOW", (0, 0), (-1, -1), 0.4, "#D5DBE1"),
            ("LEFTPADDING", (0, 0), (-1, -1), left),
            ("RIGHTPADDING", (0, 0), (-1, -1), right),
            ("TOPPADDING", (0, 0), (-1, -1), top),
            ("BOTTOMPADDING", (0, 0), (-1, -1), bottom),
            *([("BACKGROUND", (0, 0), (-1, heads - 1), "#EEF1F4")] if heads else []),
        ]
    )
    return table


def _row_height(row: list[Any], widths: Sequence[float]) -> float | None:
    """Height of a row in points, told to the table so that it need not set all rows again on each page; None for one that a page
    cannot hold, which the table measures as it splits it."""
    left, right, top, bottom = _CELL_PT
    most = max((c.wrap(w - left - right, 1e6)[1] for c, w in zip(row, widths, strict=True) if c), default=0.0)
    return most + top + bottom if most <= _MOST_ROW_PT else None


# --- the figure -------------------------------------------------------------------------------------------------------------
def _figure(figure: Figure, sheet: dict[str, Any], width: float) -> Iterator[Any]:
    from PIL import Image as Picture
    from reportlab.graphics.shapes import Drawing, Rect, String
    from reportlab.platypus import Image, KeepTogether, Paragraph

    rows, columns = figure.rgba.shape[:2]
    scale = min(width / columns, 300 / rows)
    ground = Picture.new("RGB", (columns, rows), "white")
    picture = Picture.fromarray(np.ascontiguousarray(figure.rgba), "RGBA")
    ground.paste(picture, mask=picture.getchannel("A"))
    held = io.BytesIO()
    ground.save(held, "PNG")
    held.seek(0)
    parts: list[Any] = [Image(held, width=columns * scale, height=rows * scale, hAlign="LEFT")]
    if figure.metres_per_px:
        metres = round_length(figure.metres_per_px * columns / 4)
        bar = Drawing(width, 16)
        length = metres / figure.metres_per_px * scale
        bar.add(Rect(0, 6, length, 3, fillColor="#12181F", strokeColor=None))
        text = f"{metres / 1000:,.6g} km" if metres >= 1000 else f"{metres:g} m"
        bar.add(String(length + 5, 4, text, fontName="DejaVu", fontSize=7, fillColor="#12181F"))
        parts.append(bar)
    if figure.legend:
        parts.append(_legend(figure.legend, width))
    parts += [Paragraph(_marked(line), sheet["caption"]) for line in figure.caption]
    yield KeepTogether(parts)


def _legend(stops: Sequence[tuple[str, str]], width: float) -> Any:
    """Colours with their words, in as many lines as they need."""
    from reportlab.graphics.shapes import Drawing, Rect, String
    from reportlab.pdfbase.pdfmetrics import stringWidth

    placed, x, line = [], 0.0, 0
    for color, text in stops:
        said = _plain(text)
        needs = 12 + stringWidth(said, "DejaVu", 7) + 12
        if x and x + needs > width:
            x, line = 0.0, line + 1
        placed.append((x, line, color, said))
        x += needs
    height = 12 * (line + 1) + 4
    out = Drawing(width, height)
    for left, row, color, said in placed:
        bottom = height - 12 * (row + 1)
        out.add(Rect(left, bottom, 8, 8, fillColor=color, strokeColor="#6B7684", strokeWidth=0.4))
        out.add(String(left + 12, bottom + 1.5, said, fontName="DejaVu", fontSize=7, fillColor="#12181F"))
    return out


def round_length(most_m: float) -> float:
    """The longest of 1, 2 and 5 times a power of ten that is not longer than ``most_m`` metres."""
    power = 10.0 ** np.floor(np.log10(most_m))
    return float(next(n * power for n in (5, 2, 1) if n * power <= most_m * (1 + 1e-9)))
