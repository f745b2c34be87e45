"""Charts as HTML: marks are SVG that fills any width, and texts stay as large as they are. Pure.

A chart is a grid: the axis of values, the plot, and the axis of time below. Colours are classes
of the page's style, so that they follow its light or dark mode.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hvdlite.observe.report.facts import Event
from hvdlite.observe.report.words import escaped

# Of the plot's own coordinates; the page stretches them.
WIDTH, HEIGHT = 1000.0, 100.0
LEVELS = 8


@dataclass(frozen=True)
class Line:
    """`points`: time and value; a gap where the value is None. `colour`: 0 is the quiet one."""

    label: str
    points: Sequence[tuple[float, float | None]]
    colour: int = 0


@dataclass(frozen=True)
class Bar:
    label: str
    share: float  # of the whole width, 0 to 1
    value: str  # what stands behind it
    title: str = ""
    colour: int = 1


def lines(
    drawn: Sequence[Line],
    seconds: float,
    highest: float,
    unit: tuple[float, str],
    marks: Iterable[Event] = (),
) -> str:
    """Lines over time, which begins at 0. Values above `highest` are cut off at the top. `unit`: of
    a value of 1, and its name."""
    factor, name = unit
    most = highest * factor
    ticks = value_ticks(most)
    if ticks[-1] < most:
        ticks.append(ticks[-1] + _step_for(most))
    top = ticks[-1] or 1.0
    span = seconds or 1.0
    grid = "".join(f"M0 {_number(HEIGHT * (1 - tick / top))}H{WIDTH:g}" for tick in ticks)
    parts = [f'<path class="grid" d="{grid}"/>', *_marked(marks, span, HEIGHT)]
    for line in sorted(drawn, key=lambda line: line.colour):
        path = _path(line.points, span, top / factor)
        if path:
            parts.append(
                f'<path class="line k{line.colour}" d="{path}">'
                f"<title>{escaped(line.label)}</title></path>"
            )
    labels = [(1 - tick / top, f"{tick:.10g}") for tick in ticks]  # 0.25, 100
    return _figure("".join(parts), labels, name, span, "tall")


def legend(items: Iterable[tuple[str, int]], kind: str = "") -> str:
    """Names and their colours. `kind`: "boxes" for areas; else they are lines."""
    parts = (f'<li><i class="b{colour}"></i>{escaped(label)}</li>' for label, colour in items)
    return f'<ul class="legend {kind}">{"".join(parts)}</ul>'


def heat_map(
    rows: Sequence[tuple[str, str, Sequence[float | None]]],
    seconds: float,
    top: float,
    marks: Iterable[Event] = (),
) -> str:
    """`rows`: a label, a title and the values of equal times; `top`: the value of the darkest."""
    columns = max((len(values) for _, _, values in rows), default=0)
    if not columns:
        return ""
    width = WIDTH / columns
    by_level: dict[int, list[str]] = {}
    for y, (_, _, values) in enumerate(rows):
        for begin, end, level in _runs([level_of(value, top) for value in values]):
            if level is not None:
                by_level.setdefault(level, []).append(
                    f"M{_number(begin * width)} {y}H{_number(end * width)}v1"
                    f"H{_number(begin * width)}z"
                )
    parts = [
        f'<path class="h{level}" d="{"".join(paths)}"/>'
        for level, paths in sorted(by_level.items())
    ]
    parts += _marked(marks, seconds or 1.0, len(rows))
    parts += [
        f'<rect class="row" y="{y}" width="{WIDTH:g}" height="1"><title>{escaped(title)}</title>'
        "</rect>"
        for y, (_, title, _) in enumerate(rows)
    ]
    every = -(-len(rows) // 16)  # not more labels than have room
    labels = [
        ((y + 0.5) / len(rows), label) for y, (label, _, _) in enumerate(rows) if y % every == 0
    ]
    return _figure("".join(parts), labels, "rank", seconds, "rows", len(rows))


def scale(top: float) -> str:
    """What the colours of a heat map mean, from 0 to `top`, a share."""
    cells = "".join(f'<i class="s{level}"></i>' for level in range(LEVELS))
    return f'<p class="scale"><span>0 %</span>{cells}<span>{100 * top:.0f} %</span></p>'


def level_of(value: float | None, top: float) -> int | None:
    """0 to LEVELS - 1."""
    if value is None:
        return None
    return max(0, min(LEVELS - 1, int(LEVELS * value / top)))


def bars(drawn: Iterable[Bar]) -> str:
    """Horizontal bars with their values as texts."""
    rows = []
    for bar in drawn:
        width = 100 * max(0.0, min(1.0, bar.share))
        title = f' title="{escaped(bar.title or bar.label)}"'
        rows.append(
            f'<li{title}><span class="name">{escaped(bar.label)}</span>'
            f'<span class="track"><i class="b{bar.colour}" style="width:{_number(width)}%"></i>'
            f'</span><span class="value">{escaped(bar.value)}</span></li>'
        )
    return f'<ul class="bars">{"".join(rows)}</ul>'


def stack(parts: Sequence[tuple[str, float, int]], text: str) -> str:
    """One bar of several parts: label, share of the whole, and colour. `text`: all of it, for those
    who cannot see it."""
    cells = "".join(
        f'<i class="b{colour}" style="width:{_number(100 * share)}%" title="{escaped(label)}"></i>'
        for label, share, colour in parts
        if share > 0
    )
    return f'<div class="stack" role="img" aria-label="{escaped(text)}">{cells}</div>'


def _figure(
    marks: str,
    labels: Sequence[tuple[float, str]],
    unit: str,
    seconds: float,
    kind: str,
    rows: int = 0,
) -> str:
    height = f"{rows}" if rows else f"{HEIGHT:g}"
    style = f' style="--rows:{rows}"' if rows else ""
    ys = "".join(
        f'<span style="top:{_number(100 * at)}%">{escaped(text)}</span>' for at, text in labels
    )
    span = seconds or 1.0
    xs = "".join(
        f'<span style="left:{_number(100 * at / span)}%">{escaped(text)}</span>'
        for at, text in time_ticks(seconds)
        if at <= 0.97 * span
    )
    return (
        f'<div class="plot {kind}"{style}><div class="unit">{escaped(unit)}</div>'
        f'<div class="ys">{ys}</div>'
        f'<svg viewBox="0 0 {WIDTH:g} {height}" preserveAspectRatio="none" role="img">{marks}</svg>'
        f'<div class="xs">{xs}</div></div>'
    )


def _marked(marks: Iterable[Event], span: float, height: float) -> list[str]:
    """Vertical lines, such as for a change of the ranks."""
    return [
        f'<path class="mark" d="M{_number(WIDTH * mark.time / span)} 0V{height:g}">'
        f"<title>{escaped(mark.text)}</title></path>"
        for mark in marks
    ]


def _path(points: Sequence[tuple[float, float | None]], span: float, top: float) -> str:
    """A point without neighbours is a short dash, or it would not be seen."""
    parts: list[str] = []
    stroke: list[str] = []

    def end() -> None:
        if stroke:
            parts.append(
                f"M{stroke[0]}" + ("h2" if len(stroke) == 1 else "L" + "L".join(stroke[1:]))
            )
        stroke.clear()

    for time, value in points:
        if value is None:
            end()
        else:
            y = HEIGHT * (1 - min(1.0, value / top))
            stroke.append(f"{_number(WIDTH * time / span)} {_number(y)}")
    end()
    return "".join(parts)


def _runs(levels: Sequence[int | None]) -> Iterable[tuple[int, int, int | None]]:
    """Neighbours of one level are one piece."""
    begin = 0
    for i in range(1, len(levels) + 1):
        if i == len(levels) or levels[i] != levels[begin]:
            yield begin, i, levels[begin]
            begin = i


def _number(value: float) -> str:
    """At most two places, without zeros at the end."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


# Round numbers for axes, and marks on the axis of time.

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIMES = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
    172800, 604800, 1209600, 2419200,
)  # fmt: skip


def rounded_up(value: float) -> float:
    """The least round number that is not smaller."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in _STEPS if power * step >= value * (1 - 1e-9))


def _step_for(most: float) -> float:
    """A round step, of which about four reach up to `most`."""
    return rounded_up(most / 4)


def value_ticks(most: float) -> list[float]:
    """0 and round numbers up to `most`, which is one of them at best."""
    step = _step_for(most)
    return [step * i for i in range(math.floor(most / step + 1e-9) + 1)]


def time_ticks(seconds: float) -> list[tuple[int, str]]:
    """Round times since the beginning, at most seven, and their texts."""
    step = next((each for each in _TIMES if seconds / each <= 6), 10 * _TIMES[-1])
    return [(at, _clock(at, step)) for at in range(0, math.floor(seconds) + 1, step)]


def _clock(at: int, step: int) -> str:
    if step >= 86400:
        return f"{at // 86400} d"
    if step >= 3600:
        return f"{at // 3600} h"
    if step >= 60:
        return f"{at // 3600}:{at % 3600 // 60:02} h" if at >= 3600 else f"{at // 60} min"
    return f"{at // 60}:{at % 60:02} min" if at >= 60 else f"{at} s"


# Sections and tables.


def section(title: str, note: str, content: str) -> str:
    """`note` is a text; `content` is HTML."""
    about = f'<p class="note">{escaped(note)}</p>' if note else ""
    return f"<section><h2>{escaped(title)}</h2>{about}{content}</section>"


def table(head: str, rows: str) -> str:
    """Rows of HTML. A table that is wider than the page scrolls."""
    return f'<div class="scroll"><table>{head}{rows}</table></div>'
