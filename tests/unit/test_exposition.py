"""The ranks' numbers for Prometheus, and as lines of JSON."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from machine import within

from hvdlite.launch.monitor import Outlets, exposition, metrics
from hvdlite.launch.monitor.board import Board

_SAMPLE = re.compile(
    r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? (-?[\d.]+(?:e[+-]?\d+)?)'
)
COUNTERS: dict[str, Any] = {
    "operations": 40,
    "failures": 1,
    "bytes": 123456789012,
    "bytes_before_encoding": 4096,
    "bytes_encoded": 132,
    "batches": 8,
    "batches_fused": 4,
    "lists": 3,
    "lists_taken_apart": 1,
    "batches_on_gpu": 0,
    "requests_in_full": 10,
    "requests_by_slot": 31,
    "seconds_negotiating": 0.25,
    "seconds_moving": 1.5,
    "seconds_waited_for_rank": {"0": 0.0, "1": 3.5},
    "background_wakes": 2,
    "moves_to_another_processor": 0,
    "carried_by": {"shm": {"allreduce": 30}, "tcp: ring": {"broadcast": 10}},
    "interfaces": {"eth0": {"sent": 5, "received": 6}, "eth1": {"sent": 7, "received": 8}},
}


def board_of(*counters: dict[str, Any] | None, host: str = "a") -> Board:
    """Two reports of each rank, a second apart; None: the rank has not reported."""
    board = Board(dict.fromkeys(range(len(counters)), host))
    for rank, each in enumerate(counters):
        if each is None:
            continue
        seen = {"operations": 0, "per_step": 10, "waiting": 0.25, "last": "allreduce.x"}
        before = each | {"operations": each["operations"] - 20, "seconds_waited_for_rank": {}}
        for clock, counted in ((1.0, before), (2.0, each)):
            process = {"cpu_seconds": 3.5 * clock, "memory": 5e6}
            report = {"clock": clock, "counters": counted, "seen": seen, "process": process}
            board.take(rank, json.dumps(report).encode(), clock)
    return board


def samples(page: str) -> dict[str, float]:
    """By name and labels. Each line must be what Prometheus accepts, each family in one piece."""
    found: dict[str, float] = {}
    families: list[str] = []
    for line in page.splitlines():
        if line.startswith("# HELP "):
            families.append(line.split()[2])
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name == families[-1] and (kind == "counter") == name.endswith("_total"), line
        else:
            told = _SAMPLE.fullmatch(line)
            assert told and told[1] == families[-1], line
            found[line.rpartition(" ")[0]] = float(told[3])
    assert len(set(families)) == len(families)
    return found


def test_each_counter_of_each_rank_is_on_the_page() -> None:
    found = samples(exposition.page(board_of(COUNTERS, COUNTERS), 2.0))
    for rank in (0, 1):
        place = f'rank="{rank}",host="a"'
        assert found[f"hvdlite_up{{{place}}}"] == 1
        assert found[f"hvdlite_operations_total{{{place}}}"] == 40
        assert found[f"hvdlite_result_bytes_total{{{place}}}"] == 123456789012
        assert found[f"hvdlite_moving_seconds_total{{{place}}}"] == 1.5
        assert found[f'hvdlite_requests_total{{{place},form="number"}}'] == 31
        assert found[f"hvdlite_steps_per_second{{{place}}}"] == 2
        assert found[f"hvdlite_cpu_seconds_total{{{place}}}"] == 7
        assert found[f"hvdlite_memory_bytes{{{place}}}"] == 5e6
        carried = f'{place},carrier="tcp: ring",operation="broadcast"'
        assert found[f"hvdlite_carried_operations_total{{{carried}}}"] == 10
        sent = f'{place},interface="eth1",direction="sent"'
        assert found[f"hvdlite_interface_bytes_total{{{sent}}}"] == 7
    assert found['hvdlite_waited_for_seconds_total{rank="1",host="a"}'] == 3.5
    assert found['hvdlite_straggler{rank="1",host="a"}'] == 1
    assert found["hvdlite_ranks"] == 2


@pytest.mark.parametrize("name", COUNTERS)
def test_no_counter_of_the_core_is_forgotten(name: str) -> None:
    """A value that nothing else has turns up."""
    marked = {"0": 777.5, "1": 777.5} if name == "seconds_waited_for_rank" else 777.5
    marked = {"shm": {"allreduce": 777.5}} if name in ("carried_by", "interfaces") else marked
    found = samples(exposition.page(board_of(COUNTERS | {name: marked}), 2.0))
    assert 777.5 in found.values()


def test_ranks_that_are_silent_keep_their_counters_but_are_not_up() -> None:
    found = samples(exposition.page(board_of(COUNTERS, None), 60.0))
    assert found['hvdlite_up{rank="0",host="a"}'] == 0
    assert found['hvdlite_up{rank="1",host="a"}'] == 0
    assert found['hvdlite_operations_total{rank="0",host="a"}'] == 40
    assert 'hvdlite_operations_total{rank="1",host="a"}' not in found
    assert 'hvdlite_steps_per_second{rank="0",host="a"}' not in found


def test_any_name_of_a_host_is_a_label() -> None:
    page = exposition.page(board_of(COUNTERS, host='a"b\\c\nd'), 2.0)
    assert r'hvdlite_up{rank="0",host="a\"b\\c\nd"} 1' in page.splitlines()
    samples(page)


def test_changes_of_an_elastic_job_are_counted() -> None:
    board = Board({})
    for hosts in ({0: "a", 1: "b"}, {0: "a", 1: "b"}, {0: "b"}):
        board.become(hosts, "generation 1")
    assert samples(exposition.page(board, 1.0))["hvdlite_world_changes_total"] == 1


def test_a_line_of_json_says_the_same() -> None:
    told = json.loads(exposition.line(board_of(COUNTERS, None), 2.0, clock=1e9, began=9e8))
    assert told["time"] == 1e9 and [each["rank"] for each in told["ranks"]] == [0, 1]
    first, second = told["ranks"]
    assert first["counters"] == COUNTERS and first["steps_per_second"] == 2
    assert second["counters"] == {} and second["note"] == "not yet in init()"


def test_promtool_accepts_the_page() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    page = exposition.page(board_of(COUNTERS, COUNTERS, None), 2.0)
    done = subprocess.run(
        [promtool, "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr


_DOCS = Path(__file__).parents[2] / "docs" / "guides"


def test_the_guide_and_the_dashboard_name_metrics_that_exist() -> None:
    page = exposition.page(board_of(COUNTERS, COUNTERS), 2.0)
    exist = set(re.findall(r"(?m)^# TYPE (\w+)", page))
    names = re.compile(r"\bhvdlite_[a-z_]+\b")
    guide = (_DOCS / "monitoring.md").read_text().partition("| Metric |")[2].partition("\n\n")[0]
    assert set(names.findall(guide)) == exist
    dashboard = json.loads((_DOCS / "grafana.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert asked and set(names.findall(" ".join(asked))) <= exist


@pytest.mark.parametrize(
    "drip", [b"a", b"GET /metrics HTTP/1.1\r\nX: "], ids=["in its first line", "in its headers"]
)
def test_a_request_that_comes_byte_by_byte_has_one_deadline(
    drip: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "_SECONDS_OF_A_REQUEST", 1.0)
    said: list[str] = []
    page = metrics.MetricsPage(board_of(), Outlets(port=0), said.append)
    try:
        [port] = re.findall(r":(\d+)/metrics", said[0])
        with socket.create_connection(("127.0.0.1", int(port)), timeout=within(10)) as stranger:
            stranger.sendall(drip)
            over = threading.Event()

            def go_on() -> None:
                while not over.wait(0.2):  # each byte comes well before the deadline of a read
                    try:
                        stranger.sendall(b"a")
                    except OSError:
                        return

            dripping = threading.Thread(target=go_on)
            dripping.start()
            try:
                stranger.recv(1)  # the end, or a reset by it
            except ConnectionError:
                pass
            finally:
                over.set()
                dripping.join()
    finally:
        page.end()
