"""`hvdlite compat install | remove | status`, in directories of their own."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from machine import within

from hvdlite import compat
from hvdlite.compat import installation
from hvdlite.compat.installation import (
    InstallRefused,
    Site,
    install,
    is_installed,
    remove,
)
from hvdlite.tools.commands.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Site:
    return Site(tmp_path / "site-packages", tmp_path / "bin")


def _files(place: Site) -> set[str]:
    return {
        str(p.relative_to(place.packages.parent))
        for p in place.packages.parent.rglob("*")
        if p.is_file()
    }


WHOLE = {
    "bin/horovodrun",
    "site-packages/horovod/__init__.py",
    "site-packages/horovod-0.28.1.dist-info/METADATA",
    "site-packages/horovod-0.28.1.dist-info/INSTALLER",
    "site-packages/horovod-0.28.1.dist-info/RECORD",
}


def test_install_is_idempotent_and_remove_leaves_what_it_found(place: Site) -> None:
    place.packages.mkdir()
    place.commands.mkdir()
    (place.packages / "horovod_tools.py").write_text("mine")
    (place.commands / "python").write_text("mine")
    before = _files(place)
    assert not is_installed(place) and remove(place) == []
    first = install(place)
    assert is_installed(place) and _files(place) - before == WHOLE and install(place) == first
    assert os.access(place.commands / "horovodrun", os.X_OK)
    compiled = place.packages / "horovod" / "__pycache__"
    compiled.mkdir()
    (compiled / "__init__.cpython-311.pyc").write_text("")
    assert sorted(remove(place)) == sorted(first)
    assert (
        _files(place) == before
        and not (place.packages / "horovod").exists()
        and remove(place) == []
    )


def test_the_record_is_true(place: Site) -> None:
    install(place)
    with open(place.packages / "horovod-0.28.1.dist-info" / "RECORD", newline="") as record:
        rows = list(csv.reader(record))
    assert {os.path.normpath(os.path.join("site-packages", row[0])) for row in rows} == WHOLE
    for name, digest, size in rows:
        if not name.endswith("RECORD"):
            data = (place.packages / name).read_bytes()
            assert (
                digest
                == "sha256="
                + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            )
            assert len(data) == int(size)


def test_horovod_itself_is_never_touched(place: Site, tmp_path: Path) -> None:
    package = place.packages / "horovod"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '0.27'\n")
    before = _files(place)
    with pytest.raises(
        InstallRefused, match="Horovod itself is installed .*`pip uninstall horovod` first"
    ):
        install(place)
    assert remove(place) == [] and _files(place) == before
    # In another directory of the same Python, too.
    with pytest.raises(InstallRefused, match="Horovod itself"):
        install(Site(tmp_path / "venv", tmp_path / "venv", (str(place.packages),)))


def test_its_metadata_alone_or_its_command_alone_are_respected(place: Site) -> None:
    metadata = place.packages / "horovod-0.28.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "INSTALLER").write_text("pip\n")
    with pytest.raises(InstallRefused, match="Horovod itself"):
        install(place)
    (metadata / "INSTALLER").unlink()
    metadata.rmdir()
    place.commands.mkdir()
    (place.commands / "horovodrun").write_text(
        "#!/usr/bin/python\nfrom horovod.runner.launch import run_commandline\n"
    )
    with pytest.raises(InstallRefused, match="horovodrun is not hvdlite's"):
        install(place)
    assert _files(place) == {"bin/horovodrun"}


def test_where_nothing_can_be_written_nothing_remains_and_a_sentence_says_so(
    place: Site,
) -> None:
    place.packages.parent.joinpath("bin").write_text(
        "a file where the folder for commands should be"
    )
    with pytest.raises(InstallRefused, match=r"cannot write to .*bin.*Use a virtual environment"):
        install(place)
    assert _files(place) == {"bin"}


def test_a_path_that_a_shebang_cannot_hold(
    place: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    link = tmp_path / "with a space"
    link.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(link))
    install(place)
    text = (place.commands / "horovodrun").read_text()
    assert text.startswith("#!/bin/sh\n")
    environment = os.environ | {"PYTHONPATH": f"{place.packages}:{ROOT}"}
    done = subprocess.run(
        [str(place.commands / "horovodrun"), "-v"], capture_output=True, text=True, env=environment
    )
    assert done.stdout == "0.28.1\n", done.stderr


def test_a_system_python_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "EXTERNALLY-MANAGED").write_text("")
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(InstallRefused, match="belong to the system .*make a virtual environment"):
        installation.this_environment()


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--target", str(tmp_path / "here"))
    assert main(["compat", "status", *where]) == 0
    assert "has no package horovod" in capsys.readouterr().out
    assert main(["compat", "install", *where]) == 0
    assert "is installed:" in capsys.readouterr().out
    assert main(["compat", "install", *where]) == 0
    assert "was installed already" in capsys.readouterr().out
    assert main(["compat", "status", *where]) == 0
    assert "horovod is hvdlite" in capsys.readouterr().out
    assert main(["compat", "remove", *where]) == 0
    assert "removed" in capsys.readouterr().out
    assert main(["compat", "install", "--target", "/dev/null/x"]) == 1
    assert capsys.readouterr().err.startswith("hvdlite compat install: cannot write to /dev/null/x")
    with pytest.raises(SystemExit):
        main(["compat", "destroy"])


def test_in_a_virtual_environment_pip_knows_it_too(tmp_path: Path) -> None:
    pip = pytest.importorskip("pip", reason="pip is not installed")
    assert pip
    venv.create(tmp_path / "venv", symlinks=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "HVDLITE_", "HOROVOD_"))
    }
    alone = clean | {"PYTHONPATH": str(ROOT)}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, env=alone, cwd=tmp_path, timeout=within(60)
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(python, "-m", "hvdlite.tools", "compat", "install")
    program = (
        "import horovod.common.exceptions as e, importlib.metadata as m; "
        "print(m.version('horovod'), e.__name__)"
    )
    assert run(python, "-c", program) == "0.28.1 hvdlite.exceptions\n"
    listed = run(
        sys.executable,
        *"-m pip --disable-pip-version-check --python".split(),
        python,
        "list",
        "--format",
        "freeze",
    )
    assert "horovod==0.28.1" in listed.splitlines()
    assert run(str(tmp_path / "venv" / "bin" / "horovodrun"), "--version") == "0.28.1\n"
    run(sys.executable, "-m", "pip", "--python", python, "uninstall", "-y", "horovod")
    assert not list((tmp_path / "venv").rglob("*horovod*"))


def test_the_alias_that_a_launcher_asks_for_stands_in_nobodys_way(
    place: Site,
) -> None:
    """Its directory has metadata as well; that is not an installation."""
    with_alias = Site(place.packages, place.commands, (compat.DIRECTORY,))
    assert installation.horovod_itself(with_alias) is None
    install(with_alias)
    assert installation.horovod_itself(with_alias) is None


def test_help_is_quick_and_loads_neither_the_core_nor_numpy() -> None:
    program = (
        "import sys\nfrom hvdlite.tools.commands.cli import main\ntry:\n    main(['--help'])\n"
        "except SystemExit:\n    pass\n"
        "print(len(sys.modules), {'numpy', 'torch', 'tensorflow', 'hvdlite._core'} & "
        "set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ, cwd=ROOT
    )
    modules, heavy = done.stdout.splitlines()[-1].split(" ", 1)
    assert "usage: hvdlite" in done.stdout and heavy == "set()", done.stderr
    assert int(modules) < 150  # 89


def test_a_misspelt_command_is_guessed_and_none_shows_them_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, meant in ((["docter", "a.py"], "doctor"), (["compat", "instal"], "install")):
        with pytest.raises(SystemExit, match="2"):
            main(words)
        assert f"did you mean {meant}?" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["zzz"])
    assert "did you mean" not in capsys.readouterr().err
    assert main([]) == 2
    assert "list what differs for a program written for Horovod" in capsys.readouterr().err
