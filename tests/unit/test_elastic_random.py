"""Random histories of an elastic job, checked by a pretended world (elastic_world.py).

Generations ascend, with one source, and rank 0 is a survivor. There are never fewer members than
the minimum, no two in one slot, and always an end.
"""

from __future__ import annotations

import random
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from elastic_histories import histories, seeded
from elastic_world import live

CHUNK = 1000


def lived(seeds: list[int]) -> tuple[int, int]:
    """How many generations these histories have had, and how many of them have ended well."""
    generations = ended_well = 0
    for seed in seeds:
        try:
            world = live(random.Random(seed))
        except Exception as error:
            raise AssertionError(f"the history of seed {seed}: {error!r}") from error
        generations += world.assignment.generation if world.assignment else 0
        ended_well += world.end is not None and world.end.status == 0
    return generations, ended_well


def test_any_history_keeps_the_promises_and_ends() -> None:
    rng = seeded("histories of the driver")
    count = histories(2 * CHUNK, 1_000_000)
    chunks = [[rng.getrandbits(64) for _ in range(CHUNK)] for _ in range(count // CHUNK)]
    if len(chunks) < 10:
        results = list(map(lived, chunks))
    else:
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            results = list(pool.map(lived, chunks))
    generations, ended_well = map(sum, zip(*results, strict=True))
    assert generations > count and ended_well > count // 10  # or the histories try nothing
