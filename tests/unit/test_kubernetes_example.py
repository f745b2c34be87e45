"""The manifests in examples/kubernetes have only what the MPI Operator's API (v2beta1) knows, with
the right types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hvdlite.launch import cli
from hvdlite.launch.hosts import Launcher
from hvdlite.tools.commands import cli as commands

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kubernetes"
MANIFEST = FOLDER / "mpijob.yaml"
ELASTIC = FOLDER / "elastic.yaml"

# The operator's fields as its published OpenAPI description has them; a type, or the fields below,
# or {...: value type}.
_RUN_POLICY = {
    "activeDeadlineSeconds": int,
    "backoffLimit": int,
    "cleanPodPolicy": str,
    "schedulingPolicy": dict,
    "suspend": bool,
    "ttlSecondsAfterFinished": int,
}
_REPLICA = {"replicas": int, "restartPolicy": str, "template": dict}
_SPEC = {
    "launcherCreationPolicy": str,
    "mpiImplementation": str,
    "mpiReplicaSpecs": {"Launcher": _REPLICA, "Worker": _REPLICA},
    "runLauncherAsWorker": bool,
    "runPolicy": _RUN_POLICY,
    "slotsPerWorker": int,
    "sshAuthMountPath": str,
}
_JOB = {"apiVersion": str, "kind": str, "metadata": dict, "spec": _SPEC}


def _check(value: Any, schema: Any, where: str) -> None:
    if isinstance(schema, type):
        assert type(value) is schema, f"{where}: {value!r} is no {schema.__name__}"
        return
    assert isinstance(value, dict), where
    for key, inner in value.items():
        assert key in schema, f"{where}: the operator knows no {key!r}"
        _check(inner, schema[key], f"{where}.{key}")


@pytest.mark.parametrize("manifest", [MANIFEST, ELASTIC], ids=["static", "elastic"])
def test_the_manifest_is_one_that_the_operator_accepts(manifest: Path) -> None:
    job = yaml.safe_load(manifest.read_text())
    _check(job, _JOB, "job")
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    spec = job["spec"]
    assert spec["mpiImplementation"] in ("OpenMPI", "Intel", "MPICH")
    assert spec["runPolicy"]["cleanPodPolicy"] in ("None", "Running", "All")
    for replica in spec["mpiReplicaSpecs"].values():
        (container,) = replica["template"]["spec"]["containers"]
        assert all(isinstance(word, str) for word in container["command"])
    # What the check refuses.
    with pytest.raises(AssertionError, match=r"job\.spec: the operator knows no 'slotsPerWorkers'"):
        _check({"spec": {"slotsPerWorkers": 1}}, _JOB, "job")


def test_its_command_is_one_that_hvdliterun_understands_in_the_launchers_pod() -> None:
    job = yaml.safe_load(MANIFEST.read_text())["spec"]
    program, *words = job["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0][
        "command"
    ]
    assert program == "hvdliterun"
    hostfile = "".join(
        f"hvdlite-example-worker-{n}.hvdlite-example.default.svc slots={job['slotsPerWorker']}\n"
        for n in (0, 1)
    )
    environ = {"K_MPI_JOB_ROLE": "launcher", "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile"}
    request = cli.understand(
        cli.read_arguments(words), environ, {"/etc/mpi/hostfile": hostfile}.__getitem__
    )
    assert [host.slots for host in request.hosts] == [
        2,
        2,
    ] and request.launcher is Launcher.HVDLITERUN
    assert request.command == ["python", "/app/train.py"]


def test_the_elastic_job_follows_the_operators_script_and_its_pods_leave_in_order() -> None:
    replicas = yaml.safe_load(ELASTIC.read_text())["spec"]["mpiReplicaSpecs"]
    pods = {name: replica["template"]["spec"] for name, replica in replicas.items()}
    program, *words = pods["Launcher"]["containers"][0]["command"]
    assert program == "hvdliterun"
    arguments = cli.read_arguments(words)
    assert arguments.script == "/etc/mpi/discover_hosts.sh" and arguments.least == 2
    hook, *leave = pods["Worker"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    asked = commands.build_parser().parse_args(leave)
    assert hook == "hvdlite" and asked.command == "leave" and asked.rank is asked.slot is None
    assert asked.seconds == arguments.leave_seconds
    for pod in pods.values():
        assert pod["terminationGracePeriodSeconds"] > asked.seconds
