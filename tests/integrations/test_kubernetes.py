"""The manifests in examples/kubernetes against Kubernetes' own schemas and those of the operators,
and what hvdlite makes of their commands and variables."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hvdlite.launch import cli, environment
from hvdlite.launch.environment.identity import AtPorts, AtStore, OverTorchStore

validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
trainer = pytest.importorskip(
    "kubeflow_trainer_api.models", reason="kubeflow-trainer-api is not installed"
)

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "kubernetes"
SCHEMAS = Path(__file__).resolve().parent / "kubernetes_schemas"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
VERSION = "1.31"


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def check(document: dict[str, Any]) -> None:
    """Against the schema of its kind, and its templates against Kubernetes' own."""
    kind = document["kind"]
    if document["apiVersion"].startswith("trainer.kubeflow.org"):
        check_by_model(document)
        return
    if kind not in ("JobSet", "MPIJob"):
        validate.validate(document, VERSION, strict=True)
        return
    jsonschema.validate(document, json.loads((SCHEMAS / f"{kind.lower()}.json").read_text()))
    name = {"name": document["metadata"]["name"]}
    if kind == "JobSet":
        for replicated in document["spec"]["replicatedJobs"]:
            check({"apiVersion": "batch/v1", "kind": "Job", "metadata": name}
                  | replicated["template"])  # fmt: skip
    else:
        for replica in document["spec"]["mpiReplicaSpecs"].values():
            check({"apiVersion": "v1", "kind": "Pod", "metadata": name} | replica["template"])


def check_by_model(document: dict[str, Any]) -> None:
    """Against the class that Kubeflow's package has for it, which forgets what it does not know;
    and a runtime's template as a JobSet."""
    model = getattr(trainer, f"TrainerV1alpha1{document['kind']}")
    try:
        known = model.from_dict(document).to_dict()
    except ValueError as error:
        raise jsonschema.ValidationError(str(error)) from error
    if unknown := sorted(_lost(document, known)):
        raise jsonschema.ValidationError(f"unknown: {unknown}")
    if document["kind"] == "ClusterTrainingRuntime":
        jobset = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
        check(jobset | {"metadata": {"name": "node"}} | document["spec"]["template"])


def _lost(given: Any, known: Any, path: str = "") -> Iterator[str]:
    """What is in the first one and not in the second."""
    if isinstance(given, dict) and isinstance(known, dict):
        for key, value in given.items():
            where = f"{path}.{key}"
            yield from _lost(value, known[key], where) if key in known else [where]
    elif isinstance(given, list) and isinstance(known, list) and len(given) == len(known):
        for index, (one, other) in enumerate(zip(given, known, strict=True)):
            yield from _lost(one, other, f"{path}[{index}]")
    elif given != known:
        yield path


def pods_of(path: Path) -> list[dict[str, Any]]:
    """The specs of all pods."""
    found: list[dict[str, Any]] = []

    def look(value: Any) -> None:
        if isinstance(value, dict) and "containers" in value:
            found.append(value)
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, (dict, list)):
                look(inner)

    look(documents(path))
    return found


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_is_one_that_the_cluster_accepts(path: Path) -> None:
    for document in documents(path):
        check(document)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("indexed-job.yaml", ("completions: 4", "completion: 4")),
        ("indexed-job.yaml", ("backoffLimit: 0", "backoffLimit: none")),
        ("jobset.yaml", ("successPolicy", "successPolicies")),
        ("jobset.yaml", ("operator: All", "operator: Each")),
        ("jobset.yaml", ("restartPolicy: OnFailure", "restartPolicies: OnFailure")),
        ("mpijob.yaml", ("slotsPerWorker", "slotsPerWorkers")),
        ("elastic.yaml", ("volumeMounts", "volumeMount")),
        ("trainjob.yaml", ("mlPolicy", "mlPolicies")),
        ("trainjob.yaml", ("maxRestarts: 0", "maxRestarts: none")),
        ("trainjob.yaml", ("secretKeyRef", "secretKeyReference")),
        ("trainjob.yaml", ("numNodes: 4", "numNodes: four")),
        ("trainjob.yaml", ("resourcesPerNode", "resources")),
    ],
)
def test_a_mistake_in_a_manifest_is_noticed(
    name: str, change: tuple[str, str], tmp_path: Path
) -> None:
    text = (FOLDER / name).read_text()
    assert change[0] in text
    wrong = tmp_path / name
    wrong.write_text(text.replace(*change))
    with pytest.raises((jsonschema.ValidationError, validate.ValidationError)):
        for document in documents(wrong):
            check(document)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_pods_have_time_to_end_and_ranks_have_shared_memory(path: Path) -> None:
    for pod in pods_of(path):
        assert pod["terminationGracePeriodSeconds"] >= 60
        (container,) = pod["containers"]
        if container["name"] == "launcher":
            continue
        assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
        (shm,) = [volume for volume in pod["volumes"] if volume["name"] == "shm"]
        assert shm["emptyDir"]["medium"] == "Memory"


def test_the_pods_of_the_indexed_job_are_the_ranks_of_one_job() -> None:
    service, job = documents(FOLDER / "indexed-job.yaml")
    spec = job["spec"]
    (pod,) = pods_of(FOLDER / "indexed-job.yaml")
    variables = {each["name"]: each.get("value", "") for each in pod["containers"][0]["env"]}
    assert spec["completions"] == spec["parallelism"] == int(variables["WORLD_SIZE"])
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert variables["MASTER_ADDR"] == f"{job['metadata']['name']}-0.{pod['subdomain']}"
    given = variables | {"HVDLITE_SECRET": "ab" * 32}
    for rank in range(4):
        found = environment.discover(given | {"RANK": str(rank)})
        assert (found.rank, found.size, found.secret) == (rank, 4, bytes.fromhex("ab" * 32))
        assert isinstance(found.rendezvous_method, (AtPorts, AtStore, OverTorchStore))


def test_the_runtime_has_the_names_by_which_the_trainer_finds_the_ranks() -> None:
    runtime, job = documents(FOLDER / "trainjob.yaml")
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    (node,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    labels = node["template"]["metadata"]["labels"]
    assert labels == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    (pod,) = pods_of(FOLDER / "trainjob.yaml")
    (container,) = pod["containers"]
    # PET_MASTER_ADDR is JOB-node-0-0.JOB, and PET_ variables are set in the container of this name.
    assert (node["name"], container["name"]) == ("node", "node")
    # The args of the TrainJob are arguments of the command, which is a shell's.
    assert container["command"][:2] == ["sh", "-c"] and "args" not in container


def test_the_launcher_of_the_jobset_follows_the_pods_there_are(tmp_path: Path) -> None:
    config, jobset = documents(FOLDER / "jobset.yaml")
    launcher, worker = pods_of(FOLDER / "jobset.yaml")
    program, *words = launcher["containers"][0]["command"]
    arguments = cli.read_arguments(words)
    assert program == "hvdliterun" and arguments.least == 4
    assert arguments.script == "/etc/hvdlite/discover_hosts.sh"
    hook = worker["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert float(hook[hook.index("--seconds") + 1]) == arguments.leave_seconds
    assert worker["terminationGracePeriodSeconds"] > arguments.leave_seconds
    # The names are those that JobSet gives its pods.
    workers = jobset["spec"]["replicatedJobs"][1]
    network = jobset["spec"]["network"]
    names = [
        f"{jobset['metadata']['name']}-{workers['name']}-0-{index}.{network['subdomain']}"
        for index in range(workers["template"]["spec"]["parallelism"])
    ]
    script = tmp_path / "discover_hosts.sh"
    script.write_text(config["data"]["discover_hosts.sh"])
    getent = tmp_path / "getent"
    getent.write_text("#!/bin/sh\ncase $2 in *-1.hvdlite) exit 2;; esac\n")
    getent.chmod(0o755)
    done = subprocess.run(
        ["sh", str(script)], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [f"{name}:2" for name in names if "-1." not in name]


def test_the_recipe_of_the_image_has_known_instructions_and_whole_lines() -> None:
    text = re.sub(r"\\\n", " ", (FOLDER / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "RUN", "COPY", "WORKDIR", "CMD"}
    assert {line.split()[0] for line in lines} == known and lines[0].startswith("FROM ")
    for line in lines:
        if line.startswith("RUN "):
            subprocess.run(["sh", "-n", "-c", line.removeprefix("RUN ")], check=True)
    assert json.loads(lines[-1].removeprefix("CMD ")) == ["python", "/app/train.py"]
    commands = {pod["containers"][0]["command"][-1] for m in MANIFESTS for pod in pods_of(m)}
    assert "/app/train.py" in commands, "what the manifests start is in the image"
