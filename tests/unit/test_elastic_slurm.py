"""An elastic job in a Slurm allocation says whether it survives a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from hvdlite.launch.elastic import run

HERE = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}


@pytest.mark.parametrize(
    ("environ", "several"),
    [
        ({}, False),
        (HERE, True),
        ({**HERE, "SLURM_JOB_NUM_NODES": "1"}, False),
        ({"SLURM_JOB_ID": "7", "SLURM_NNODES": "4"}, True),
        ({"SLURM_JOB_NUM_NODES": "2"}, False),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "?"}, False),
    ],
)
def test_one_node_has_no_other_that_could_survive_it(
    environ: dict[str, str], several: bool
) -> None:
    assert run.in_several_nodes(environ) == several


@pytest.mark.parametrize(
    ("environ", "script", "survives"),
    [
        ({}, "", False),
        ({"SBATCH_NO_KILL": "1"}, "", True),
        ({"SALLOC_NO_KILL": ""}, "", True),
        ({"SBATCH_NO_KILL": "no"}, "", False),
        ({}, "#!/bin/bash\n#SBATCH --nodes=2 --no-kill\nhvdliterun x", True),
        ({}, "#SBATCH -k", True),
        ({}, "#SBATCH -Qk  # goes on", True),
        ({}, "#SBATCH --no-kill=off", False),
        ({}, "#SBATCH --job-name=-no-kill", False),
        ({}, "##SBATCH --no-kill\nhvdliterun --no-kill", False),
    ],
)
def test_a_variable_or_the_batch_script_says_that_the_job_survives(
    environ: dict[str, str], script: str, survives: bool
) -> None:
    assert run.survives_a_node(environ, script) == survives


@pytest.mark.parametrize("options", ["--no-kill", "--requeue"])
def test_the_batch_script_is_asked_of_scontrol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        f'#!/bin/sh\n[ "$*" = "write batch_script 7 -" ] && echo "#SBATCH {options}"\n'
    )
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    said: list[str] = []
    run._warn_of_slurm(said.append, HERE)
    assert len(said) == (options != "--no-kill")
    assert all("submitted with --no-kill" in line for line in said)


def test_without_scontrol_the_job_is_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    said: list[str] = []
    run._warn_of_slurm(said.append, HERE)
    assert len(said) == 1
