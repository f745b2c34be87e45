"""Every block of code on the site: Python is run, commands are read by the program that they start,
YAML is read. page_blocks.py has what a block needs, and the reasons for those that do not run.
(test_tutorial.py walks docs/start and README.)
"""

from __future__ import annotations

import re
import shlex
import textwrap
from typing import NamedTuple

import page_blocks
import pytest
import yaml
from installed import needs_installed
from launched import ROOT, Job

from hvdlite.launch import cli
from hvdlite.tools.commands.cli import build_parser

DOCS = ROOT / "docs"
#: Each command of a page that starts a file of the repository: the rest of the line is its own.
OURS = re.compile(r"^(scripts|tests|benchmarks)/\S+")


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"docs/{self.page}.md:{self.line}"

    def without(self, gone: str) -> str:
        """One side of a diff."""
        lines = [line[1:] for line in self.text.splitlines() if line[:1] != gone]
        return "\n".join(lines) + "\n"


def _blocks() -> list[Block]:
    found = []
    for path in sorted(DOCS.rglob("*.md")):
        page = str(path.relative_to(DOCS).with_suffix(""))
        # The first is walked by test_tutorial.py. The others show no programs of users.
        if page.startswith(("start/", "decisions/", "how-it-works/", "benchmarks/notes/")):
            continue
        text = path.read_text()
        for fence in re.finditer(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", text, re.M | re.S):
            line = text[: fence.start()].count("\n") + 2
            block = Block(page, line, fence[2], textwrap.dedent(fence[3]))
            found.append(block)
            if block.language == "diff" and 'title="' not in fence[0].split("\n")[0]:
                found.append(block._replace(language="python", text=block.without("-")))
    return found


BLOCKS = _blocks()
PYTHON = [block for block in BLOCKS if block.language == "python"]


def _elsewhere(block: Block) -> bool:
    keys = [key for key in page_blocks.ELSEWHERE if isinstance(key, tuple)]
    return block.page in page_blocks.ELSEWHERE or any(
        page == block.page and block.text.startswith(start) for page, start in keys
    )


def _run_of(block: Block) -> page_blocks.Run | None:
    found = [
        run
        for (page, start), run in page_blocks.RUN.items()
        if page == block.page and block.text.startswith(start)
    ]
    assert len(found) < 2, f"{block.place}: more than one row of RUN begins it"
    return found[0] if found else None


@pytest.mark.always
def test_each_block_of_python_is_run_or_has_a_reason() -> None:
    assert len(PYTHON) > 60
    neither = [b.place for b in PYTHON if (_run_of(b) is None) != _elsewhere(b)]
    assert neither == [], "add a row to RUN or to ELSEWHERE in page_blocks.py"


@pytest.mark.always
def test_each_row_belongs_to_a_block() -> None:
    rows = [*page_blocks.RUN, *(key for key in page_blocks.ELSEWHERE if isinstance(key, tuple))]
    unused = [
        (page, start)
        for page, start in rows
        if not any(b.page == page and b.text.startswith(start) for b in PYTHON)
    ]
    assert unused == []
    for reason in page_blocks.ELSEWHERE.values():
        for file in re.findall(r"\b[\w/]*test_\w+\.py", reason):
            there = ROOT / (file if "/" in file else f"tests/multiprocess/{file}")
            assert there.exists(), f"{reason}: no such file"


def _program(framework: str) -> tuple[str, int]:
    """All blocks of a framework, each in names of its own; and how many there are."""
    parts = []
    for block in PYTHON:
        run = _run_of(block)
        if run is None or run.framework != framework:
            continue
        text = block.text
        for before, after in run.instead.items():
            assert before in text, f"{block.place}: {before!r} is not in it"
            text = text.replace(before, after)
        parts.append((block.place, page_blocks.BEFORE[framework] + run.before, text, run.after))
    lines = [
        "import sys",
        f"parts = {parts!r}",
        "if __name__ == '__main__':",
        "    for place, before, text, after in parts:",
        "        names = {'__name__': '__main__'}",
        "        print('block', place, file=sys.stderr, flush=True)",
        "        for code in (before, text, after):",
        "            exec(compile(code, place, 'exec'), names)",
        "    print('blocks', len(parts))",
    ]
    return "\n".join(lines), len(parts)


@pytest.mark.costly
@pytest.mark.watchdog(240)
@pytest.mark.parametrize("framework", ["torch", "tensorflow", "keras", "jax"])
def test_blocks_of_python_run_on_two_ranks(job: Job, framework: str) -> None:
    needs_installed(framework)
    program, count = _program(framework)
    assert count >= 3
    done = job.run("-np", "2", "python", job.script(program), TF_CPP_MIN_LOG_LEVEL="2")
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    assert done.stdout.decode().count(f"blocks {count}") == 2


@pytest.mark.watchdog(120)
def test_blocks_of_python_that_start_a_job_run(job: Job) -> None:
    needs_installed("torch")
    program, count = _program("")
    done = job.command("python", job.script(program))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"blocks {count}" in done.stdout


def _commands(block: Block) -> list[str]:
    """Lines without comments, variables in front, and what the shell does with them."""
    text = re.sub(r"\\\n\s*", " ", block.text)
    if block.language == "console":
        text = "\n".join(re.findall(r"^\$ (.*)$", text, re.M))
    text = re.sub(r"(^|\s)#.*", "", text)
    text = re.sub(r"&& break|\bexec |^\(umask 077; |\) *$", "", text, flags=re.M)
    lines = [re.sub(r"^\s*(\w+=\S* )*", "", line).strip() for line in text.splitlines()]
    shell = ("for ", "done", "export ", "source ", "cd ", "if ", "fi", "cp ")
    return [line for line in lines if line and not line.startswith(shell)]


SHELL = [
    pytest.param(command, id=f"{block.page}:{command[:40]}")
    for block in BLOCKS
    if block.language in ("sh", "console")
    for command in _commands(block)
]


@pytest.mark.parametrize("command", SHELL)
def test_commands_of_pages_are_read_by_their_programs(command: str) -> None:
    words = shlex.split(command)
    if words[0] == "hvdliterun":
        assert cli.read_arguments(words[1:]).command or "--check-build" in words
    elif words[0] == "hvdlite":
        build_parser().parse_args(words[1:])
    elif OURS.match(words[0]):
        assert (ROOT / words[0]).exists()
    else:
        assert words[0].rsplit("/")[-1] in page_blocks.OTHERS, "what runs this command?"


def test_diffs_of_pages_lead_from_one_program_to_another() -> None:
    """Those with a title are walked by test_tutorial.py and test_roads.py."""
    blocks = [b for b in BLOCKS if b.language == "diff"]
    assert len(blocks) >= 2
    for block in blocks:
        for gone in "-+":
            compile(block.without(gone), block.place, "exec")


@pytest.mark.always
def test_strategies_of_pages_are_strategies() -> None:
    from hvdlite.adapter.strategy.strategy import Strategy

    blocks = [b for b in BLOCKS if b.language == "yaml" and b.page == "guides/strategy"]
    assert len(blocks) >= 5
    for block in blocks:
        assert Strategy.from_yaml(block.text).to_dict(), block.place


def test_yaml_of_pages_is_yaml() -> None:
    for block in BLOCKS:
        if block.language == "yaml":
            assert list(yaml.safe_load_all(block.text)), block.place


@pytest.mark.always
def test_blocks_say_what_they_are() -> None:
    """`text` is what a program prints, or a file that is neither of the others."""
    known = {"python", "sh", "console", "yaml", "diff", "text"}
    for block in BLOCKS:
        command = block.text.startswith(("$ ", "hvdliterun -", "hvdlite ", "pip ", "import "))
        named = block.language in known
        assert named or not (block.language or command), f"{block.place}: which language?"
        assert block.language != "text" or not command, f"{block.place}: a program?"
