"""The tutorial (docs/start) and the README: every block of code on them is run, as it stands on the
page.

A block with a title, or a diff, is a file. `console` blocks are commands and what they print; `…`
stands for anything. Python without a title is a notebook: its blocks run in one process.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import network
import pytest
import sshd
from installed import needs_installed
from launched import MARK, ROOT, Job, _default_signals

PAGES = ROOT / "docs" / "start"
NOT_RUN = {
    "pip install .": "it would replace the hvdlite that is tested; scripts/package does that in a "
    "fresh environment",
    "pip install ./hvdlite-*.whl": "it would, too; scripts/package installs a wheel file",
    "hvdliterun --check-build": "it starts every framework; test_native_core.py runs it with "
    "numpy alone, and test_check_build.py runs its parts",
}


class Block(NamedTuple):
    language: str
    title: str
    text: str

    def added(self) -> str:
        """Of a diff, what the file is afterwards."""
        return "".join(line[1:] or "\n" for line in self.text.splitlines(True) if line[0] != "-")

    def removed(self) -> str:
        """Of a diff, what the file was before."""
        return "".join(line[1:] or "\n" for line in self.text.splitlines(True) if line[0] != "+")

    def unrun(self) -> bool:
        """Whether each of its commands is one that is not run, with a reason."""
        return {line.split("#")[0].strip() for line in self.text.splitlines()} <= NOT_RUN.keys()


def _blocks(page: Path) -> list[Block]:
    fences = re.findall(
        r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', page.read_text(), re.M | re.S
    )
    assert page.read_text().count("\n```") == 2 * len(fences), (
        f"{page}: a block that this test does not see"
    )
    return [Block(*fence) for fence in fences]


class Shell:
    """Runs the commands of a page: the names on it are those of a user, so they lead to what is
    tested here."""

    def __init__(self, job: Job, ssh_config: Path | None = None) -> None:
        self._job = job
        folder = job.directory / "bin"
        folder.mkdir()
        ssh = f"{shutil.which('ssh')} -F {ssh_config}" if ssh_config else "false"
        wrappers = {
            "python": sys.executable,
            "hvdliterun": f"{sys.executable} -m hvdlite.launch",
            "hvdlite": f"{sys.executable} -m hvdlite.tools",
            "torchrun": f"{sys.executable} -m torch.distributed.run",
            "ssh": ssh,
        }
        for name, command in wrappers.items():
            (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (folder / name).chmod(0o755)
        self._path = f"{folder}{os.pathsep}{os.environ['PATH']}"

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._job.prefix, "sh", "-c", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self._job.directory,
            env=self._job.environment(PATH=self._path),
            preexec_fn=_default_signals,
        )

    def console(self, block: Block, page: str) -> None:
        """Each command ends well, unless it shows an error of hvdliterun's, and prints all lines
        that follow it."""
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.M):
            done = self.run(command)
            said = done.stdout + done.stderr
            assert (done.returncode == 0) == ("hvdliterun: " not in shown), (
                f"{page}: {command}\n{said}"
            )
            for line in shown.splitlines():
                pattern = ".*".join(re.escape(piece) for piece in line.split("…"))
                assert re.search(f"^{pattern}$", said, re.M), (
                    f"{page}: {command}\n{line}\nis not in\n{said}"
                )


def _walk(page: Path, job: Job, shell: Shell) -> None:
    """From the top of the page to its end, as a reader would."""
    cells = []
    for block in _blocks(page):
        name = page.name
        if block.unrun():
            continue
        if block.language == "diff":
            before = job.directory / block.title
            if before.exists():
                assert block.removed() == before.read_text(), (
                    f"{name}: the diff does not begin with {block.title}"
                )
            before.write_text(block.added())
        elif block.title:
            (job.directory / block.title).write_text(block.text)
        elif block.language == "console":
            shell.console(block, name)
        elif block.language == "python":
            cells.append(block.text)
        else:
            raise AssertionError(
                f"{name}: a block that is neither run nor listed in NOT_RUN: {block}"
            )
    if cells:
        (job.directory / "notebook.py").write_text("\n\n".join(cells))
        done = shell.run("python notebook.py")
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.costly
@pytest.mark.watchdog(150)
@pytest.mark.parametrize("name", ["install", "first-program", "notebook"])
def test_a_page_of_the_tutorial_does_what_it_says(job: Job, name: str) -> None:
    needs_installed("torch")
    _walk(PAGES / f"{name}.md", job, Shell(job))


_WHY_NOT = network.why_not() or sshd.why_not()


@pytest.fixture
def two_machines(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    names = ("node1", "node2")
    with network.Network(len(names)) as net:
        job.prefix = net.prefix(-1)
        folder = tmp_path_factory.mktemp("ssh")
        with sshd.SshHosts(net, names, folder, f"{MARK}={job.mark}") as hosts:
            yield Shell(job, hosts.config)


@pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT))
def test_the_page_about_two_machines_does_what_it_says(job: Job, two_machines: Shell) -> None:
    _walk(PAGES / "two-machines.md", job, two_machines)


@pytest.mark.always
def test_every_page_of_the_tutorial_is_walked() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == {
        "install",
        "first-program",
        "two-machines",
        "notebook",
    }


@pytest.mark.costly
@pytest.mark.watchdog(150)
def test_the_readme_does_what_it_says(job: Job) -> None:
    needs_installed("torch")
    shell = Shell(job)
    install, program, commands, horovod, first = _blocks(ROOT / "README.md")
    home = textwrap.dedent((ROOT / "docs" / "index.md").read_text()).replace("\n    ", "\n")
    assert f"```diff\n{program.text}```" in home and f"\n{program.added()}```" in home, (
        "the home page of the site shows another program"
    )
    assert install.unrun()
    # .ci/run runs them.
    assert [
        line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "scripts/" in line
    ] == (first.text.splitlines())
    (job.directory / "examples").mkdir()
    script = job.directory / "examples" / "first.py"
    script.write_text(program.added())
    assert script.read_text() == (ROOT / "examples" / "first.py").read_text()
    run, doctor = (shell.run(command) for command in commands.text.splitlines())
    assert run.returncode == 0, run.stdout + run.stderr
    losses = re.findall(r"step \d+: loss ([\d.]+), 2 processes", run.stdout)
    assert len(losses) == 6 and float(losses[-1]) < float(losses[0]) / 10, run.stdout
    # It has nothing odd to say about README's own program.
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    assert "0 to change, 0 that differ, 0 hints" in doctor.stdout, doctor.stdout
    assert "Horovod" not in doctor.stdout, doctor.stdout
    script = job.directory / "train.py"
    script.write_text(program.added())
    # As a program of Horovod's, changed as the second diff says; and unchanged, with the flag that
    # the text names.
    old = script.read_text().replace(horovod.added(), horovod.removed())
    assert "horovod" in old and old.replace(horovod.removed(), horovod.added()) == program.added()
    script.write_text(old)
    command = re.search(r"`(hvdliterun --horovod-compat .*?)`", (ROOT / "README.md").read_text())
    assert command is not None
    done = shell.run(command[1])
    assert done.returncode == 0, done.stderr
    compile(program.removed(), "the program before hvdlite", "exec")
