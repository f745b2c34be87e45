"""The page of `hvdlite report` in a real browser: two widths, light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from browser import PROGRAM, WHY_NOT, Browser
from report_jobs import BEGAN, Imagined

from hvdlite.observe.report.details import Tensor
from hvdlite.observe.report.facts import Facts, JobEnd
from hvdlite.observe.report.history import History
from hvdlite.observe.report.page import page

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=WHY_NOT)

LONG = "module.encoder.layers." + "very_long_name_without_any_break" * 6
SENTENCE = (
    "hvdliterun: rank 2 on node2.cluster.example.org exited with code 1: "
    f"RuntimeError: {LONG} at train.py:88 (evaluate). All other ranks have ended, too."
)
# Elements whose right edge is outside of the page, but for those in a box that scrolls.
OUTSIDE = """
[...document.querySelectorAll("body *")]
  .filter(e => !e.closest(".scroll") || e.classList.contains("scroll"))
  .filter(e => !e.closest("svg"))
  .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
  .map(e => e.tagName + "." + e.className + ": " + e.textContent.slice(0, 60))
"""
# The colours of a text and of what lies behind it.
COLOURS = """
(selector => {
  let e = document.querySelector(selector), text = getComputedStyle(e).color, behind = "";
  for (; e; e = e.parentElement) {
    behind = getComputedStyle(e).backgroundColor;
    if (behind != "rgba(0, 0, 0, 0)" && behind != "transparent") break;
  }
  return [text, behind];
})
"""
TEXTS = ("h1", ".note", ".tile b", ".tile span", "td", "th", ".plot .ys span", ".advice b",
         ".bars .value", "footer p", ".failure p", ".pill")  # fmt: skip


def history(job: Imagined) -> History:
    found = History()
    for record in job.records():
        found.add(record)
    return found


def large() -> Facts:
    """A job with all sections, long names and a failure."""
    job = Imagined(
        ranks=24, waits={2: 0.31, 9: 0.04}, heavy="fc.weight", moving=0.6, fewer_from=0.6,
        hosts=[f"node{n}.cluster.example.org" for n in range(1, 4)],
    )  # fmt: skip
    facts = history(job).facts("python train.py …", JobEnd(1, SENTENCE))
    assert facts.details is not None
    facts.details.tensors.insert(1, Tensor(LONG, 5000, 5e9, facts.details.seconds / 20, 1.0))
    facts.details.knobs["HVDLITE_HOST_ID"] = LONG
    return facts


PAGES = {
    "large": large(),
    "small": history(Imagined(ranks=2, seconds=20, every=1)).facts("python train.py", JobEnd(0)),
    "empty": replace(Facts(), title="true", running=True),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
@pytest.mark.parametrize("name", PAGES)
def test_the_page_fits_and_can_be_read(
    browser: Browser, tmp_path: Path, name: str, width: int, dark: bool
) -> None:
    path = tmp_path / "run.html"
    path.write_text(page(PAGES[name], BEGAN))
    browser.complaints.clear()
    browser.show(path, width, dark)
    picture = tmp_path / f"{name}-{width}-{'dark' if dark else 'light'}.png"
    browser.screenshot(picture)
    assert browser.complaints == []
    assert browser.value("document.documentElement.scrollWidth") == width
    assert browser.value(OUTSIDE) == []
    background = _luminance(browser.value("getComputedStyle(document.body).backgroundColor"))
    assert (background < 0.1) == dark
    for selector in TEXTS:
        if browser.value(f"!!document.querySelector({selector!r})"):
            text, behind = map(_luminance, browser.value(f"{COLOURS}({selector!r})"))
            contrast = (max(text, behind) + 0.05) / (min(text, behind) + 0.05)
            assert contrast >= 4.5, f"{selector}: {contrast:.1f}"
    assert picture.stat().st_size > 10_000


def test_marks_are_where_their_numbers_are(browser: Browser, tmp_path: Path) -> None:
    """A line at half of the axis is at half of the picture's height, and a bar is as long as its
    share."""
    path = tmp_path / "run.html"
    path.write_text(page(PAGES["large"], BEGAN))
    for width in (1280, 420):
        browser.show(path, width, dark=False)
        tracks = browser.value(
            "[...document.querySelectorAll('.bars li')].map(e => [e.querySelector('.value')"
            ".textContent, e.querySelector('.track i').getBoundingClientRect().width / "
            "e.querySelector('.track').getBoundingClientRect().width])"
        )
        shares = [(text, share) for text, share in tracks if text.endswith("%")]
        assert len(shares) > 10
        for text, share in shares:
            assert share == pytest.approx(float(text.split()[0]) / 100, abs=0.03), text
        tops = browser.value(
            "[...document.querySelectorAll('.tall .ys span')].map(e => [+e.textContent, "
            "e.getBoundingClientRect().top + e.getBoundingClientRect().height / 2])"
        )
        plot = browser.value(
            "(e => [e.top, e.bottom])(document.querySelector('.tall svg').getBoundingClientRect())"
        )
        most = max(value for value, _ in tops)
        for value, top in tops:
            assert top == pytest.approx(plot[1] - (plot[1] - plot[0]) * value / most, abs=1.5)


def test_texts_do_not_lie_over_each_other(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    path.write_text(page(PAGES["large"], BEGAN))
    for width in (1280, 420):
        browser.show(path, width, dark=True)
        for axis in (".xs", ".ys"):
            for boxes in browser.value(
                f"[...document.querySelectorAll('{axis}')].map(e => [...e.children].map(s => "
                "(b => [b.left, b.top, b.right, b.bottom])(s.getBoundingClientRect())))"
            ):
                pairs = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i]]
                assert not [pair for pair in pairs if _overlap(*pair)], (axis, width)


def _overlap(a: list[float], b: list[float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] - 1 and b[1] < a[3] - 1


def _luminance(colour: str) -> float:
    """WCAG's relative luminance of rgb(...)."""
    parts = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
