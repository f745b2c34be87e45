"""docs/guides/roads.md: its programs run, before and after the change that the page shows, and the
command of the runtime for Kubeflow's Trainer makes ranks of pods."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import network
import pytest
from installed import needs_installed
from launched import ROOT, Job, ended
from others import free_port
from test_tutorial import Block, Shell, _blocks

from hvdlite.tools.commands.cli import main as hvdlite

PAGE = ROOT / "docs" / "guides" / "roads.md"


def section(title: str, folder: Path) -> list[Block]:
    """The blocks of code below this heading."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    assert found is not None
    (folder / "section.md").write_text(found[1])
    return _blocks(folder / "section.md")


@pytest.mark.always
def test_each_road_of_the_map_has_its_section() -> None:
    text = PAGE.read_text()
    sections = re.findall(r"^## (.*)$", text, re.M)
    anchors = re.findall(r"\(#([\w-]+)\)", text.split("\n## ")[0])
    assert anchors == [re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in sections]
    parts = text.split("\n## ")[1:]
    assert [part.count("**Not the answer**") for part in parts] == [1] * len(sections)


@pytest.mark.costly
@pytest.mark.watchdog(150)
def test_programs_for_torch_ccl_and_gloo_run_over_hvdlite(job: Job) -> None:
    needs_installed("torch")
    shell = Shell(job)
    for block in section("torch-ccl and gloo", job.directory):
        if block.language == "console":
            shell.console(block, PAGE.name)
        else:
            text = block.added() if block.language == "diff" else block.text
            (job.directory / block.title).write_text(text)


@pytest.mark.costly
def test_where_torch_ccl_is_installed_its_programs_run_unchanged(job: Job) -> None:
    """The module stands for torch-ccl, which has no release for this torch."""
    needs_installed("torch")
    program = section("torch-ccl and gloo", job.directory)[0].removed()
    job.script("", "oneccl_bindings_for_pytorch.py")
    arguments = ("-np", "2", "--torch-distributed=hvdlite", "python", job.script(program))
    done = job.end_well(*arguments)
    assert re.search(rb"2 ranks over hvdlite, loss 0\.0", done.stdout), done.stdout
    assert b"the default group is of hvdlite, not of ccl" in done.stderr, done.stderr


@pytest.mark.costly
@pytest.mark.watchdog(150)
@pytest.mark.parametrize("backend", ["tensorflow", "torch", "jax"])
def test_the_program_for_multi_worker_mirrored_strategy_trains_on_keras_3(
    job: Job, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_installed("keras", backend)
    monkeypatch.setenv("KERAS_BACKEND", backend)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    program, command = section("MultiWorkerMirroredStrategy", job.directory)
    (job.directory / program.title).write_text(program.added())
    Shell(job).console(command, PAGE.name)


@pytest.mark.full
@pytest.mark.watchdog(150)
def test_fit_of_keras_3_does_not_train_in_multi_worker_mirrored_strategy(job: Job) -> None:
    """What the page says of the program before the change. If it trains, the page has to change."""
    needs_installed("keras", "tensorflow")
    program = section("MultiWorkerMirroredStrategy", job.directory)[0].removed()
    cluster = {"worker": [f"127.0.0.1:{free_port()}" for _ in range(2)]}
    for index in range(2):
        task = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        command = [sys.executable, job.script(program)]
        variables = {"KERAS_BACKEND": "tensorflow", "TF_CONFIG": json.dumps(task)}
        job.spawn(command, subprocess.PIPE, TF_CPP_MIN_LOG_LEVEL="3", **variables)
    said = [process.communicate() for process in job.started]
    assert all(process.returncode for process in job.started), said
    assert all(b"PerReplica'>) to a Tensor" in err for _, err in said), said


def test_the_doctor_finds_what_the_page_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for title, names in {
        "HorovodRunner": ["sparkdl.HorovodRunner"],
        "torch-ccl and gloo": ["oneccl_bindings_for_pytorch"],
    }.items():
        program = section(title, tmp_path)[0]
        (tmp_path / program.title).write_text(program.removed())
        assert hvdlite(["doctor", str(tmp_path / program.title)]) == 1
        said = capsys.readouterr().out
        found = re.findall(rf"{program.title}:\d+: change: ([\w.]+): .*roads\.md", said)
        assert found == names, said
        (tmp_path / program.title).write_text(program.added())
        assert hvdlite(["doctor", str(tmp_path / program.title)]) == 0, capsys.readouterr().out
        capsys.readouterr()


# ---- Kubeflow's Trainer

POD = """
import numpy as np
import hvdlite as hvd
hvd.init()
total = hvd.allreduce(np.ones(1), op=hvd.Sum)[0]
print(f"rank {hvd.rank()} of {hvd.size()} on {hvd.cross_size()} hosts: {total:.0f}")
"""
_WHY_NOT = network.why_not()


@pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT))
def test_the_runtime_for_kubeflows_trainer_makes_ranks_of_pods(job: Job) -> None:
    """With the variables that the Trainer sets, and a network of each pod's own."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    runtime, _ = yaml.safe_load_all((ROOT / "examples/kubernetes/trainjob.yaml").read_text())
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    (container,) = node["template"]["spec"]["template"]["spec"]["containers"]
    program = job.script(POD)
    with network.Network(2) as pods:
        running: list[subprocess.Popen[bytes]] = []
        for rank in (1, 0):
            variables = {
                "PET_NNODES": "2", "PET_NODE_RANK": str(rank), "PET_MASTER_ADDR": "10.77.0.2",
                "PET_MASTER_PORT": "29400", "HVDLITE_SECRET": "ab" * 32,
                "HVDLITE_HOST_ID": f"pod{rank}",
            }  # fmt: skip
            command = [*pods.prefix(rank), *container["command"], "python", program]
            running.append(job.spawn(command, subprocess.PIPE, **variables))
        said = [ended(process)[0].decode() for process in running]
    assert said == [f"rank {rank} of 2 on 2 hosts: 2\n" for rank in (1, 0)]


@pytest.mark.always
def test_the_page_shows_the_trainjob_of_the_example(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    (shown,) = section("Kubeflow", tmp_path)
    _, job = yaml.safe_load_all((ROOT / "examples/kubernetes/trainjob.yaml").read_text())
    of_the_page = yaml.safe_load(shown.text)
    resources = job["spec"]["trainer"].pop("resourcesPerNode")
    assert resources["requests"] and of_the_page == job
