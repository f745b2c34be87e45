"""tests/versions/run: what it tries, and how it reads what came of it. It takes an hour, so nobody
runs it here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import loaded_script
import pytest
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "versions" / "run"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return loaded_script.load(SCRIPT)


def _said(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True)


def test_the_newest_of_each_framework_is_the_one_that_the_suite_is_pinned_to(
    script: ModuleType,
) -> None:
    pins = dict(re.findall(r'"([\w-]+)==([\d.]+)"', (ROOT / "pyproject.toml").read_text()))
    tried = [package for environment in script.ENVIRONMENTS for package in environment.packages]
    for framework in ("torch", "tensorflow-cpu", "jax"):
        assert f"{framework}=={pins[framework]}" in tried


def test_every_battery_is_there(script: ModuleType) -> None:
    files = {
        battery.file for environment in script.ENVIRONMENTS for battery in environment.batteries
    }
    assert files and all(
        (ROOT / "tests" / file).is_file() for file in (*files, script.BINARIES.file)
    )


def test_a_framework_means_all_of_its_environments_and_a_name_means_one(script: ModuleType) -> None:
    def chosen(name: str) -> list[str]:
        return [each.name for each in script.ENVIRONMENTS if script._means(name, each)]

    assert chosen("torch-2.1") == ["torch-2.1"]
    assert len(chosen("torch")) == 7 and all(name.startswith("torch-") for name in chosen("torch"))
    assert "torch-2.13 " in _said("--list").stdout
    refused = _said("torch-1.4")
    assert (
        refused.returncode == 2
        and "'torch-1.4'" in refused.stderr
        and "torch-2.1," in refused.stderr
    )


def test_a_report_becomes_a_row(script: ModuleType, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure>why it '
        "failed</failure></testcase>"
        '<testcase name="c"><skipped message="needs torch 2.4"/></testcase>'
        '<testcase name="d"><error>it broke</error></testcase></testsuite></testsuites>'
    )
    row = script.Row("torch-2.1", "torch 2.1.2", "test_torch")
    script._read(report, row)
    assert (row.passed, row.failed, row.skipped, row.well) == (1, 2, 1, False)
    assert row.failures == ["b\nwhy it failed", "d\nit broke"] and dict(row.reasons) == {
        "needs torch 2.4": 1
    }


def test_nothing_passed_is_not_well(script: ModuleType) -> None:
    assert not script.Row("jax-0.5", "", "test_jax", skipped=9).well


def test_who_takes_too_long_is_ended_with_what_it_has_started(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"

    class Slow(subprocess.Popen[bytes]):
        """Its time is over when it has started what it starts."""

        def wait(self, timeout: float | None = None) -> int:
            if timeout == 3600:
                wait_until(lambda: log.read_text().endswith("\n"))
                raise subprocess.TimeoutExpired(self.args, timeout)
            return super().wait(timeout)

    monkeypatch.setattr(script.subprocess, "Popen", Slow)
    with pytest.raises(script.CannotBeMade, match="more than 3600 s"):
        script._run(["bash", "-c", "sleep 600 & echo $!; wait"], log, limit=3600)
    sleeper = Path("/proc", log.read_text().strip(), "cmdline")
    # of a zombie it is empty
    wait_until(lambda: not sleeper.exists() or not sleeper.read_bytes(), 5)
