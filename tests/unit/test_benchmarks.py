"""benchmarks/: its list of gradients, its statistics, its Markdown; and that it runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from installed import needs_installed
from machine import within

import hvdlite

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
CORES = os.cpu_count() or 1
PAGES = ROOT / "docs" / "benchmarks"
MODULES = (
    "workloads summary targets report over_mpi_report training_report graphs_report elastic_report"
).split()


@pytest.fixture(autouse=True)
def benchmarks_on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def block(seconds: float, foreign: float = 0.0, iterations: int = 10) -> dict[str, Any]:
    return {
        "seconds": seconds,
        "iterations": iterations,
        "foreign": foreign,
        "user": 0.2,
        "system": 0.1,
        "switches": 30,
        "faults": 0,
    }


# --- workloads


def test_resnet50_has_torchvisions_tensors() -> None:
    import workloads

    found = workloads.resnet50()
    assert len(found) == 161
    assert sum(workloads.numbers(shape) for _, shape in found) == 25_557_032
    assert len({name for name, _ in found}) == 161
    assert found[0] == ("conv1.weight", (64, 3, 7, 7))
    assert ("layer2.0.downsample.0.weight", (512, 256, 1, 1)) in found
    assert ("layer4.2.conv2.weight", (512, 512, 3, 3)) in found
    assert found[-1] == ("fc.bias", (1000,))
    assert workloads.gradients()[0] == ("fc.bias", (1000,))


def test_gpt2_has_the_tensors_of_the_smallest_one() -> None:
    import workloads

    found = workloads.gpt2()
    assert len(found) == len({name for name, _ in found}) == 148
    assert sum(workloads.numbers(shape) for _, shape in found) == 124_439_808
    assert ("h.11.mlp.c_fc.bias", (3072,)) in found


def test_sizes_go_from_4_bytes_to_64_mebibytes() -> None:
    import workloads

    texts = [workloads.size_text(size) for size in workloads.SIZES]
    assert texts[0] == "4 B" and texts[-1] == "64 MiB"
    assert {"64 KiB", "1 MiB", "16 MiB"} <= set(texts)


# --- statistics


def test_times_are_the_median_and_the_spread_of_the_blocks() -> None:
    import summary

    found = summary.times([block(3e-6), None, block(1e-6), block(2e-6)])
    assert (found["median"], found["low"], found["high"]) == (2e-6, 1e-6, 3e-6)
    assert found["blocks"] == 3
    assert found["cpu"] == pytest.approx(0.03)
    assert found["switches"] == 3


def test_disturbed_blocks_do_not_count_if_enough_others_do() -> None:
    import summary

    calm = [block(1.0) for _ in range(summary.ENOUGH)]
    disturbed = block(100.0, foreign=0.9)
    assert summary.times([*calm, disturbed])["high"] == 1.0
    assert summary.times([*calm, disturbed])["disturbed"] == 1
    assert summary.times([*calm[1:], disturbed])["high"] == 100.0


def test_a_ratio_is_of_the_same_rounds() -> None:
    import summary

    slow = [block(8.0), None, block(12.0), block(10.0)]
    fast = [block(2.0), block(1e9), block(3.0), block(2.0)]
    found = summary.ratio(slow, fast)
    assert found is not None
    assert found["median"] == 5.0
    assert found["rounds"] == 3
    assert (found["low"], found["high"]) == (4.0, 4.5)
    assert summary.ratio([None], [block(1.0)]) is None


@pytest.mark.parametrize(("share", "value"), [(0, 1), (0.25, 1.75), (0.5, 2.5), (1, 4)])
def test_quantiles_interpolate(share: float, value: float) -> None:
    import summary

    assert summary.quantile([1, 2, 3, 4], share) == value


@pytest.mark.parametrize(
    ("rounds", "where"),
    [
        ([32, 60, 119.9], "near"),
        ([120, 230], "far"),
        ([64], "near"),
        ([205], "far"),
        ([60, 205, 61], "near in 2 of 3 rounds, far in 1"),
        ([205, 206, 35], "near in 1 of 3 rounds, far in 2"),
    ],
)
def test_cores_are_near_or_far(rounds: list[float], where: str) -> None:
    import summary

    assert summary.distance(rounds) == where


# --- the pages: those that are committed are the golden files of what writes them


def test_the_committed_page_belongs_to_the_committed_results() -> None:
    import report

    found = json.loads((PAGES / "data" / "results.json").read_text())
    notes = (FOLDER / "notes.md").read_text()
    assert (PAGES / "index.md").read_text() == report.write(found, notes)
    assert (PAGES / "notes" / "collectives.md").read_text() == report.targets_of(found, notes)


@pytest.mark.parametrize(
    ("page", "figures"),
    [("torch", "torch"), ("graphs", "graphs"), ("mpi", "over-mpi"), ("elastic", "elastic")],
)
def test_the_other_committed_pages_belong_to_the_committed_results(page: str, figures: str) -> None:
    import elastic_report
    import graphs_report
    import over_mpi_report
    import training_report

    writers = {
        "torch": training_report,
        "graphs": graphs_report,
        "mpi": over_mpi_report,
        "elastic": elastic_report,
    }
    writer = writers[page]
    found = json.loads((PAGES / "data" / f"{figures}.json").read_text())
    name = {"torch": "training", "mpi": "over_mpi"}.get(page, page)
    notes = (FOLDER / f"{name}_notes.md").read_text()
    assert (PAGES / f"{page}.md").read_text() == writer.write(found, notes)
    assert (PAGES / "notes" / f"{page}.md").read_text() == writer.targets_of(found, notes)


def over_mpi(four_bytes: float, megabyte: float, step: float) -> dict[str, Any]:
    """What of the MPI's own time hvdlite takes more (in seconds), and its share of the MPI's
    speed."""

    def row(op: str, size: int, mpi: float, hvdlite: float) -> dict[str, Any]:
        cells = {
            name: {"median": s, "low": s, "high": s}
            for name, s in (("MPI", mpi), ("hvdlite", hvdlite))
        }
        ratio = {"median": hvdlite / mpi, "low": hvdlite / mpi, "high": hvdlite / mpi}
        return {"op": op, "bytes": size, "backends": cells, "ratios": {"hvdlite": ratio}}

    rows = [
        row("allreduce", 4, 1e-6, 1e-6 + four_bytes),
        row("allreduce", 1 << 20, 1e-3, 1e-3 / megabyte),
        row("step", 1 << 27, 0.1, 0.1 / step),
    ]
    run = {
        "mpi": "mpich",
        "way": "memory",
        "ranks": 2,
        "cores": 2,
        "rounds": 3,
        "block_seconds": 0.06,
        "rows": rows,
    }
    return {
        "machine": {},
        "versions": {},
        "runs": {"mpich memory 2": run | {"scheduling": "SCHED_FIFO"}},
    }


@pytest.mark.parametrize(
    ("found", "met"),
    [((2e-6, 1.0, 2.5), 3), ((4e-6, 1.0, 2.5), 2), ((4e-6, 0.9, 2.5), 1), ((4e-6, 0.9, 1.5), 0)],
)
def test_over_mpi_each_target_is_judged_for_itself(
    found: tuple[float, float, float], met: int
) -> None:
    import over_mpi_report

    page = over_mpi_report.targets_of(over_mpi(*found), "")
    assert (page.count("| met |"), page.count("**missed**")) == (met, 3 - met), page


def note(what: str, at: float, generation: int, pid: int, size: int = 2, **more: float) -> Any:
    place = {"generation": generation, "pid": pid, "size": size}
    return {"what": what, "at": at, **place, **more}


def test_a_death_is_over_with_the_last_rank_of_the_next_generation() -> None:
    import elastic_report

    notes = [
        note("operation", 1.0, 1, 7),
        note("first step", 1.1, 1, 7),
        note("death", 2.0, 1, 8),
        note("end", 2.01, 1, 7, last=1.9, took=0.1),
        note("operation", 2.05, 2, 7, size=1),
        note("operation", 2.07, 2, 9, size=1),
        note("first step", 2.25, 2, 7, size=1),
        note("end", 5.0, 2, 7, size=1, last=4.9, took=0.2),
        note("operation", 5.0, 3, 7),
        note("first step", 5.4, 3, 7),
    ]
    found = elastic_report.deaths(notes)
    assert found["operation"] == pytest.approx([0.07])
    assert found["first step"] == pytest.approx([0.25])
    assert elastic_report.growths(notes) == pytest.approx([5.4 - 4.9 - 0.2])


def test_a_trainer_goes_on_with_the_last_of_those_that_were_there() -> None:
    import elastic_report

    def at(what: str, seconds: float, pid: int, size: int) -> dict[str, Any]:
        return {"what": what, "at": seconds, "pid": pid, "size": size}

    notes = [
        *(at("step", 1.0, pid, 3) for pid in (7, 8, 9)),
        at("death", 2.0, 9, 3),
        at("step", 2.01, 7, 3),  # was under way, and has not needed the dead one
        at("step", 2.1, 8, 2), at("step", 2.2, 7, 2), at("step", 2.3, 8, 2),
        *(at("step", 5.0, pid, 3) for pid in (7, 8, 10)),
        at("death", 6.0, 8, 3),
        at("step", 6.5, 10, 2),  # 7 has made none
    ]  # fmt: skip
    assert elastic_report.next_steps(notes) == pytest.approx([0.2])


# --- it runs


@pytest.mark.costly
def test_the_benchmark_of_elastic_jobs_runs(tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "elastic.py"), "--deaths", "1", "--torchrun", "0"]
    command += ["--jobs", "2 ranks", "costs", "--output", str(tmp_path)]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "data" / "elastic.json").read_text())
    assert len(found["deaths"]["2 ranks"]["first step"]) == 1
    assert found["transfers"] and found["commit"] and found["step"]
    assert "The slot is filled again" in (tmp_path / "elastic.md").read_text()


def measured(
    folder: Path,
    *arguments: str,
    tree: Path = ROOT,
    python: str | Path = sys.executable,
    **variables: str,
) -> dict[str, Any]:
    """What a quick run in that tree has found for float32."""
    command = [python, "benchmarks/run.py", *arguments, "--quick"]
    command += ["--dtypes", "float32", "--scheduling", "normal", "--output", folder]
    environment = os.environ | variables
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, timeout=within(170)
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "data" / "results.json").read_text())
    return found


@pytest.mark.costly
def test_quick_runs_with_the_peers_that_are_installed(tmp_path: Path) -> None:
    names = ("hvdlite", "hvdlite-tcp")
    found = measured(tmp_path, "--backends", *names, "oneccl", CCL_ROOT=str(tmp_path))
    assert set(found["collectives"]) == ({"2", "2-pinned"} if CORES >= 2 else {"2"})
    for run in found["collectives"].values():
        assert [row["op"] for row in run["rows"]] == ["allreduce", "allreduce", "allreduce", "step"]
        for row in run["rows"]:
            for name in names:
                assert row["backends"][name]["median"] > 0, row
            assert row["backends"]["oneccl"]["absent"].startswith("oneccl is not installed: no ")
    assert found["memory"]["growth_mib"] < 16
    page = (tmp_path / "index.md").read_text()
    assert "161 gradients" in page and "Left out: oneccl is not installed" in page


def _installed_in(venv: Path) -> Path:
    """The Python of an environment that has hvdlite as `pip install .` leaves it, and numpy."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (packages,) = (venv / "lib").glob("python*/site-packages")
    shutil.copytree(Path(hvdlite.__file__).parent, packages / "hvdlite")
    for part in Path(numpy.__file__).parents[1].glob("numpy*"):
        (packages / part.name).symlink_to(part)
    python, launcher = venv / "bin" / "python", venv / "bin" / "hvdliterun"
    launcher.write_text(
        f"#!{python}\nimport sys\nfrom hvdlite.launch.cli import main\nsys.exit(main())\n"
    )
    launcher.chmod(0o755)
    return python


@pytest.mark.costly
def test_a_clone_in_which_nothing_is_compiled_measures_what_is_installed(tmp_path: Path) -> None:
    """There `python -c` finds the sources first."""
    for folder in ("benchmarks", "hvdlite"):
        sources = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / "clone" / folder, ignore=sources)
    sections = ("collectives", "startup")
    found = measured(
        tmp_path / "found",
        *sections,
        *("--backends", "hvdlite", "--pinned", "no", "--sizes", "4", "--no-step"),
        tree=tmp_path / "clone",
        python=_installed_in(tmp_path / "venv"),
        PYTHONPATH="",
    )
    assert set(sections) <= set(found)
    assert (tmp_path / "found" / "index.md").exists()


@pytest.mark.costly
def test_quick_measures_torchs_tensors_and_gradients(tmp_path: Path) -> None:
    needs_installed("torch")
    names = ("hvdlite-torch", "hvdlite-pool", "gloo", "ddp")
    found = measured(tmp_path, "collectives", "--backends", *names, "--pinned", "no")
    for row in found["collectives"]["2"]["rows"]:
        expected = set()
        if row["bytes"] < 1 << 20:
            expected.add("hvdlite-pool")
        if row["op"] == "allreduce":
            expected.add("ddp")
        assert {name for name in names if "absent" in row["backends"][name]} == expected, row
