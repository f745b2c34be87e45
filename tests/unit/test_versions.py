"""tests/versions/run: what it tries, and how it reads what came of it. It takes hours, so nobody
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
        (ROOT / "tests" / file).exists() for file in (*files, script.BINARIES.file)
    )


def test_a_framework_means_all_of_its_environments_and_a_name_means_one(script: ModuleType) -> None:
    def chosen(name: str) -> list[str]:
        return [each.name for each in script.ENVIRONMENTS if script._means(name, each)]

    assert chosen("torch-2.1") == ["torch-2.1"]
    assert len(chosen("torch")) == 13 and all(name.startswith("torch-") for name in chosen("torch"))
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
    row = script.Row("torch", "test_torch")
    script._read(report, row)
    assert (row.passed, row.failed, row.skipped) == (1, ["b", "d"], {"needs torch 2.4": 1})


def test_nothing_passed_is_not_well(script: ModuleType) -> None:
    def well(**row: object) -> bool:
        rows = [script.Row("JAX", "test_jax", **row)]
        return bool(script._well({"jax-0.5": script.Found("", "3.11", "", {}, rows)}))

    assert well(passed=9) and not well(skipped={"no": 9}) and not well()
    assert not well(passed=9, failed=["a"]) and not well(passed=9, problem="it hung")


def test_the_page_says_what_ran_what_did_not_and_why(script: ModuleType) -> None:
    """Two batteries of one title are one line; the look at the binaries is none."""
    rows = [
        script.Row("", "test_binaries", 3),
        script.Row("Ray", "test_ray", 4, ["test_a[2]"], {"Skipped: no GPU": 2}),
        script.Row("Ray", "test_ray_train", 5, ["test_b"], {"Skipped: no GPU": 1, "no ssh": 1}),
    ]
    older = [script.Row("Ray", "test_ray", 1, ["test_b"], {"Skipped: no GPU": 3})]
    found = {
        "ray-1": script.Found("2026-11-28", "3.11.2", "abc", {"ray": "2.1"}, older),
        "ray-2": script.Found("2026-11-29", "3.11.2", "abc", {"ray": "2.60", "numpy": "2"}, rows),
        "ray-3": script.Found(
            "2026-11-30", "3.12.1", "abc", {}, [script.Row("Ray", "pip", problem="it hung\nlong")]
        ),
    }
    text = script.tables(
        ["ray-0", "ray-1", "ray-2", "ray-3"], found, {("ray-2", "test_a"): "use ray 3"}
    )
    assert text == (
        "### Ray\n\n"
        "| versions | Python | passed | failed | skipped | day |\n|---|---|---|---|---|---|\n"
        "| ray 2.1 | 3.11.2 | 1 | 1 | 3 | 2026-11-28 |\n"
        "| ray 2.60, numpy 2 | 3.11.2 | 9 | 2 | 4 | 2026-11-29 |\n"
        "|  | 3.12.1 | did not end | | | 2026-11-30 |\n"
        "\n"
        "- Skipped: no GPU: 3 on ray-1, 3 on ray-2.\n"
        "- Skipped: no ssh: 1 on ray-2.\n"
        "- `test_b` fails on ray-1, ray-2: no remedy is known.\n"
        "- `test_a[2]` fails on ray-2: use ray 3.\n"
        "- ray-3: pip did not end: it hung\n"
        "\n"
        "Not run yet: ray-0.\n"
    )


def test_what_is_skipped_everywhere_is_said_once(script: ModuleType) -> None:
    found = {
        name: script.Found("", "", "", {}, [script.Row("JAX", "t", 9, [], {"no GPU": 2})])
        for name in ("jax-1", "jax-2")
    }
    assert script.tables(list(found), found, {}).endswith("\n- Skipped: no GPU: 2 in each.\n")


def test_the_page_has_what_the_runs_wrote(script: ModuleType) -> None:
    names = [each.name for each in script.ENVIRONMENTS]
    assert len(set(names)) == len(names)
    assert set(script.results()) <= set(names), "results.json has an environment that is gone"
    there = script.PAGE.read_text()
    assert script.written_into(there, script.page_of(script.results())) == there, (
        "docs/reference/versions.md: tests/versions/run --write writes it"
    )


def test_a_remedy_is_of_a_failure_that_was_seen(script: ModuleType) -> None:
    seen = script.results()
    for name, start in script.REMEDIES:
        failed = [test for row in seen[name].rows for test in row.failed]
        assert any(test.startswith(start) for test in failed), (name, start)


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
