"""horovodrun's flags and its YAML file: accepted with the same meaning, or a line that says why
not."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from hvdlite.launch import cli, flags
from hvdlite.launch.elastic import options as elastic_options
from hvdlite.launch.hosts import Host, Launcher
from hvdlite.launch.machine import Machine
from hvdlite.launch.spawn import local

# COMPAT's table: every flag of horovodrun with a value it takes.
HOROVODRUN = (
    "--disable-cache|--start-timeout 9|--network-interfaces a,b|--network-interface a|"
    "--output-filename d|--verbose|-p 22|--ssh-port 22|-i k|--ssh-identity-file k|"
    "--fusion-threshold-mb 32|--cycle-time-ms 2.5|--cache-capacity 9|--hierarchical-allreduce|"
    "--no-hierarchical-allreduce|--hierarchical-allgather|--no-hierarchical-allgather|"
    "--torus-allreduce|--no-torus-allreduce|--autotune|--no-autotune|--autotune-log-file f|"
    "--autotune-warmup-samples 3|--autotune-steps-per-sample 3|--autotune-bayes-opt-max-samples 3|"
    "--autotune-gaussian-process-noise 0.5|--min-np 1|--min-num-proc 1|--max-np 9|"
    "--max-num-proc 9|--slots-per-host 2|--elastic-timeout 9|--reset-limit 9|"
    "--blacklist-cooldown-range 1 9|--timeline-filename f|--timeline-mark-cycles|"
    "--no-timeline-mark-cycles|--no-stall-check|--stall-check|"
    "--stall-check-warning-time-seconds 9|--stall-check-shutdown-time-seconds 9|"
    "--mpi-threads-disable|--no-mpi-threads-disable|--mpi-args=-a|--tcp|--binding-args=-b|"
    "--num-nccl-streams 2|--thread-affinity 1|--gloo-timeout-seconds 9|--log-level INFO|"
    "--log-with-timestamp|--log-without-timestamp|-prefix-timestamp|"
    "--prefix-output-with-timestamp|--log-hide-timestamp|--no-log-hide-timestamp|-H a:2|"
    "--hosts a:2|-hostfile f|--hostfile f|--host-discovery-script s|--gloo|--mpi|--jsrun|-np 2|"
    "--num-proc 2"
).split("|")


MACHINE = Machine(cores=6, gpus=2)


def _parse(line: str, *more: str) -> argparse.Namespace:
    return cli.read_arguments([*line.split(), *more, "python", "train.py"])


def _understand(line: str = "", environ: dict[str, str] | None = None) -> cli.JobRequest:
    return cli.understand(
        _parse(line), environ or {}, {"f": "a slots=2\nb\n"}.__getitem__, lambda _: MACHINE
    )


@pytest.mark.parametrize("flag", HOROVODRUN)
def test_every_flag_of_horovodrun_is_understood(flag: str) -> None:
    arguments = _parse(flag)
    assert arguments.command == ["python", "train.py"]
    if flag.split()[0] in ("-np", "--num-proc", "-H", "--hosts", "-hostfile", "--hostfile"):
        assert _understand(flag).command == ["python", "train.py"]
    else:
        request = _understand(f"-np 2 {flag}")
        without = flags.without_effect(arguments)
        assert len(request.warnings) == len(without) + (
            0 if request.elastic else len(elastic_options.flags_given(arguments))
        )
        assert all("has no effect: " in note for note in request.warnings)


@pytest.mark.parametrize("flags", ["", "--host-discovery-script mine"])
def test_the_mpi_operators_script_names_the_hosts_of_an_elastic_job(flags: str) -> None:
    files = {"/etc/mpi/hostfile": "a slots=2\nb slots=2\n", "/etc/mpi/discover_hosts.sh": "#!"}
    words = _parse(f"-np 4 --min-np 2 {flags}")
    environ = {"K_MPI_JOB_ROLE": "launcher"}
    elastic = cli.understand(words, environ, files.__getitem__, lambda _: MACHINE).elastic
    assert elastic is not None
    assert elastic.script == ("mine" if flags else "/etc/mpi/discover_hosts.sh")


def test_what_does_nothing_says_why() -> None:
    noise = "--autotune-gaussian-process-noise 0.5"
    notes = _understand(f"-np 1 --autotune {noise} --reset-limit 3").warnings
    assert len(notes) == 2 and notes[0].startswith(
        "--autotune-gaussian-process-noise has no effect: hvdlite's autotuning compares"
    )


def test_a_variable_that_means_nothing_is_told_before_a_rank_starts() -> None:
    environ = {"HVDLITE_FUSION_TRESHOLD": "1", "HVDLITE_SECRET": "x"}
    request = _understand("-np 1 -x HVDLITE_CYCLE_TIMES=1", environ)
    assert [note.split(" is set")[0] for note in request.warnings] == [
        "HVDLITE_CYCLE_TIMES",
        "HVDLITE_FUSION_TRESHOLD",
    ]


def test_a_minimum_or_a_script_makes_a_job_elastic() -> None:
    assert _understand("-np 4").elastic is None
    elastic = _understand("-np 4 --min-np 2 --reset-limit 3 --failure-unit host").elastic
    assert (
        elastic is not None and elastic.hosts == [Host("localhost", 4)] and elastic.script is None
    )
    assert (elastic.policy.processes, elastic.policy.least, elastic.policy.most) == (4, 2, None)
    policy = elastic.policy
    assert (policy.reset_limit, policy.failure_unit, policy.elastic_timeout) == (3, "host", 600.0)
    elastic = _understand("-np 2 --host-discovery-script ./hosts.sh --slots-per-host 3").elastic
    assert elastic is not None and elastic.policy.least == 2
    assert (elastic.script, elastic.slots_per_host) == ("./hosts.sh", 3)
    elastic = _understand("--min-np 1 -H localhost:3 --max-np 5").elastic
    assert elastic is not None
    assert (elastic.policy.processes, elastic.policy.least, elastic.policy.most) == (3, 1, 5)


def test_spares_have_slots_beyond_the_ranks() -> None:
    elastic = _understand("-np 2 --min-np 1 --spares 3").elastic
    assert elastic is not None and elastic.hosts == [Host("localhost", 5)]
    assert (elastic.policy.spares, elastic.policy.most) == (3, 2)
    elastic = _understand("-np 2 --min-np 1 --max-np 3 --spares 1 -H localhost:4").elastic
    assert elastic is not None and (elastic.policy.spares, elastic.policy.most) == (1, 3)


@pytest.mark.parametrize(
    ("words", "said"),
    {
        "-np 2 --min-np 1 --spares 1 -H localhost:2": (
            "-np 2 and --spares 1 need 3 slots; the hosts have 2"
        ),
        "-np 2 --min-np 3": "--min-np 3 is more than -np 2",
        "-np 2 --min-np 1 --max-np 1": "--max-np 1 is less than -np 2",
        "-np 3 --min-np 1 -H localhost:2": "-np 3 is more than the 2 slots",
        "--host-discovery-script s": "-np N is required",
        "-np 2 --min-np 1 --mpi": "hvdliterun itself starts the ranks of an elastic job",
        "-np 2 --min-np 1 --blacklist-cooldown-range 9 1": "MIN is more than MAX",
    }.items(),
)
def test_what_an_elastic_job_cannot_be(words: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        _understand(words)


def test_hosts_come_from_the_flag_or_the_file_or_the_batch_system() -> None:
    assert [h.name for h in _understand("-np 4").hosts] == ["localhost"]
    assert [h.name for h in _understand("-H x:1,y:1").hosts] == ["x", "y"]
    assert [(h.name, h.slots) for h in _understand("--hostfile f --slots-per-host 3").hosts] == [
        ("a", 2),
        ("b", 3),
    ]
    lsf = {"LSB_JOBID": "1", "LSB_MCPU_HOSTS": "a 2 b 2"}
    request = _understand(environ=lsf)
    assert [h.name for h in request.hosts] == ["a", "b"] and request.processes is None
    assert request.hosts_from == "hosts from LSF (LSB_MCPU_HOSTS): a:2,b:2"
    assert [h.name for h in _understand("-np 1 -H z:1", environ=lsf).hosts] == ["z"]


@pytest.mark.parametrize(("flags_", "seconds"), [((), 5.0), (("--grace-seconds", "0.5"), 0.5)])
def test_the_grace_period_reaches_whoever_starts_the_ranks(
    monkeypatch: pytest.MonkeyPatch, flags_: tuple[str, ...], seconds: float
) -> None:
    told: list[object] = []

    def start(*given: object, **_: object) -> None:
        told.extend(given)
        raise OSError("enough")

    monkeypatch.setattr(local, "start", start)
    assert cli.main(["-np", "1", *flags_, "true"]) == 1
    assert told[-1] == seconds


@pytest.mark.parametrize(
    ("mode", "way"), [("--mpi", "--bind-to core"), ("--srun", "--cpu-bind"), ("--jsrun", "--bind=")]
)
def test_binding_ranks_that_others_start_is_refused_with_their_way(mode: str, way: str) -> None:
    with pytest.raises(ValueError, match=f"--bind core .*{way}"):
        _understand(f"-np 2 {mode} --bind core")
    assert _understand(f"-np 2 {mode} --bind none").command


def test_variables_are_set_for_all_ranks() -> None:
    request = _understand("-np 1 -x A=1=2 -x B", environ={"B": "b"})
    assert request.environment == {"A": "1=2", "B": "b"}
    assert _understand("-np 1 --tcp").environment == {"NCCL_IB_DISABLE": "1"}


def test_interfaces_given_one_by_one_and_in_a_list_are_the_same() -> None:
    expected = {"HVDLITE_NETWORK_INTERFACES": "a,b", "HOROVOD_GLOO_IFACE": "a,b"}
    assert _understand("-np 1 --network-interfaces a,b").environment == expected
    one_by_one = _understand("-np 1 --network-interface a --network-interface b")
    assert one_by_one.environment == expected


# --- the file

FILE = """
controller: gloo
params: {fusion_threshold_mb: 32, cycle_time_ms: 10, cache_capacity: 2048,
  hierarchical_allreduce: true, hierarchical_allgather: true, torus_allreduce: false}
autotune: {enabled: true, log_file: f.txt, warmup_samples: 5, steps_per_sample: 20,
  bayes_opt_max_samples: 50, gaussian_process_noise: 0.9}
timeline: {filename: f.json, mark_cycles: true}
stall_check: {enabled: true, warning_time_seconds: 120, shutdown_time_seconds: 240}
library_options: {mpi_threads_disable: true, num_nccl_streams: 2, thread_affinity: 1,
  gloo_timeout_seconds: 60}
logging: {level: INFO, with_timestamp: false, hide_timestamp: true}
"""


def test_a_file_says_what_flags_would_say(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(FILE)
    read = cli.read_arguments(
        ["-np", "2", "--config-file", str(path), "--cycle-time-ms", "3", "true"]
    )
    by_flags = cli.read_arguments(
        "-np 2 --gloo --fusion-threshold-mb 32 --cycle-time-ms 3 --cache-capacity 2048 "
        "--hierarchical-allreduce --no-torus-allreduce --timeline-filename f.json "
        "--timeline-mark-cycles --stall-check --stall-check-warning-time-seconds 120 "
        "--stall-check-shutdown-time-seconds 240 --mpi-threads-disable --thread-affinity 1 "
        "--log-level INFO --log-without-timestamp --autotune --autotune-log-file f.txt "
        "--autotune-warmup-samples 5 --autotune-steps-per-sample 20 true".split()
    )
    assert flags.chosen_knobs(read) == flags.chosen_knobs(by_flags)
    assert read.mode == by_flags.mode == Launcher.HVDLITERUN
    named = {each.flags[0] for each in flags.without_effect(read)}
    assert {"--num-nccl-streams", "--hierarchical-allgather"} <= named
    assert {"--autotune-bayes-opt-max-samples", "--autotune-gaussian-process-noise"} <= named
    path.write_text("params: {hierarchical_allgather: false}\n")
    read = cli.read_arguments(["-np", "2", "--config-file", str(path), "true"])
    assert flags.without_effect(read) == []


@pytest.mark.parametrize(
    ("content", "text"),
    {
        "parms: {}": "there is no section 'parms', only autotune, controller, library_options",
        "params: {cycle_time: 1}": "params has no key 'cycle_time', only cache_capacity",
        "params: {cycle_time_ms: fast}": "cycle_time_ms='fast' is not allowed: expected a number",
        "params: {fusion_threshold_mb: -1}": "fusion_threshold_mb: '-1' is not a whole number",
        "params: 3": "params has to be a mapping of cache_capacity",
        "timeline: {filename: [a]}": "filename=['a'] is not allowed: expected a text or a number",
        "timeline: {mark_cycles: 2}": "mark_cycles=2 is not allowed: expected true or false",
        "controller: pigeon": "controller: 'pigeon' is not allowed: expected one of gloo, mpi",
        "logging: {level: loud}": "logging.level='loud' is not allowed: expected one of trace",
    }.items(),
)
def test_a_bad_file_names_the_key_and_what_is_allowed(
    content: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match="c.yaml") as error:
        flags.apply_config(flags.load_config(str(path)), _parse("-np 1"), "c.yaml")
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("words", "hosts", "processes", "note"),
    [
        ("-np auto", "localhost:2", None, "-np auto: 2 ranks, one for each GPU of this host."),
        ("--nproc-per-node auto", "localhost:2", None, "--nproc-per-node auto: 2 ranks, one for "
                                                       "each GPU of this host."),
        ("--nproc_per_node=cpu", "localhost:6", None, "--nproc-per-node cpu: 6 ranks, one for each "
                                                      "core that may be used here."),
        ("--np 2", "localhost:2", 2, None),
        ("--nproc-per-node 3", "localhost:3", None, None),
        ("--nproc-per-node 3 -np 2", "localhost:3", 2, None),
        ("-H a,b --nproc-per-node 4", "a:4,b:4", None, None),
        ("-H a,b --nproc-per-node gpu", "a:2,b:2", None, "--nproc-per-node gpu: 2 ranks on each "
                                                         "host, one for each GPU of this host."),
        ("-H a:3,b:1 -np auto", "a:3,b:1", None, None),
    ],
)  # fmt: skip
def test_how_many_ranks_can_be_left_to_the_machine(
    words: str, hosts: str, processes: int | None, note: str | None
) -> None:
    request = _understand(words)
    assert ",".join(f"{host.name}:{host.slots}" for host in request.hosts) == hosts
    assert request.processes == processes
    assert request.warnings == ([note] if note else [])


def test_a_file_that_is_no_mapping_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    for text, why in (
        ("a: [", "is not YAML"),
        ("- 1", "expected sections"),
        ("just words", "expected sections"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=why):
            flags.load_config(str(path))
    path.write_text("# nothing\n")
    assert flags.load_config(str(path)) == {}


def test_what_a_shell_could_not_read_is_refused_with_its_flag(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for flag in ("--ssh-args", "--mpi-args", "--binding-args"):
        with pytest.raises(SystemExit):
            _parse("-np 1", f"{flag}=-o 'a")
        assert f'argument {flag}: "-o \'a": No closing quotation' in capsys.readouterr().err


def test_files_that_flags_name_may_begin_with_a_mark_and_have_to_be_text(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_bytes(b"\xef\xbb\xbfnode1:2\r\n")
    assert flags.read_text(str(path)) == "node1:2\n"
    path.write_bytes(b"node\xff\n")
    with pytest.raises(ValueError, match="hosts is not a text in UTF-8: .* position 4"):
        flags.read_text(str(path))
