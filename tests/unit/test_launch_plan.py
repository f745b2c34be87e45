"""Who is which rank, the environment that says so, and the command line that asks for it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from machine import within

import hvdlite
from hvdlite.base import knobs
from hvdlite.launch import cli, flags, plan
from hvdlite.launch.environment import discover
from hvdlite.launch.hosts import Host, parse_hosts
from hvdlite.launch.plan import Slot


def test_one_host() -> None:
    assert plan.assign([Host("h", 3)], 2) == [
        Slot("h", 0, 2, 0, 2, 0, 1),
        Slot("h", 1, 2, 1, 2, 0, 1),
    ]


def test_uneven_hosts_count_across_only_who_has_the_local_rank() -> None:
    slots = plan.assign([Host("a", 2), Host("b", 1), Host("c", 2)])
    assert [
        (s.host, s.rank, s.local_rank, s.local_size, s.cross_rank, s.cross_size) for s in slots
    ] == [
        ("a", 0, 0, 2, 0, 3),
        ("a", 1, 1, 2, 0, 2),
        ("b", 2, 0, 1, 1, 3),
        ("c", 3, 0, 2, 2, 3),
        ("c", 4, 1, 2, 1, 2),
    ]


def test_a_big_cluster_is_planned_in_no_time() -> None:
    began = time.process_time()
    last = plan.assign([Host(f"h{number}", 8) for number in range(8192)])[-1]
    assert last == Slot("h8191", 65535, 65536, 7, 8, 8191, 8192)
    assert time.process_time() - began < 10  # a second at most; in quadratic time it was many


def test_fewer_processes_than_slots_are_honoured() -> None:
    slots = plan.assign([Host("a", 2), Host("b", 4), Host("c", 1)], 3)
    assert [(s.host, s.local_size, s.size) for s in slots] == [
        ("a", 2, 3),
        ("a", 2, 3),
        ("b", 1, 3),
    ]


def test_more_processes_than_slots_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"-np 3 is more than the 2 slots of the hosts"):
        plan.assign([Host("a", 2)], 3)
    with pytest.raises(
        ValueError, match="-np 99999999999 is not allowed: a job has 65536 ranks at most"
    ):
        plan.assign([Host("a", 99999999999)])
    with pytest.raises(ValueError, match="-np 0 is not allowed"):
        plan.assign([Host("a", 2)], 0)


@pytest.mark.parametrize("places", ["a:1", "a:3", "a:2,b:3", "a:1,b:1,c:1"])
def test_every_rank_reads_back_its_own_place(places: str) -> None:
    slots = plan.assign(parse_hosts(places))
    shared = (
        plan.job_environment({}, {})
        | plan.rendezvous_environment(("127.0.0.1", 99))
        | {"HVDLITE_SECRET": "ab" * 32}
    )
    for slot in slots:
        identity = discover(shared | plan.rank_environment(slot, several_hosts=True))
        assert (identity.rank, identity.size) == (slot.rank, slot.size)
        assert (identity.local_rank, identity.local_size) == (slot.local_rank, slot.local_size)
        assert (identity.cross_rank, identity.cross_size) == (slot.cross_rank, slot.cross_size)
        assert identity.rendezvous == ("127.0.0.1", 99)


def test_programs_that_read_horovods_variables_find_them() -> None:
    shared = plan.job_environment(
        {"A": "1", "PYTHONUNBUFFERED": ""}, {"B": "2"}
    ) | plan.rendezvous_environment(("::1", 99))
    assert shared["HVDLITE_RENDEZVOUS"] == "[::1]:99"
    assert shared["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "::1"
    assert shared["HOROVOD_GLOO_RENDEZVOUS_PORT"] == "99"
    assert (shared["A"], shared["B"], shared["PYTHONUNBUFFERED"]) == ("1", "2", "")
    own = plan.rank_environment(Slot("h", 3, 4, 1, 2, 1, 2), several_hosts=False)
    assert own["HOROVOD_RANK"] == own["HVDLITE_RANK"] == "3"
    assert own["HOROVOD_HOSTNAME"] == "h"
    assert "HVDLITE_HOST_ID" not in own


@pytest.mark.parametrize(
    ("environ", "flags", "chosen"),
    [
        ({}, {}, {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo"}),
        (
            {"HOROVOD_CPU_OPERATIONS": ""},
            {},
            {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo"},
        ),
        ({"HOROVOD_CPU_OPERATIONS": "mpi"}, {}, {"HOROVOD_CPU_OPERATIONS": "mpi"}),
        ({}, {"HVDLITE_CPU_OPERATIONS": "net"}, {"HVDLITE_CPU_OPERATIONS": "net"}),
    ],
)
def test_what_the_user_has_chosen_to_carry_tensors_stays(
    environ: dict[str, str], flags: dict[str, str], chosen: dict[str, str]
) -> None:
    shared = plan.job_environment(environ, flags)
    assert "HOROVOD_CONTROLLER" not in shared
    told = plan.without_mpi(shared)
    assert {
        name: value for name, value in told.items() if name.endswith(("_OPERATIONS", "_CONTROLLER"))
    } == chosen


def test_names_for_the_same_machine_pretend_to_be_hosts() -> None:
    own = plan.rank_environment(Slot("127.0.0.1", 0, 2, 0, 1, 0, 2), several_hosts=True)
    assert own["HVDLITE_HOST_ID"] == "127.0.0.1"


def test_a_job_within_a_job_does_not_inherit_the_outer_ones_secret() -> None:
    outer = {
        "HVDLITE_SECRET": "x",
        "HVDLITE_SECRET_FD": "9",
        "HVDLITE_RENDEZVOUS": "o:1",
        "KEPT": "1",
    }
    assert plan.job_environment(outer, {}).keys() & {*outer} == {"KEPT"}


def test_torchruns_variables_say_what_ours_say() -> None:
    slots = plan.assign(parse_hosts("a:2,b:1"))
    told = plan.torch_environment(slots, "run")
    names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE".split()
    assert [[told[rank][name] for name in names] for rank in range(3)] == [
        ["0", "3", "0", "2", "0", "2"],
        ["1", "3", "1", "2", "0", "2"],
        ["2", "3", "0", "1", "1", "2"],
    ]
    for slot in slots:
        ours = plan.rank_environment(slot, several_hosts=True)
        both = ours | told[slot.rank] | plan.torch_rendezvous("a", 20000)
        here = {"HVDLITE_RENDEZVOUS": "127.0.0.1:1", "HVDLITE_SECRET": "ab" * 32}
        assert discover(both | here).rank == discover(ours | here).rank == slot.rank


@pytest.mark.parametrize(
    ("name", "host"), [("a", "a"), ("me@node1", "node1"), ("[fd00::1]", "fd00::1")]
)
def test_the_host_of_rank_0_is_called_by_its_name_alone(name: str, host: str) -> None:
    assert plan.torch_host(name) == host


def test_what_belongs_to_this_machine_does_not_travel() -> None:
    stays = (
        "SSH_CONNECTION XDG_RUNTIME_DIR CUDA_VISIBLE_DEVICES BASH_FUNC_x%% OLDPWD HOSTNAME"
    ).split()
    goes = ["PATH", "HOME", "LD_LIBRARY_PATH", "NCCL_DEBUG", "MY_CUDA_FLAGS", "XDG_DATA_HOME"]
    assert plan.travelling(dict.fromkeys([*stays, *goes], "1")).keys() == {*goes}


# --- the command line


def _chosen(*given: str) -> dict[str, str]:
    return flags.chosen_knobs(flags.build_parser().parse_args([*given, "true"]))


def test_flags_set_our_variable_and_horovods() -> None:
    assert _chosen() == {}
    assert _chosen("--fusion-threshold-mb", "32") == {
        "HVDLITE_FUSION_THRESHOLD": "33554432",
        "HOROVOD_FUSION_THRESHOLD": "33554432",
    }
    assert _chosen("--cycle-time-ms", "20")["HOROVOD_CYCLE_TIME"] == "20.0"
    assert _chosen("--no-hierarchical-allreduce")["HOROVOD_HIERARCHICAL_ALLREDUCE"] == "0"
    assert _chosen("--hierarchical-allreduce")["HVDLITE_HIERARCHICAL_ALLREDUCE"] == "1"
    assert _chosen("--no-stall-check")["HOROVOD_STALL_CHECK_DISABLE"] == "1"
    assert _chosen("--stall-check")["HOROVOD_STALL_CHECK_DISABLE"] == "0"
    assert _chosen("--log-with-timestamp")["HOROVOD_LOG_HIDE_TIME"] == "0"
    assert _chosen("--log-level", "INFO")["HVDLITE_LOG_LEVEL"].lower() == "info"
    assert _chosen("--timeline-filename", "t.json")["HOROVOD_TIMELINE"] == "t.json"
    assert _chosen("--start-timeout", "7")["HVDLITE_START_TIMEOUT"] == "7.0"


def test_what_flags_set_is_what_resolve_reads() -> None:
    for knob in knobs.KNOBS:
        samples = {
            "int": "7",
            "float": "7",
            "str": "text",
            "choice": knob.choices[-1] if knob.choices else "",
        }
        if knob.flag is None:
            continue
        given = _chosen(knob.flag) if knob.is_switch else _chosen(knob.flag, samples[knob.type])
        value = knobs.resolve(given)[knob.field]
        expected = {"int": 7 * knob.flag_scale, "float": 7.0, "str": "text", "bool": True}
        assert value == (
            "on" if knob.is_switch and knob.type == "choice" else expected.get(knob.type, value)
        )


@pytest.mark.parametrize(
    ("line", "text"),
    {
        "true": "-np N is required",
        "-np 2": "no command given",
        "-np two true": "'two' is not a number of processes: expected a number such as 4, or auto",
        "-np 0 true": "-np 0 is not allowed",
        "--nproc-per-node 0 true": (
            "'0' is not a number of processes: expected a number such as 4, auto, gpu or cpu"
        ),
        "-np 2 --verbos true": "unrecognized arguments: --verbos (did you mean --verbose?)",
        "-np 2 --output-filname=d true": "(did you mean --output-filename?)",
        "-np 2 --timeline t.json true": "--timeline (did you mean --timeline-filename?)",
        "-np 2 --report python train.py": (
            "--report has taken 'python' for its file: name a file before the command, as in "
            "--report run.html python train.py"
        ),
        "-np 2 --output-filename python3 train.py": "--output-filename logs python3 train.py",
        "-np 2 --zzz true": "unrecognized arguments: --zzz (hvdliterun --help lists all options)",
        "-np 2 --torch-env --mpi true": "--torch-env is for ranks that hvdliterun itself starts",
        "-H a:2 --hostfile f true": "not allowed with argument",
        "-np 2 --hostfile no-such-file true": "cannot read no-such-file: No such file or directory",
        "-np 2 --config-file no-such-file true": (
            "cannot read no-such-file: No such file or directory"
        ),
        "-np 2 --min-np 3 true": "--min-np 3 is more than -np 2",
        "-np 2 --min-np none true": "'none' is not allowed: expected a whole number",
        "-np 2 --elastic-timeout -1 true": "'-1' is not allowed: expected seconds, more than 0",
        "-np 2 --gloo --mpi true": "not allowed with argument",
        "-np 2 -x NO_SUCH_VARIABLE true": "-x NO_SUCH_VARIABLE: there is no such variable here",
        "-np 2 -x 1=2 true": "-x '1=2' is not allowed",
        "-np 3 -H localhost:2 true": "-np 3 is more than the 2 slots",
        "-np 2 --cycle-time-ms fast true": "--cycle-time-ms='fast' is not allowed",
        "-np 2 --fusion-threshold-mb -1 true": "--fusion-threshold-mb",
        "-np 2 --log-level loud true": "one of trace, debug",
        "-np 2 --stall-check --no-stall-check true": "not allowed with argument",
        "-np 2 --no-such-flag true": "no-such-flag",
    }.items(),
)
def test_a_wrong_command_line_ends_with_status_2_and_says_why(
    line: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = cli.main(line.split())
    except SystemExit as end:
        status = int(str(end.code))
    assert status == 2
    assert text in capsys.readouterr().err


def test_a_bad_knob_in_the_environment_is_reported_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOROVOD_CYCLE_TIME", "fast")
    assert cli.main(["-np", "2", "true"]) == 2
    assert "HOROVOD_CYCLE_TIME='fast' is not allowed" in capsys.readouterr().err


def test_everything_after_the_command_belongs_to_it() -> None:
    parsed = flags.build_parser().parse_args(
        ["-np", "2", "python", "x.py", "-np", "3", "--verbose", "--", "-v"]
    )
    assert parsed.processes == 2 and not parsed.verbose
    assert parsed.command == ["python", "x.py", "-np", "3", "--verbose", "--", "-v"]


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hvdlite.launch", "--help"],
        capture_output=True,
        text=True,
        timeout=within(30),
        check=True,
    )
    assert "hvdliterun -np N" in done.stdout and "--fusion-threshold-mb" in done.stdout
    assert cli.main(["--version"]) == cli.main(["-v"]) == 0
    assert capsys.readouterr().out == f"{hvdlite.__version__}\n" * 2
