"""SVG without a library: elements as text, and the colours of both themes.

Every colour is a class, so that one picture suits light and dark pages; a separate picture contains
the rules. CSS variables would not work in converters to PNG.
"""

from __future__ import annotations

import html
from collections import Counter

from bolide.lab.record.schema import Contestant
from bolide.lab.visible import visible

FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"

OURS = (("#e8590c", "#ff8c42"), ("#b8860b", "#ffd166"), ("#c2255c", "#ff7096"))
"""Colours of Bolide's contestants, light and dark: native, ASGI, WSGI."""
CEILING = ("#868e96", "#8b949e")
OTHERS = (
    ("#1c7ed6", "#58a6ff"),
    ("#2b8a3e", "#56d364"),
    ("#7048e8", "#a99bff"),
    ("#0b7285", "#39c5cf"),
    ("#a61e4d", "#f778ba"),
    ("#5c7c00", "#b5d334"),
    ("#364fc7", "#91a7ff"),
    ("#087f5b", "#38d9a9"),
    ("#862e9c", "#da77f2"),
    ("#7c5a2a", "#d2a679"),
)
TICK_LETTER_WIDTH = 8.0
"""Width of a letter of a tick's label in a wide font, at a phone's size."""
EDGE = 5
"""Least distance of a tick's label from the edge of the drawing."""
DASHES = ("", "dashed", "dotted", "broken")
"""Classes of dashes for the second, third and fourth line of a colour."""
_PLAIN = {
    "text": ("#1f2328", "#e6edf3"),
    "quiet": ("#59636e", "#9198a1"),
    "line": ("#d1d9e0", "#30363d"),
    "paper": ("#ffffff", "#0d1117"),
}


def place(contestant: Contestant) -> str:
    """Return the kind of mark: ours, ceiling or other."""
    if contestant.role == "ceiling":
        return "ceiling"
    return "ours" if contestant.is_bolide else "other"


def classes(contestants: list[Contestant]) -> dict[str, str]:
    """Return classes of a colour and a dash for each contestant, the same in the whole report.

    The pairs repeat after forty contestants that are not Bolide's.
    """
    ours = {"native": "o0", "asgi": "o1", "wsgi": "o2"}
    found: dict[str, str] = {}
    used: Counter[str] = Counter()
    others = 0
    for each in contestants:
        kind = place(each)
        if kind == "other":
            colour = f"c{others % len(OTHERS)}"
            others += 1
        else:
            colour = "ce" if kind == "ceiling" else ours.get(each.interface, "o0")
        dash = DASHES[(used[colour] + (kind == "ceiling")) % len(DASHES)]
        used[colour] += 1
        found[each.name] = f"{colour} {dash}".strip()
    return found


def rules(*, is_dark: bool) -> str:
    """Return the CSS rules of one theme."""
    n = int(is_dark)
    named = {f"c{i}": pair[n] for i, pair in enumerate(OTHERS)}
    named |= {f"o{i}": pair[n] for i, pair in enumerate(OURS)} | {"ce": CEILING[n]}
    lines = [
        f".{name} .stroke,.{name} .span{{stroke:{colour}}}"
        f".{name} .fill,.{name} .bar,.{name} .dot{{fill:{colour}}}"
        for name, colour in named.items()
    ]
    text, quiet, line, paper = (_PLAIN[each][n] for each in ("text", "quiet", "line", "paper"))
    lines += [
        f".chart text{{fill:{text}}}.chart .quiet{{fill:{quiet}}}.chart .grid{{stroke:{line}}}",
        f".chart .paper{{fill:{paper}}}.chart .whisker{{stroke:{text}}}",
        f".chart .caption{{stroke:{paper}}}",
        f".chart .limit{{stroke:{CEILING[n]}}}",
    ]
    return "\n".join(lines)


SHAPES = f"""
.chart{{font-family:{FONT};font-size:13px}}
.chart text{{stroke:none}}
.chart .small{{font-size:11.5px}}
.chart .strong{{font-weight:600}}
.chart .caption{{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}}
.chart .end{{text-anchor:end}}
.chart .mid{{text-anchor:middle}}
.chart .grid{{stroke-width:1}}
.chart .whisker{{stroke-width:1.5;opacity:.75}}
.chart .limit{{stroke-width:1.5;stroke-dasharray:5 4}}
.chart .span{{stroke-width:5;stroke-linecap:round;opacity:.55}}
.chart .thin{{stroke-width:1.5;stroke-linecap:butt}}
.chart .bar{{opacity:.88}}
.chart .series .stroke{{fill:none;stroke-width:2;stroke-linejoin:round}}
.chart .o0 .stroke,.chart .o1 .stroke,.chart .o2 .stroke{{stroke-width:3}}
.dashed .stroke{{stroke-dasharray:6 4}}
.dotted .stroke{{stroke-dasharray:2 3}}
.broken .stroke{{stroke-dasharray:10 3 2 3}}
.chart .series .solid{{stroke-dasharray:none}}
.chart .series .dots{{stroke-width:5.4;stroke-linecap:round;stroke-dasharray:none}}
"""


def escape(text: str) -> str:
    """Return a text for an element or attribute. XML has no escapes for control characters."""
    return html.escape(visible(text))


def label(title: str, name: str, letters: int) -> str:
    """Return a contestant's title, or its name if the title is too long; nothing is cut off."""
    return title if len(title) <= letters else name


def inside(x: float, content: str, width: float) -> float:
    """Return the middle of a tick's label near x at which it is within a drawing.

    Fonts differ between machines, so there is room for wide ones.
    """
    half = len(content) * TICK_LETTER_WIDTH / 2 + EDGE
    return min(max(x, half), width - half)


def text(x: float, y: float, content: str, kind: str = "") -> str:
    """Write a line of text with its baseline's left end at x, y."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str, more: str = "") -> str:
    """Draw a straight line; `more` are attributes."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"{more}/>'


def swatch(kind: str) -> str:
    """Draw a piece of a contestant's line, for a legend."""
    return (
        f'<svg class="swatch {kind}" viewBox="0 0 26 10" aria-hidden="true">'
        '<path d="M0 5H26" class="stroke"/></svg>'
    )


def drawing(width: float, height: float, label: str, body: str, **data: object) -> str:
    """Wrap a chart's elements; `data` becomes data-* attributes for the page's script."""
    more = "".join(f' data-{name}="{escape(str(value))}"' for name, value in data.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart"'
        f' viewBox="0 0 {width:.0f} {height:.0f}" role="img"'
        f' aria-label="{escape(label)}"{more}>{body}</svg>'
    )


def standalone(chart: str, title: str, note: str, *, is_png: bool = False) -> str:
    """Return a chart as a separate picture, with a title, a note and its colours."""
    width, height = (float(each) for each in chart.split('viewBox="0 0 ')[1].split('"')[0].split())
    style = SHAPES + rules(is_dark=False)
    if not is_png:
        style += "@media(prefers-color-scheme:dark){" + rules(is_dark=True) + "}"
    inner = chart[chart.index(">") + 1 : chart.rindex("</svg>")]
    body = (
        f"<style>{style}</style>"
        f'<rect width="{width:.0f}" height="{height + 68:.0f}" rx="8" class="paper"/>'
        f"{text(16, 28, title, 'strong')}"
        f'<svg x="0" y="40" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}">{inner}</svg>'
        f"{text(16, height + 58, note, 'quiet small')}"
    )
    whole = drawing(width, height + 68, title, body)
    size = f' width="{width:.0f}" height="{height + 68:.0f}"'  # without a size, pages stretch it
    return whole.replace("<svg", f"<svg{size}", 1)
