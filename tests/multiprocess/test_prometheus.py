"""A real Prometheus scrapes a running job (Debian's package `prometheus`)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from counting import OPERATIONS, PROGRAM
from launched import Job, ended
from waiting import wait_until

from hvdlite.rendezvous.addresses import quiet_port

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
pytestmark = pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None,
    reason="prometheus and promtool are not installed (Debian: apt-get install prometheus)",
)


class Prometheus:
    """Scrapes that page every second."""

    def __init__(self, job: Job, page: str) -> None:
        config = job.directory / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s}\n"
            "scrape_configs:\n"
            "- job_name: hvdlite\n"
            f"  static_configs: [{{targets: ['{page}']}}]\n"
        )
        self._place = f"127.0.0.1:{quiet_port()}"
        self.log = job.directory / "prometheus.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    str(PROMETHEUS),
                    f"--config.file={config}",
                    f"--storage.tsdb.path={job.directory / 'tsdb'}",
                    f"--web.listen-address={self._place}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=job.environment(),
            )
        job.started.append(self.process)

    def ask(self, query: str) -> dict[str, float]:
        """The values of a query by rank; none as long as it does not answer."""
        text = urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(f"http://{self._place}/api/v1/query?{text}") as answer:
                found = json.load(answer)["data"]["result"]
        except (urllib.error.URLError, ConnectionError):
            return {}
        return {each["metric"].get("rank", ""): float(each["value"][1]) for each in found}

    def said(self) -> str:
        return self.log.read_text()


@pytest.fixture
def watched(job: Job) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A job with a page of metrics, and the address of the page."""
    process = job.start("-np", "2", "--metrics-port", "0", sys.executable, job.script(PROGRAM))
    assert process.stderr is not None
    told = re.search(r"http://(127\.0\.0\.1:\d+)/metrics", process.stderr.readline().decode())
    assert told
    yield process, told[1]


def test_prometheus_scrapes_a_running_job(
    job: Job, watched: tuple[subprocess.Popen[bytes], str]
) -> None:
    process, page = watched
    prometheus = Prometheus(job, page)
    each = {"0": float(OPERATIONS), "1": float(OPERATIONS)}
    wait_until(lambda: prometheus.ask("hvdlite_operations_total") == each, 40, prometheus.said)
    assert prometheus.ask("up") == {"": 1.0}
    assert prometheus.ask("hvdlite_up") == {"0": 1.0, "1": 1.0}
    assert prometheus.ask("hvdlite_ranks") == {"": 2.0}
    memory = prometheus.ask("hvdlite_memory_bytes")
    assert set(memory) == {"0", "1"} and min(memory.values()) > 1e7
    # The dashboard's expressions are ones that this Prometheus understands.
    panels = json.loads((Path(__file__).parents[2] / "docs/guides/grafana.json").read_text())
    for panel in panels["panels"]:
        for target in panel["targets"]:
            prometheus.ask(target["expr"].replace("$__rate_interval", "1m"))
    prometheus.process.terminate()
    prometheus.process.wait()
    (job.directory / "enough").touch()
    ended(process)


def test_promtool_accepts_the_page_of_a_running_job(
    job: Job, watched: tuple[subprocess.Popen[bytes], str]
) -> None:
    process, place = watched

    def page() -> bytes:
        with urllib.request.urlopen(f"http://{place}/metrics", timeout=30) as answer:
            return bytes(answer.read())

    text = wait_until(lambda: (found := page()) and b"hvdlite_operations_total" in found and found)
    done = subprocess.run([str(PROMTOOL), "check", "metrics"], input=text, capture_output=True)
    assert done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr
    (job.directory / "enough").touch()
    ended(process)
