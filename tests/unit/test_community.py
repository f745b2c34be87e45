"""What a hosting platform reads of this repository: templates, the workflow, the citation, the
container for development; and SECURITY.md."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from machine import within

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
FORMS = sorted(p for p in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if p.name != "config.yml")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_the_platform_asks_for(path: Path) -> None:
    form = read(path)
    assert form.keys() <= {"name", "description", "title", "labels", "body"}
    assert form["name"] and form["description"]
    ids = [item["id"] for item in form["body"] if item["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 1
    for item in form["body"]:
        assert item.keys() <= {"type", "id", "attributes", "validations"}
        attributes = item["attributes"]
        if item["type"] == "markdown":
            assert attributes["value"]
        elif item["type"] == "dropdown":
            assert attributes["label"] and len(set(attributes["options"])) > 1
        else:
            assert item["type"] == "textarea" and attributes["label"]
            assert attributes.keys() <= {"label", "description", "render", "placeholder", "value"}


def test_a_report_of_a_fault_brings_what_is_needed_to_find_it() -> None:
    form = {item.get("id"): item for item in read(GITHUB / "ISSUE_TEMPLATE" / "bug.yml")["body"]}
    installation, bundle = form["installation"], form["bundle"]
    assert "`hvdliterun --check-build -v`" in installation["attributes"]["label"]
    assert installation["validations"]["required"] is True
    assert "`hvdliterun --stall-dump " in bundle["attributes"]["description"]
    assert "`hvdlite explain " in bundle["attributes"]["description"]


def test_commands_of_the_templates_exist() -> None:
    texts = [path.read_text() for path in [*FORMS, GITHUB / "PULL_REQUEST_TEMPLATE.md"]]
    named = set(re.findall(r"`hvdliterun (--[a-z-]+)", "\n".join(texts)))
    assert named == {"--check-build", "--stall-dump"}
    command = [sys.executable, "-m", "hvdlite.launch", "--help"]
    flags = subprocess.run(command, capture_output=True, text=True, timeout=within(30)).stdout
    assert all(re.search(rf"(?<![-\w]){flag}(?![-\w])", flags) for flag in named)
    request = (GITHUB / "PULL_REQUEST_TEMPLATE.md").read_text()
    assert "`hvdliterun --check-build`" in request and "`hvdlite explain`" in request
    headings = re.findall(r"CONTRIBUTING\.md, \*(.*?)\*", request)
    sections = re.findall(r"^## (.*)$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    assert headings and set(headings) <= set(sections)


def test_links_of_the_templates_lead_somewhere() -> None:
    for path in GITHUB.rglob("*.*"):
        for place in re.findall(r"/blob/main/([\w./-]+)", path.read_text()):
            assert (ROOT / place).is_file(), place
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md"):
        for place in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", (ROOT / name).read_text()):
            assert (ROOT / place).is_file(), place


def test_the_hosted_run_is_that_of_every_commit() -> None:
    path = GITHUB / "workflows" / "ci.yml"
    workflow = read(path)
    assert len(path.read_text().splitlines()) <= 22
    # YAML 1.1 reads the key `on` as true.
    assert workflow.get("on", workflow.get(True)) == {
        "push": {"branches": ["main"]},
        "pull_request": None,
        "workflow_call": None,
    }
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    assert "container" in job and job["timeout-minutes"] >= 60
    checkout, *_, last = job["steps"]
    assert checkout["uses"].startswith("actions/checkout@")
    # scripts/lint --changed looks at the last 20 commits.
    assert checkout["with"]["fetch-depth"] > 20
    assert last == {"run": "bash .ci/run"} and (ROOT / ".ci" / "run").is_file()


def test_a_tag_builds_and_tries_the_wheels_and_publishes_after_the_checks() -> None:
    workflow = read(GITHUB / "workflows" / "release.yml")
    jobs = workflow["jobs"]
    assert jobs["tests"]["uses"] == "./.github/workflows/ci.yml"
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert jobs["publish"]["permissions"]["id-token"] == "write"
    runs = [step.get("run", "") for job in ("wheels", "aarch64") for step in jobs[job]["steps"]]
    commands = [run.split()[1:] for run in runs if run.startswith("python ")]
    assert commands[0] == ["scripts/wheels"] and (ROOT / commands[0][0]).is_file()
    usage = [sys.executable, str(ROOT / "scripts" / "wheels"), "--help"]
    flags = subprocess.run(usage, capture_output=True, text=True, timeout=within(30)).stdout
    for command in commands:
        assert all(word in flags for word in command[1:] if word.startswith("--"))


def test_the_container_for_development_installs_by_the_projects_script() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert container["name"] == "hvdlite"
    (job,) = read(GITHUB / "workflows" / "ci.yml")["jobs"].values()
    assert container["image"] == job["container"]["image"]
    script = ROOT / container["postCreateCommand"]
    assert script.is_file() and script.stat().st_mode & 0o100
    assert container["containerEnv"]["HVDLITE_VENV"].endswith("/.venv")


def test_the_citation_is_of_this_version() -> None:
    citation = read(ROOT / "CITATION.cff")
    needed = {"cff-version", "message", "title", "authors"}
    known = {"abstract", "keywords", "license", "type", "version"}
    assert needed <= citation.keys() <= needed | known
    metadata = (ROOT / "pyproject.toml").read_text()
    assert f'\nversion = "{citation["version"]}"\n' in metadata
    assert f'\nlicense = "{citation["license"]}"\n' in metadata
    assert citation["type"] == "software" and citation["cff-version"] == "1.2.0"
    assert all(author["name"] for author in citation["authors"])


def test_what_security_promises_names_things_that_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    from hvdlite.base import knobs
    from hvdlite.launch import secret

    names = {name for knob in knobs.KNOBS for name in knob.environment}
    assert set(re.findall(r"HVDLITE_\w+", text)) <= names | {secret.FILE_VARIABLE}
    assert f"{secret.SIZE} random bytes" in text
    wire = (ROOT / "docs" / "how-it-works" / "wire.md").read_text()
    assert "one descriptor and 45 bytes for at most 5 s" in text
    assert "one descriptor and 45 bytes for at most 5 s" in " ".join(wire.split())
    # No address is known, and none is invented.
    assert "@" not in text and "mailto" not in text
