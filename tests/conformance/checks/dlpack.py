"""Anything with __dlpack__ is a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

import hvdlite as hvd
from checks import check
from checks.here import MAX, SUM, Here, raises, reference


class Borrowed:
    """A framework of the smallest kind: numpy's memory behind DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **how: Any) -> Any:
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class Old(Borrowed):
    """DLPack before 1.0: no keywords but `stream`."""

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__()


@check()
def every_collective_takes_it(here: Here) -> None:
    for kind in (Borrowed, Old):
        inputs = here.everyones("float32", (2 * here.size, 3))
        mine = kind(inputs[here.rank])
        here.close(np.asarray(hvd.allreduce(mine, op=SUM)), reference(inputs, SUM))
        here.close(
            np.asarray(hvd.synchronize(hvd.allreduce_async(mine, op=MAX))), reference(inputs, MAX)
        )
        here.close(np.asarray(hvd.allgather(mine)), np.concatenate(inputs), exact=True)
        here.close(np.asarray(hvd.broadcast(mine, here.size - 1)), inputs[-1], exact=True)
        assert np.asarray(hvd.alltoall(mine)).shape == (2 * here.size, 3)
        got = np.asarray(hvd.reducescatter(mine, op=SUM))
        here.close(got, reference(inputs, SUM)[2 * here.rank : 2 * here.rank + 2])
        both = hvd.grouped_allreduce([mine, inputs[here.rank]], op=SUM)
        for each in both:
            here.close(np.asarray(each), reference(inputs, SUM))


@check()
def in_place_writes_into_the_lent_memory(here: Here) -> None:
    inputs = here.everyones("int32", (1000,))
    memory = inputs[here.rank].copy()
    mine = Borrowed(memory)
    assert hvd.allreduce_(mine, op=SUM) is mine
    here.close(memory, reference(inputs, SUM))
    memory[:] = inputs[here.rank]
    hvd.broadcast_(mine, 0)
    here.close(memory, inputs[0])
    memory[:] = inputs[here.rank]
    hvd.grouped_allreduce_([mine], op=SUM)
    here.close(memory, reference(inputs, SUM))


@check()
def the_memory_is_given_back(here: Here) -> None:
    import gc
    import sys

    memory = np.ones(10)
    before = sys.getrefcount(memory)
    for _ in range(10):
        hvd.allreduce(Borrowed(memory), op=SUM)
        hvd.synchronize(hvd.allreduce_async(Borrowed(memory), op=SUM))
    gc.collect()
    assert sys.getrefcount(memory) == before


@check()
def read_only_memory_is_read_but_not_written(here: Here) -> None:
    memory = np.ones(10, np.float32)
    memory.flags.writeable = False
    with raises((ValueError, BufferError)):
        hvd.allreduce_(Borrowed(memory), op=SUM)
    assert (np.asarray(hvd.allreduce(Borrowed(memory), op=SUM)) == here.size).all()
    assert (memory == 1).all()


@check()
def what_cannot_be_communicated_is_an_error_at_the_call(here: Here) -> None:
    class Broken:
        def __dlpack__(self, **how: Any) -> Any:
            raise RuntimeError("no memory here")

    class Liar:
        def __dlpack__(self, **how: Any) -> Any:
            return 42

    with raises(RuntimeError, "no memory here"):
        hvd.allreduce(Broken())
    with raises(TypeError, "capsule"):
        hvd.allreduce(Liar())
    with raises(TypeError):
        hvd.allreduce(Borrowed(np.ones(3, np.complex64)))
    strided = np.ones((4, 4))[:, ::2]
    with raises(ValueError, "contiguous"):
        hvd.allreduce(Borrowed(strided))
    assert hvd.allreduce(1, op=SUM) == here.size
