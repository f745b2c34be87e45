"""`hvdlite top`: which job is meant, what is drawn, and where launchers listen."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hvdlite.launch.attach import directory
from hvdlite.launch.attach.client import FoundJob, LauncherConnection
from hvdlite.launch.monitor import ReportRequest
from hvdlite.tools.commands import cli, top, top_view
from hvdlite.tools.commands.top_view import ORDERS, View

ABOUT: dict[str, Any] = {
    "pid": 77,
    "launcher": "a",
    "command": "python train.py",
    "began": 1000.0,
    "ranks": 3,
    "hosts": ["a", "b"],
}


def _never() -> LauncherConnection:
    raise AssertionError


def job(pid: int) -> FoundJob:
    return FoundJob(pid, _never, ABOUT | {"pid": pid})


def row(rank: int, **known: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(
        ("steps", "operations", "bytes", "waiting", "late", "cores", "memory")
    )
    texts = {"last": "", "note": "", "straggler": False, "silent": False}
    return {"rank": rank, "host": "a", **nothing, **texts, **known}


FRAME: dict[str, Any] = {
    "heading": "",
    "world_changes": 0,
    "complete": True,
    "rows": [
        row(0, steps=10.0, operations=1610.0, bytes=1e8, waiting=0.5, late=0.0, cores=1.25,
            memory=3e8, last="allreduce.layer4"),
        row(1, steps=8.0, operations=1288.0, bytes=2e8, waiting=0.01, late=0.05, cores=2.0,
            memory=1e8, note="others wait 50.0 ms for it", straggler=True),
        row(2, note="silent for 9 s", silent=True),
    ],
}  # fmt: skip


def first_cells(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines]


def test_the_table_has_step_time_cpu_and_memory() -> None:
    lines = top_view.ranks(FRAME, View(), 200, 10, colours=False)
    assert (
        lines[0].split() == "rank host step waiting late data/s CPU memory last collective".split()
    )
    assert lines[1].split() == "0 a 100 ms 50% 0.0 ms 100 MB 125% 300 MB allreduce.layer4".split()
    assert "125 ms" in lines[2] and "others wait 50.0 ms for it" in lines[2]
    assert lines[3].split() == "2 a - - - - - - silent for 9 s".split()


def test_a_host_that_others_use_is_told_above_the_table() -> None:
    told = "The ranks get 5 % of a core each: other programs use 1.9 of the host's 2 cores."
    frame = FRAME | {"taken": [told, "2", "3", "4"]}
    assert top_view.title(ABOUT, frame, 1000.0)[1:] == [told, "2", "3"]
    assert len(top_view.title(ABOUT, FRAME, 1000.0)) == 1


@pytest.mark.parametrize(
    ("order", "ranks"),
    [
        ("rank", "012"),
        ("step", "102"),
        ("waiting", "012"),
        ("late", "102"),
        ("data", "102"),
        ("cpu", "102"),
        ("memory", "012"),
    ],
)
def test_the_largest_comes_first_and_a_rank_without_a_number_last(order: str, ranks: str) -> None:
    lines = top_view.ranks(FRAME, View(order), 200, 10, colours=False)
    assert first_cells(lines)[1:] == list(ranks)


def test_keys() -> None:
    choice = View()
    seen = []
    for _ in ORDERS:
        seen.append(choice.order)
        choice = choice.press("s")
    assert seen == list(ORDERS) and choice == View()
    assert choice.press("r").press("p") == View(reverse=True, paused=True)
    assert choice.press("p").press("p") == choice == choice.press("x").press("\x1b")
    assert choice.press("q").over
    lines = top_view.ranks(FRAME, View(reverse=True), 200, 10, colours=False)
    assert first_cells(lines)[1:] == ["2", "1", "0"]


def test_the_command_line_and_the_keys_know_the_same_orders() -> None:
    for order in ORDERS:
        assert cli.build_parser().parse_args(["top", "--sort", order]).sort == order


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (200, 9)])
def test_everything_fits_the_terminal(size: tuple[int, int]) -> None:
    rows = [row(rank, steps=1.0, last=f"allreduce.{'x' * 60}") for rank in range(30)]
    frame = FRAME | {"rows": rows, "heading": "generation 3; starting: member 7 on c " * 3}
    lines = top_view.screen(ABOUT, frame, View(), size, 1075.0, 0.0, colours=False)
    assert len(lines) <= size[1] - 2 and max(map(len, lines)) < size[0]
    assert lines[0].startswith("hvdliterun 77, 30 ranks, since 0:01:15")
    assert lines[-1].startswith("sorted by rank")


def test_what_is_said_above_and_below_the_table() -> None:
    frame = FRAME | {"world_changes": 2, "heading": "generation 3"}
    lines = top_view.screen(ABOUT, frame, View("late"), (200, 30), 4725.0, 7.0, colours=False)
    assert lines[:2] == [
        "hvdliterun 77, 3 ranks, since 1:02:05, 2 changes of the ranks: python train.py",
        "generation 3",
    ]
    assert lines[-1] == (
        "hvdliterun has said nothing for 7 s, sorted by late.  s: sort  r: reverse  p: pause  "
        "d: dump  q: quit"
    )
    paused = top_view.screen(ABOUT, frame, View(paused=True), (200, 30), 0.0, 7.0, False)
    assert paused[-1].startswith("PAUSED, sorted by rank.")


def test_which_job_is_meant() -> None:
    one, other = (job(pid) for pid in (77, 78))
    silent = replace(one, pid=79, about=None)
    assert top.choose([one], None) is one
    assert top.choose([one, other], 78) is other
    with pytest.raises(top.CannotShow, match="no job of this user has its hvdliterun or a"):
        top.choose([], None)
    with pytest.raises(top.CannotShow, match="several jobs run here. `hvdlite top 77` shows"):
        top.choose([one, other], None)
    with pytest.raises(top.CannotShow) as error:
        top.choose([one, silent], 5)
    assert str(error.value).splitlines() == [
        "process 5 is no hvdliterun of this user. There are:",
        "      77  on a: 3 ranks on a, b  python train.py",
        "      79  does not answer",
    ]


def test_jobs_are_listed_from_the_newest_on() -> None:
    old, new = (
        job(77),
        replace(job(78), about=ABOUT | {"began": 2000.0, "ranks": 1, "hosts": ["a"]}),
    )
    starting = replace(job(79), about=ABOUT | {"began": 1500.0, "ranks": 0, "hosts": []})
    with pytest.raises(top.CannotShow) as error:
        top.choose([old, new, starting], None)
    assert str(error.value).splitlines() == [
        "several jobs run here. `hvdlite top 78` shows the first.",
        "      78  on a: 1 rank on a  python train.py",
        "      79  on a: no ranks yet  python train.py",
        "      77  on a: 3 ranks on a, b  python train.py",
    ]


def test_a_job_is_chosen_by_its_place_in_the_list_or_its_process() -> None:
    jobs = [job(78), job(4)]
    assert top.answered(jobs, "") is top.answered(jobs, " 1\n") is top.answered(jobs, "78")
    assert top.answered(jobs, "2") is top.answered(jobs, "4") is jobs[1]
    assert [top.answered(jobs, wrong) for wrong in ("0", "3", "q", "-1")] == [None] * 4


def test_a_job_whose_launcher_and_ranks_are_here_is_one_job() -> None:
    here, far, another = (replace(job(pid), connect=_never) for pid in (77, 77, 78))
    assert top.each_once([here], [far, another, another]) == [here, another]
    about = ABOUT | {"on": "node1"}
    assert top_view.title(about, FRAME, 1001.0)[0].startswith("hvdliterun 77 on node1, 3 ranks")


def test_a_key_asks_for_a_bundle_and_says_where_it_will_be_until_the_next_key() -> None:
    asked = View().press("d").press("d")
    assert asked.dumps == 2
    said = top_view.dumped({"asked": 3, "dumps": "/tmp/dumps"})
    assert said == "3 ranks will write a bundle: `hvdlite explain /tmp/dumps` shows it."
    lines = top_view.screen(ABOUT, FRAME, replace(asked, said=said), (200, 30), 0.0, 0.0, False)
    assert lines[-1] == said
    assert replace(asked, said=said).press("s") == asked.press("s")
    assert top_view.dumped({"asked": 1, "dumps": ""}) == (
        "1 rank will print its stacks to the job's stderr (--stall-dump: to files)."
    )


def test_a_wish_is_read_as_it_was_written() -> None:
    wish = ReportRequest(reports=True, seconds=1.0, dump=1 << 62)
    assert ReportRequest.decode(wish.encode()) == wish
    with pytest.raises(ValueError):
        ReportRequest.decode(b"1.0")


# --- where launchers listen


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(directory, "_RUNTIME", str(tmp_path / "run"))
    monkeypatch.setattr(directory, "_TEMPORARY", str(tmp_path))
    return tmp_path


def test_a_socket_is_private_and_is_found(places: Path) -> None:
    listener, path = directory.listen({})
    with listener:
        assert path.parent == places / f"hvdlite-{os.geteuid()}"
        assert path.parent.stat().st_mode & 0o777 == 0o700 and path.stat().st_mode & 0o777 == 0o600
        assert list(directory.sockets({})) == [(os.getpid(), path)]
        second, other = directory.listen({})  # another job of this process
        with second:
            assert len(list(directory.sockets({}))) == 2 and other != path


def test_the_users_runtime_directory_is_preferred_and_both_are_searched(places: Path) -> None:
    runtime = places / "xdg"
    runtime.mkdir(mode=0o700)
    for environ in ({"XDG_RUNTIME_DIR": str(runtime)}, {}):
        directory.listen(environ)[0].close()
    found = [path.parent for _, path in directory.sockets({"XDG_RUNTIME_DIR": str(runtime)})]
    assert found == [runtime / "hvdlite", places / f"hvdlite-{os.geteuid()}"]


def test_a_directory_that_others_reach_is_not_used(places: Path) -> None:
    own = places / f"hvdlite-{os.geteuid()}"
    own.mkdir(mode=0o755)
    (own / f"{os.getpid()}.0.sock").touch()
    assert list(directory.sockets({})) == []
    with pytest.raises(OSError, match="is not a private directory of this user"):
        directory.listen({})
    (own / f"{os.getpid()}.0.sock").unlink()
    own.rmdir()
    elsewhere = places / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    own.symlink_to(elsewhere)
    with pytest.raises(OSError, match="is not a private directory"):
        directory.listen({})


def test_the_socket_of_a_process_that_has_ended_is_removed(places: Path) -> None:
    listener, path = directory.listen({})
    listener.close()
    stale = path.parent / "4194305.0.sock"  # no process has such a number
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(stale))
    assert [found for _, found in directory.sockets({})] == [path] and not stale.exists()
    stale.touch()
    directory.listen({})[0].close()  # the next launcher does so, too
    assert not stale.exists()


def test_a_path_that_is_too_long_is_no_place(places: Path) -> None:
    long = places / ("x" * 100)
    long.mkdir()
    listener, path = directory.listen({"XDG_RUNTIME_DIR": str(long)})
    listener.close()
    assert path.parent == places / f"hvdlite-{os.geteuid()}"
