"""Parses Slurm's notation of nodes and tasks: `n[1-2,07],m03` and `2(x3),1`. Pure."""

from __future__ import annotations

import re

# Slurm's own limit is 65 536 nodes. A typing error such as n[1-999999999] must not fill the memory.
_MOST = 1 << 16


def expand(text: str) -> list[str]:
    """Returns the nodes in the written order: `n[1-2,07]-ib,m03` is n1-ib, n2-ib, n07-ib and m03.

    Keeps leading zeros. An entry may have several brackets. Raises ValueError for anything else.
    """
    nodes: list[str] = []
    for entry in _split(text.strip(), text):
        names = [""]
        for literal, ranges in re.findall(r"([^\[\]]+)|\[([^\[\]]*)\]", entry):
            endings = [literal] if literal else _numbers(ranges, text)
            if len(nodes) + len(names) * len(endings) > _MOST:
                raise _invalid(text, f"more than {_MOST} nodes")
            names = [name + ending for name in names for ending in endings]
        nodes += names
    return nodes


def tasks_per_node(text: str) -> list[int]:
    """Returns how many tasks each node has: `2(x3),1` is 2, 2, 2 and 1. Raises ValueError for
    anything else."""
    counts: list[int] = []
    for entry in text.split(","):
        match = re.fullmatch(r"([0-9]+)(?:\(x([0-9]+)\))?", entry.strip())
        if match is None:
            raise ValueError(f"Invalid tasks per node {text!r}: expected counts as in 2(x3),1.")
        times = int(match.group(2) or 1)
        if len(counts) + times > _MOST:
            raise ValueError(f"Invalid tasks per node {text!r}: more than {_MOST} nodes.")
        counts += [int(match.group(1))] * times
    return counts


def _split(entries: str, text: str) -> list[str]:
    """Splits at the commas outside brackets."""
    parts, depth = [""], 0
    for character in entries:
        depth += (character == "[") - (character == "]")
        if depth not in (0, 1):
            raise _invalid(text, "the brackets do not match")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    if depth:
        raise _invalid(text, "the brackets do not match")
    parts = [part.strip() for part in parts]
    if not all(parts) or any(re.search(r"\s", part) for part in parts):
        raise _invalid(text, "a name is empty or has a space in it")
    return parts


def _numbers(ranges: str, text: str) -> list[str]:
    """Parses the text between brackets: `1-2,07`."""
    found: list[str] = []
    for piece in ranges.split(","):
        match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", piece)
        if match is None:
            raise _invalid(text, f"{piece!r} is neither a number nor a range")
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) < int(first):
            raise _invalid(text, f"the range {piece!r} runs backwards")
        if len(found) + int(last) - int(first) >= _MOST:
            raise _invalid(text, f"more than {_MOST} nodes")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


def _invalid(text: str, why: str) -> ValueError:
    return ValueError(f"Invalid node list {text!r}: {why}; expected names as in n[1-2,07],m03.")
