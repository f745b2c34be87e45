"""What other launchers print is taken apart: the ranks' output, and who failed. All texts were seen
on real runs."""

from __future__ import annotations

import pytest
from cases import cases

from hvdlite.launch.spawn import launcher_output
from hvdlite.launch.spawn.launcher_output import LAUNCHER, Cause, Tag, Untangler
from hvdlite.launch.spawn.other_launchers import ENDED, MpiFamily

OPEN_MPI_4 = launcher_output.open_mpi_tag("stdout", prrte=False)
OPEN_MPI_5 = launcher_output.open_mpi_tag("stdout", prrte=True)
HYDRA = launcher_output.hydra_tag("<7f3a>")


def _untangle(tag: Tag, text: bytes, step: int) -> dict[int, bytes]:
    untangler = Untangler(tag)
    whole: dict[int, bytes] = {}
    pieces = [
        piece for i in range(0, len(text), step) for piece in untangler.feed(text[i : i + step])
    ]
    for rank, data in [*pieces, *untangler.flush()]:
        whole[rank] = whole.get(rank, b"") + data
    return whole


OUTPUTS = {
    "open mpi 5": (
        OPEN_MPI_5,
        b"[1,0]<stdout>: out\n[1,11]<stdout>: a\rb\rcd\n[1,0]<stdout>: \n[1,0]<stdout>:  indented "
        b"\xff\n",
        {0: b"out\n\n indented \xff\n", 11: b"a\rb\rcd\n"},
    ),
    "open mpi 5, ends without newlines": (
        OPEN_MPI_5,
        b"[1,0]<stdout>: not yet[1,1]<stdout>: nor here",
        {0: b"not yet", 1: b"nor here"},
    ),
    "open mpi 4, lines in pieces": (
        OPEN_MPI_4,
        b"[1,1]<stdout>:a\rb[1,0]<stdout>:x[1,1]<stdout>:c\n[1,0]<stdout>:[0] [1,2 [1,\n",
        {0: b"x[0] [1,2 [1,\n", 1: b"a\rbc\n"},
    ),
    "open mpi speaks": (
        OPEN_MPI_5,
        b"-----\nprterun noticed\n[1,0]<stdout>: x\n[0,0]<stderr>:Sorry!\n",
        {0: b"x\n", LAUNCHER: b"-----\nprterun noticed\n[0,0]<stderr>:Sorry!\n"},
    ),
    "hydra": (
        HYDRA,
        b"<7f3a>0:out\n<7f3a>1:a\r<7f3a>0:b<7f3a>1:c\nEXIT CODE: 9\n<7f3a>0:[1] <7f <7f3a>: \n",
        {0: b"out\nb[1] <7f <7f3a>: \n", 1: b"a\rc\n", LAUNCHER: b"EXIT CODE: 9\n"},
    ),
    "hydra speaks where a rank has not ended its line": (
        HYDRA,
        b"<7f3a>0:[mpiexec: unfinished[mpiexec@vm] Exit codes: [vm] 0,0\n",
        {0: b"[mpiexec: unfinished", LAUNCHER: b"[mpiexec@vm] Exit codes: [vm] 0,0\n"},
    ),
    "hydra, a rank's shell tells how it has ended": (
        HYDRA,
        b"<7f3a>0:<7f3a>1000000:3\n<7f3a>1:unfinished<7f3a>1000001:9\n<7f3a>0:[mpiexec@vm] says\n",
        {
            0: b"[mpiexec@vm] says\n",
            1: b"unfinished",
            ENDED: b"3\n",
            ENDED + 1: b"9\n",
        },
    ),
    "hydra, what looks like a tag at the end": (
        HYDRA,
        b"<7f3a>0:ends with half a mark <7f",
        {0: b"ends with half a mark <7f"},
    ),
    "open mpi, what looks like a tag at the end": (
        OPEN_MPI_5,
        b"[1,0]<stdout>: x\n[1,",
        {0: b"x\n", LAUNCHER: b"[1,"},
    ),
    "srun": (
        launcher_output.SRUN_TAG,
        b"0: out\n 1: 0: text\n10: \nsrun: error: n2: task 1: Killed\n",
        {0: b"out\n", 1: b"0: text\n", 10: b"\n", LAUNCHER: b"srun: error: n2: task 1: Killed\n"},
    ),
    "srun, long lines": (
        launcher_output.SRUN_TAG,
        b"0: " + b"x" * 1024 + b"\n1: y\n0: " + b"x" * 1024 + b"\n0: \n0: " + b"z" * 1023 + b"\n",
        {0: b"x" * 2048 + b"\n" + b"z" * 1023 + b"\n", 1: b"y\n"},
    ),
}


@cases("tag, text, expected", OUTPUTS)
@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000, 100000])
def test_each_rank_gets_its_own_bytes_back(
    tag: Tag, text: bytes, expected: dict[int, bytes], step: int
) -> None:
    assert _untangle(tag, text, step) == expected


def test_order_within_a_piece_is_kept() -> None:
    assert Untangler(HYDRA).feed(b"<7f3a>0:a\n<7f3a>1:b\n<7f3a>0:c\n") == [
        (0, b"a\n"),
        (1, b"b\n"),
        (0, b"c\n"),
    ]


# --- who failed


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "prterun noticed that process rank 1 with PID 16826 on node vm exited on\nsignal 9 "
            "(Killed).\n",
            [Cause(1, "vm", signal=9)],
        ),
        (
            "mpirun.openmpi noticed that process rank 12 with PID 0 on node vm exited on signal 11 "
            "(Segmentation fault).",
            [Cause(12, "vm", signal=11)],
        ),
        ("   Process name: [prterun-vm-16600@1,1]\n   Exit code:    3\n", [Cause(1, code=3)]),
        ("  Process name: [[9279,1],1]\n  Exit code:    3\n", [Cause(1, code=3)]),
        ("ssh: Could not resolve hostname a1: Name or service not known", []),
    ],
)
def test_open_mpi_names_the_first(words: str, expected: list[Cause]) -> None:
    assert launcher_output.open_mpi_causes(words) == expected


@pytest.mark.parametrize(
    ("words", "family", "expected"),
    [
        ("[mpiexec@vm] Exit codes: [vm] 0,0\n", MpiFamily.MPICH, []),
        ("[mpiexec@vm] Exit codes: [vm] 0,768\n", MpiFamily.MPICH, [Cause(1, "vm", code=3)]),
        (
            "[mpiexec@vm] Exit codes: [vm] 256,768\n",
            MpiFamily.MPICH,
            [Cause(0, "vm", code=1), Cause(1, "vm", code=3)],
        ),
        (
            "[mpiexec@vm] Exit codes: [vm] 9,11\nYOUR\n",
            MpiFamily.MPICH,
            [Cause(1, "vm", signal=11)],
        ),
        ("[mpiexec@vm] Exit codes: [vm] 9,9\n", MpiFamily.MPICH, [Cause(None, signal=9)]),
        ("[mpiexec@vm] Exit codes: [vm] 0,9\n", MpiFamily.MPICH, [Cause(1, "vm", signal=9)]),
        ("[mpiexec@vm] Exit codes: [a] 0,0\n[b] 512\n", MpiFamily.MPICH, [Cause(2, "b", code=2)]),
        (
            "[mpiexec@vm] Exit codes: [localhost:0] 0,3\n",
            MpiFamily.INTEL,
            [Cause(1, "localhost", code=3)],
        ),
        (
            "[mpiexec@vm] Exit codes: [localhost:0] 137,0\n",
            MpiFamily.INTEL,
            [Cause(0, "localhost", signal=9)],
        ),
        ("execvp error on file nosuch", MpiFamily.MPICH, []),
    ],
)
def test_hydra_lists_all(words: str, family: MpiFamily, expected: list[Cause]) -> None:
    assert launcher_output.hydra_causes(words, family) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("3\n", Cause(1, code=3)),
        ("137\n", Cause(1, signal=9)),
        ("200\n", Cause(1, code=200)),
        ("something else\n", None),
    ],
)
def test_the_shell_of_a_rank_of_hydra_tells_its_status(words: str, expected: Cause | None) -> None:
    assert launcher_output.cause_of_shell(1, words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("srun: error: n2: task 1: Exited with exit code 3\n", [Cause(1, "n2", code=3)]),
        ("srun: error: n2: tasks 1-2: Exited with exit code 1\n", [Cause(1, "n2", code=1)]),
        (
            "srun: error: n1: task 0: Segmentation fault (core dumped)\n",
            [Cause(0, "n1", signal=11)],
        ),
        (
            "srun: error: n2: task 1: Killed\nsrun: launch/slurm: _step_signal: Terminating "
            "StepId=4.0\n"
            "srun: error: n1: task 0: Terminated\n",
            [Cause(1, "n2", signal=9)],
        ),
        (
            "srun: error: Unable to create step for job 3: More processors requested than "
            "permitted\n",
            [],
        ),
    ],
)
def test_srun_reports_until_it_ends_the_others(words: str, expected: list[Cause]) -> None:
    assert launcher_output.srun_causes(words) == expected
