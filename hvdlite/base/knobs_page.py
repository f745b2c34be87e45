"""docs/reference/knobs.md, from the knob table: `python -m hvdlite.base.knobs_page
docs/reference/knobs.md`."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from hvdlite.base.knobs import KNOBS, Knob

_MIB = 1 << 20


def _in_words(knob: Knob) -> str:
    value = knob.default
    if isinstance(value, bool):
        return "`1`" if value else "`0`"
    if isinstance(value, str):
        return f"`{value}`" if value else "empty"
    if knob.unit == "bytes" and value >= 1024:
        return f"{value // _MIB} MiB" if value % _MIB == 0 else f"{value // 1024} KiB"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _markdown_lines() -> Iterator[str]:
    yield "# Knobs"
    yield ""
    yield "This page lists every setting of hvdlite."
    yield "Each knob is an environment variable, and `hvdliterun` has flags for some of them:"
    yield ""
    yield "```sh"
    yield "HVDLITE_LOG_LEVEL=info hvdliterun -np 4 python train.py"
    yield "hvdliterun -np 4 --log-level info python train.py"
    yield "```"
    yield ""
    yield "- `hvdliterun` sets the variable of a flag on every rank."
    yield "- If a knob has two variables, the `HVDLITE_` one wins."
    yield "- A value that is not allowed stops the program with an error that names the variable."
    yield "- An empty value means *not set*, except for a knob that takes any text."
    yield ""
    yield "<!-- Written by python -m hvdlite.base.knobs_page docs/reference/knobs.md"
    yield "     from the table in hvdlite/base/knobs.py: change that. -->"
    section = ""
    for knob in KNOBS:
        if knob.section != section:
            section = knob.section
            yield ""
            yield f"## {section}"
        yield ""
        yield from _entry(knob)


def _entry(knob: Knob) -> Iterator[str]:
    yield f"`{knob.environment[0]}`"
    value = rf"(?:{'|'.join(knob.choices)})" if knob.choices else "-"
    prefix, listed = ":   ", False
    for sentence in re.split(r"(?<=\.) (?=[a-zA-Z])", knob.about):
        of_values = re.match(rf"({value}(?:, {value})*)(?=[: ])(?=.*:)", sentence)
        if of_values:
            if not listed:
                yield ""
            listed = True
            names = ", ".join(f"`{name}`" for name in of_values[1].split(", "))
            yield from _wrapped("    - ", names + sentence[of_values.end() :])
        else:
            yield from _wrapped(prefix, sentence)
        prefix = "    "
    facts = [f"*Default:* {_in_words(knob)}.", f"*Allowed:* {knob.allowed()}."]
    flags = " or ".join(f"`{f}`" for f in (knob.flag, knob.flag_off) if f)
    if flags:
        facts.append(f"*Flag:* {flags}" + (", in MiB." if knob.flag_scale == _MIB else "."))
    if len(knob.environment) > 1:
        facts.append(f"*Horovod's variable:* `{knob.environment[1]}`.")
    if knob.alike:
        facts.append("All ranks need the same value.")
    yield ""
    yield from _wrapped(":   ", facts[0])
    for fact in facts[1:]:
        yield from _wrapped("    ", fact)


def _wrapped(prefix: str, text: str) -> list[str]:
    below = " " * len(prefix)
    return textwrap.wrap(
        text, 100, initial_indent=prefix, subsequent_indent=below, break_on_hyphens=False
    )


def markdown() -> str:
    """Returns the text of docs/reference/knobs.md."""
    return "\n".join(_markdown_lines()) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
