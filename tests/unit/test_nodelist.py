"""Slurm's way of writing nodes and tasks, read back."""

from __future__ import annotations

import random
import string

import pytest

from hvdlite.launch.nodelist import expand, tasks_per_node


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("n1", ["n1"]),
        ("n1,n2", ["n1", "n2"]),
        ("n[1-2,7],m03", ["n1", "n2", "n7", "m03"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("n[1-2]-ib,login", ["n1-ib", "n2-ib", "login"]),
        ("r[1-2]n[1,3]", ["r1n1", "r1n3", "r2n1", "r2n3"]),
        ("r[1-2][0-1]", ["r10", "r11", "r20", "r21"]),
        ("a.example.org, b.example.org", ["a.example.org", "b.example.org"]),
        ("n[2,1]", ["n2", "n1"]),  # Slurm's order is the order of the ranks
    ],
)
def test_nodes(text: str, nodes: list[str]) -> None:
    assert expand(text) == nodes


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("n1,,n2", "empty"),
        ("n 1", "space"),
        ("n[1-2", "brackets do not match"),
        ("n1-2]", "brackets do not match"),
        ("n[[1]]", "brackets do not match"),
        ("n[]", "neither a number nor a range"),
        ("n[1-]", "neither a number nor a range"),
        ("n[a-c]", "neither a number nor a range"),
        ("n[1,]", "neither a number nor a range"),
        ("n[1 - 2]", "space"),
        ("n[3-1]", "runs backwards"),
        ("n[1-999999999]", "more than 65536"),
        ("n[1-999][1-999]", "more than 65536"),
    ],
)
def test_what_is_no_node_list_is_an_error_that_repeats_it(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as error:
        expand(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize(
    ("text", "counts"),
    [("1", [1]), ("2,1", [2, 1]), ("1(x2)", [1, 1]), ("2(x3),1", [2, 2, 2, 1]), ("0,3", [0, 3])],
)
def test_tasks(text: str, counts: list[int]) -> None:
    assert tasks_per_node(text) == counts


@pytest.mark.parametrize("text", ["", "x", "2(3)", "2(x)", "2(x3", "-1", "2,,1", "1(x99999999)"])
def test_what_is_no_count_of_tasks_is_an_error_that_repeats_it(text: str) -> None:
    with pytest.raises(ValueError, match="Invalid tasks per node") as error:
        tasks_per_node(text)
    assert repr(text) in str(error.value)


def _written(nodes: list[tuple[str, int, int]], dice: random.Random) -> str:
    """The same nodes as Slurm may write them: neighbours with one prefix and width share a bracket,
    or do not."""
    entries: list[str] = []
    position = 0
    while position < len(nodes):
        prefix, width, _ = nodes[position]
        end = position + 1
        while end < len(nodes) and nodes[end][:2] == (prefix, width) and dice.random() < 0.8:
            end += 1
        numbers = [number for _, _, number in nodes[position:end]]
        ranges: list[str] = []
        while numbers:
            run = 1
            while run < len(numbers) and numbers[run] == numbers[0] + run:
                run += 1
            first, last = (str(n).zfill(width) for n in (numbers[0], numbers[run - 1]))
            ranges.append(first if run == 1 else f"{first}-{last}")
            numbers = numbers[run:]
        bare = len(ranges) == 1 and "-" not in ranges[0]
        entries.append(prefix + (ranges[0] if bare else f"[{','.join(ranges)}]"))
        position = end
    return ",".join(entries)


def test_whatever_is_written_is_read_back() -> None:
    dice = random.Random(1)
    for _ in range(500):
        prefixes = ["".join(dice.choices(string.ascii_lowercase + "-", k=3)) for _ in range(2)]
        nodes = [
            (dice.choice(prefixes), dice.choice([1, 3]), dice.randrange(12))
            for _ in range(dice.randint(1, 12))
        ]
        assert expand(_written(nodes, dice)) == [f"{p}{str(n).zfill(w)}" for p, w, n in nodes]


def test_whatever_counts_are_written_are_read_back() -> None:
    dice = random.Random(2)
    for _ in range(200):
        runs = [(dice.randrange(9), dice.randint(1, 5)) for _ in range(dice.randint(1, 6))]
        text = ",".join(str(tasks) if times == 1 else f"{tasks}(x{times})" for tasks, times in runs)
        assert tasks_per_node(text) == [tasks for tasks, times in runs for _ in range(times)]


def test_noise_is_read_or_refused_and_nothing_else() -> None:
    dice = random.Random(3)
    for _ in range(3000):
        text = "".join(dice.choices("n1[]-,x( )0", k=dice.randint(0, 12)))
        for read in (expand, tasks_per_node):
            try:
                assert read(text)
            except ValueError:
                pass
