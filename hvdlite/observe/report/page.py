"""The page: one file of HTML that needs no other and asks for nothing. Pure.

Everything that comes from the job goes through escaped(). The page's own policy forbids scripts,
so that a name that got past it would do nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from statistics import median

from hvdlite import __version__
from hvdlite.observe.report import communication, ranks, style
from hvdlite.observe.report import words as w
from hvdlite.observe.report.facts import Facts
from hvdlite.observe.report.findings import exposed_share, findings, moving_share, tells_enough
from hvdlite.observe.report.words import escaped

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_CALM = (
    "Nothing stands out: no rank holds up the others, and no tensor and no kind of batch takes "
    "much of the time."
)
_SHORT = "The job was too short to say what would make it faster."
_SECTIONS: tuple[Callable[[Facts], str], ...] = (
    ranks.steps,
    ranks.waiting,
    lambda facts: _pair(ranks.waited_for(facts), communication.overlap(facts)),
    communication.tensors,
    lambda facts: _pair(communication.batches(facts), communication.transports(facts)),
    ranks.all_ranks,
    ranks.events,
    ranks.environment,
)


def page(facts: Facts, now: float) -> str:
    """`now`: when it was made."""
    title = facts.title or "A job"
    body = "".join([_head(facts), _failure(facts), _advice(facts), _tiles(facts)])
    body += "".join(section(facts) for section in _SECTIONS)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escaped(title)} – hvdlite report</title>"
        f"<style>{style.CSS}</style></head>\n<body><main>{body}{_foot(facts, now)}"
        "</main></body></html>\n"
    )


def _head(facts: Facts) -> str:
    kind, text = _state(facts)
    hosts = len({facts.host(rank) for rank in facts.hosts})
    about = [
        f"{len(facts.hosts)} ranks" if len(facts.hosts) != 1 else "1 rank",
        *([f"{hosts} hosts"] if hosts > 1 else []),
    ]
    if facts.began is not None and facts.ended is not None:
        about += [w.duration(facts.ended - facts.began), f"from {w.date(facts.began)}"]
    return (
        f"<header><h1>{escaped(facts.title or 'A job')}"
        f'<span class="pill {kind}">{escaped(text)}</span></h1>'
        f'<p class="quiet">{escaped(", ".join(about))}</p></header>'
    )


def _state(facts: Facts) -> tuple[str, str]:
    if facts.running:
        return "", "still running"
    if facts.end is None:
        return "", "how it ended is not known"
    if facts.end.status:
        return "bad", f"failed with status {facts.end.status}"
    return "good", "ended well"


def _failure(facts: Facts) -> str:
    if facts.end is None or not facts.end.sentence:
        return ""
    failed = ' class="failure"' if facts.end.status else ""
    said = facts.end.sentence.removeprefix("hvdliterun: ")
    return f"<section{failed}><h2>How it ended</h2><p>{escaped(said)}</p></section>"


def _advice(facts: Facts) -> str:
    found = findings(facts)
    if not found:
        text = f"<p>{escaped(_CALM if tells_enough(facts) else _SHORT)}</p>"
    else:
        items = "".join(
            f"<li><b>{_together(each.text)}</b>{_together(each.advice)}</li>" for each in found
        )
        text = f'<ol class="advice">{items}</ol>'
    return f"<section><h2>What to do</h2>{text}</section>"


def _together(text: str) -> str:
    """A number and its sign stay on one line."""
    return re.sub(r"(\d) %", "\\1\u00a0%", escaped(text))


def _tiles(facts: Facts) -> str:
    cells = "".join(
        f'<div class="tile"><span>{escaped(name)}</span><b>{escaped(value)}</b></div>'
        for name, value in _numbers(facts)
    )
    return f'<div class="tiles">{cells}</div>'


def _numbers(facts: Facts) -> Iterator[tuple[str, str]]:
    sums = facts.sum
    steps = [p.step for s in facts.samples for p in s.points.values() if p.step is not None]
    yield "step, median", w.seconds(median(steps) if steps else None)
    yield "steps", f"about {w.count(facts.steps)}" if facts.steps >= 1 else w.count(None)
    active = facts.active or None
    yield "time communicating", w.percent(moving_share(facts)) if active else "–"
    yield "results per second", f"{w.size(sums.bytes / active)}" if active else "–"
    per_batch = sums.operations / sums.batches if sums.batches else None
    yield "tensors per batch", "–" if per_batch is None else w.digits(per_batch)
    exposed = exposed_share(facts)
    yield "communication not hidden", "–" if exposed is None else w.percent(exposed)


def _pair(left: str, right: str) -> str:
    if left and right:
        return f'<div class="pair">{left}{right}</div>'
    return left + right


def _foot(facts: Facts, now: float) -> str:
    notes = "".join(f"<p>{escaped(note)}</p>" for note in facts.notes)
    return (
        f"<footer>{notes}<p>Made by hvdlite {escaped(__version__)} on {escaped(w.date(now))}. "
        "This file needs no network, and runs no script.</p></footer>"
    )
