"""Host lists as people and batch systems write them."""

from __future__ import annotations

import pytest

from hvdlite.launch.hosts import FoundHosts, Host, from_environment, parse_hostfile, parse_hosts


def test_hosts_are_read_as_horovodrun_reads_them() -> None:
    assert parse_hosts("localhost:4") == [Host("localhost", 4)]
    assert parse_hosts("a:1, b-2.c:10") == [Host("a", 1), Host("b-2.c", 10)]
    assert parse_hosts("a") == [Host("a", 1)]


def test_addresses_and_users_are_hosts_too() -> None:
    assert parse_hosts("10.0.0.1:2,[fd00::1]:3,[::1],me@far:1") == [
        Host("10.0.0.1", 2),
        Host("[fd00::1]", 3),
        Host("[::1]", 1),
        Host("me@far", 1),
    ]


@pytest.mark.parametrize(
    "text", ["", "a:", "a:0", "a:x", "a:1,", "a b:1", "a:-1", "fd00::1:2", "-oProxyCommand:1", "-v"]
)
def test_a_bad_host_list_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="Invalid host input"):
        parse_hosts(text)


def test_a_host_listed_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="'a' is listed twice in -H"):
        parse_hosts("a:1,b:1,a:2")


def test_a_hostfile_may_be_written_in_three_ways() -> None:
    text = """# my hosts
    node1 slots=4      # the big one
    node2:2

    node3
    worker-0.job.ns.svc slots=8 max_slots=16
    [fd00::2]:3
    """
    assert parse_hostfile(text, "f") == [
        Host("node1", 4),
        Host("node2", 2),
        Host("node3", 1),
        Host("worker-0.job.ns.svc", 8),
        Host("[fd00::2]", 3),
    ]
    assert parse_hostfile("a\nb:1\nc max_slots=9", "f", slots_per_host=6) == [
        Host("a", 6),
        Host("b", 1),
        Host("c", 6),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "node slots=",
        "node slots=x",
        "node slots=0",
        "node slots=2 slots=3",
        "node:0",
        "node 4",
        "a b",
        "no/de",
        "-x",
    ],
)
def test_a_bad_line_is_named_with_file_and_number(line: str) -> None:
    with pytest.raises(ValueError, match=r"^hosts\.txt, line 2: .* is not a host; expected"):
        parse_hostfile(f"fine\n{line}\n", "hosts.txt")


def test_an_empty_hostfile_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"hosts\.txt lists no host"):
        parse_hostfile("# nothing\n\n", "hosts.txt")
    with pytest.raises(ValueError, match=r"'a' is listed twice in hosts\.txt"):
        parse_hostfile("a\nb\na", "hosts.txt")


FILES = {"/etc/mpi/hostfile": "w-0.svc slots=2\nw-1.svc slots=2\n", "/else": "w-0.svc\nw-1.svc:3\n"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        (
            {"LSB_JOBID": "1", "LSB_MCPU_HOSTS": "a 2 b 3"},
            FoundHosts([Host("a", 2), Host("b", 3)], "LSF (LSB_MCPU_HOSTS)"),
        ),
        ({"LSB_MCPU_HOSTS": "a 2"}, None),
        (
            {
                "SLURM_JOB_ID": "1",
                "SLURM_JOB_NODELIST": "n[1-2],m",
                "SLURM_TASKS_PER_NODE": "2(x2),1",
            },
            FoundHosts([Host("n1", 2), Host("n2", 2), Host("m", 1)], "Slurm (SLURM_JOB_NODELIST)"),
        ),
        (
            {
                "SLURM_JOB_ID": "1",
                "SLURM_JOB_NODELIST": "n[1-2]",
                "SLURM_STEP_ID": "0",
                "SLURM_TASKS_PER_NODE": "1",
                "SLURM_JOB_CPUS_PER_NODE": "2,1",
            },
            FoundHosts([Host("n1", 2), Host("n2", 1)], "Slurm (SLURM_JOB_NODELIST)"),
        ),
        ({"SLURM_JOB_NODELIST": "n1"}, None),
        (
            {"K_MPI_JOB_ROLE": "launcher"},
            FoundHosts(
                [Host("w-0.svc", 2), Host("w-1.svc", 2)], "the MPI Operator (/etc/mpi/hostfile)"
            ),
        ),
        (
            {"K_MPI_JOB_ROLE": "launcher", "HYDRA_HOST_FILE": "/else", "I_MPI_PERHOST": "5"},
            FoundHosts([Host("w-0.svc", 5), Host("w-1.svc", 3)], "the MPI Operator (/else)"),
        ),
        ({"K_MPI_JOB_ROLE": "worker"}, None),
    ],
)
def test_batch_systems_say_which_hosts_a_job_has(
    environ: dict[str, str], expected: FoundHosts | None
) -> None:
    assert from_environment(environ, FILES.__getitem__) == expected


def test_what_a_batch_system_says_must_make_sense() -> None:
    with pytest.raises(ValueError, match="expected a count after every host"):
        from_environment({"LSB_JOBID": "1", "LSB_MCPU_HOSTS": "a 2 b"}, FILES.__getitem__)
    with pytest.raises(ValueError, match=r"SLURM_TASKS_PER_NODE=1 has counts for 1"):
        slurm = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "1"}
        from_environment(slurm, FILES.__getitem__)
