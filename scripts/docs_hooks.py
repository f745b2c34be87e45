"""What mkdocs puts into the pages while it builds the site: the API of a package, the help of a
command, an anchor for each term of a list, and the version.

A page asks by a line of its own: `<!-- api: hvdlite.torch -->`, `<!-- help: hvdlite.launch -->`,
`<!-- file: CHANGELOG.md -->` or `<!-- sources: examples -->`.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import griffe

REDUCTIONS = ("Average", "Sum", "Adasum", "Min", "Max", "Product")
# Title of a section: a pattern that matches the names in it. A name belongs to the first section
# that matches.
SECTIONS = {
    "The job": "init|shutdown|is_initialized|is_homogeneous|run|(local_|cross_)?(rank|size)",
    "Optimizers and training": ".*Distributed.*|distributed|Compression|SyncBatchNorm.*"
    "|ddp_comm_hook|load_model"
    "|translated_errors|.*Callback|BestModelCheckpoint|BroadcastGlobalVariablesHook|.*Aggregation.*",
    "Collectives": "(all(reduce|gather|toall)|broadcast|reduce(scatter)?|barrier|join"
    "|sparse_allreduce)(_async)?_?",
    "Several tensors at once": "grouped_.*",
    "Handles": "poll|synchronize",
    "Parameters and objects": "(broadcast|allgather)"
    "_(object|parameters|optimizer_state|variables|global_variables).*",
    "Process sets": ".*[Pp]rocess_?[Ss]et.*",
    "Observation": ".*_timeline|metrics|recent_operations",
    "Errors": ".*Error",
    "What this installation can do": ".*_(built|enabled|supported|available)",
    "Other": ".*",
}

# Names that lead their section, in this order; the others follow by the alphabet.
FIRST = (
    "init", "shutdown", "is_initialized", "rank", "size", "local_rank", "local_size", "distributed"
) + (
    "DistributedOptimizer", "DistributedGradientTape", "allreduce", "ProcessSet",
    "HorovodInternalError"
)  # fmt: skip


@cache
def _package() -> griffe.Module:
    import griffe  # only where the site is built

    found = griffe.load("hvdlite", search_paths=["."], resolve_aliases=True, resolve_external=False)
    assert isinstance(found, griffe.Module)
    return found


def _public(path: str) -> Iterator[tuple[str, str]]:
    """Names of functions and classes of a package, and the places that document them. No framework
    is imported."""
    if path == "hvdlite":  # looks its names up lazily, so importing it loads nothing
        sys.path.insert(0, ".")
        yield from (
            (name, f"{home}.{name}")
            for name, home in importlib.import_module(path)._HOME_OF.items()
        )
        return
    module = _package()[path.removeprefix("hvdlite.")]
    if module.exports is None and "api" in module.members:  # looks its names up lazily, there
        path, module = f"{path}.api", module["api"]
    for name, member in module.members.items():
        if member.is_alias and not member.target_path.startswith("hvdlite."):
            continue
        # griffe leaves sums of lists as they are in a module behind such a package.
        known = module.exports is not None and all(isinstance(e, str) for e in module.exports)
        exported = not known or name in module.exports
        if name in REDUCTIONS or name.startswith("_") or not exported:
            continue
        target = member.final_target if member.is_alias else member
        if name == "callbacks":
            yield from _public(f"{path}.{name}")
        elif target.is_function or target.is_class:
            yield name, f"{path}.{name}"


def api(path: str) -> str:
    """Sections of mkdocstrings' directives."""
    left = {
        name: place
        for name, place in sorted(_public(path))
        if name not in REDUCTIONS and name[0] != "_"
    }
    if len(left) < 5:
        raise SystemExit(f"{path} has hardly any public name: {sorted(left)}")
    parts = []
    for title, pattern in SECTIONS.items():
        names = [name for name in left if re.fullmatch(pattern, name)]
        names.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
        if names:
            parts.append(f"## {title}")
            parts += [f"::: {left.pop(name)}" for name in names]
    return "\n\n".join(parts)


def command_help(module: str) -> str:
    environment = os.environ | {"COLUMNS": "90", "PYTHONPATH": "."}
    command = [sys.executable, "-m", module, "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return f"```text\n{done.stdout}```"


def file_of_the_repository(name: str) -> str:
    """The text of a page that stands beside docs/. Links lead to pages of the site, or nowhere."""
    with open(name, encoding="utf-8") as file:
        text = re.sub(r"\]\(docs/", "](", file.read())
    return re.sub(r"\[([^]]+)\]\((?:tests|examples|scripts|hvdlite|csrc)/[^)]*\)", r"\1", text)


def sources(folder: str) -> str:
    """The Python programs of a folder, closed until the reader opens one."""
    parts = []
    for path in sorted(Path(folder).glob("*.py")):
        code = "\n".join(f"    {line}".rstrip() for line in path.read_text().splitlines())
        parts.append(f'??? example "{path.name}"\n\n    ```python\n{code}\n    ```')
    if len(parts) < 20:
        raise SystemExit(f"{folder} has hardly any program")
    return "\n\n".join(parts)


def on_page_markdown(markdown: str, **_: Any) -> str:
    markdown = re.sub(
        r"^<!-- file: (\S+) -->$", lambda m: file_of_the_repository(m[1]), markdown, flags=re.M
    )
    markdown = re.sub(r"^<!-- sources: (\S+) -->$", lambda m: sources(m[1]), markdown, flags=re.M)
    markdown = re.sub(r"^<!-- api: (\S+) -->$", lambda m: api(m[1]), markdown, flags=re.M)
    return re.sub(r"^<!-- help: (\S+) -->$", lambda m: command_help(m[1]), markdown, flags=re.M)


def version() -> str:
    with open("pyproject.toml", encoding="utf-8") as file:
        found = re.search(r'^version = "(.+)"$', file.read(), re.M)
    assert found is not None
    return found[1]


def on_config(config: Any) -> Any:
    config.copyright = f"hvdlite {version()}, {config.copyright}"
    return config


def on_page_content(html: str, **_: Any) -> str:
    html = re.sub(r"<th([^>]*)></th>", r"<td\1></td>", html)  # a head that says nothing is none
    return signs_of_diffs(anchors_of_terms(numbers_with_units(html)))


def on_post_page(output: str, **_: Any) -> str:
    """Names the dialog of the search for readers who hear the page; the theme does not."""
    search = '<div class="md-search" data-md-component="search" role="dialog"'
    assert search in output, "the theme has changed: is the search named by now?"
    return output.replace(search, search + ' aria-label="Search"')


def numbers_with_units(html: str) -> str:
    """Keeps a number and its unit on one line in the cells of tables."""

    def together(cell: re.Match[str]) -> str:
        return re.sub(r"(\d) (?=(?:ns|µs|ms|s|B|KiB|MiB|GiB)\b|%)", r"\1&nbsp;", cell[0])

    return re.sub(r"<td[^>]*>.*?</td>", together, html, flags=re.S)


def anchors_of_terms(html: str) -> str:
    """Each message of the page of errors, each knob and each word of the glossary has an address:
    its first words, as far as they are not another term's."""
    taken = set(re.findall(r'\bid="([^"]+)"', html))

    def anchored(term: re.Match[str]) -> str:
        words = re.findall(r"[a-z0-9]+", unescape(re.sub("<[^>]+>", "", term[1])).lower())
        name = stem = "-".join(words)[:60].rstrip("-") or "term"
        number = 1
        while name in taken:
            number += 1
            name = f"{stem}-{number}"
        taken.add(name)
        link = f'<a class="headerlink" href="#{name}" title="Permanent link">&para;</a>'
        return f'<dt id="{name}">{term[1]}{link}</dt>'

    return re.sub(r"<dt>(.*?)</dt>", anchored, html, flags=re.S)


def signs_of_diffs(html: str) -> str:
    """Marks the first column of a diff, so that copying leaves it out, with the lines that go
    (site.css)."""

    def marked(block: re.Match[str]) -> str:
        code = re.sub(r'(<span class="gi">)\+', r'\1<span class="gs-sign">+</span>', block[2])
        sign = r'\1<span class="gs-sign"> </span>'
        code = re.sub(r'(?m)(<code>|^)<span class="w"> </span>', sign, code)
        return block[1] + re.sub(r'(<span class="gd">.*)</span>\n', "\\1\n</span>", code)

    return re.sub(r'(<div class="language-diff[^>]*>)(.*?</code>)', marked, html, flags=re.S)
