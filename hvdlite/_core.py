"""The native core through ctypes, on a Python for which this installation has no compiled module.

Python takes an extension module of this name before this file. Both offer what _core.pyi lists and
talk to csrc/api/hvdlite.h alone; the compiled one takes less time per call. csrc/bindings says what
holds for both, and why.
"""

from __future__ import annotations

import ctypes
import signal
import weakref
from collections.abc import Callable
from ctypes import byref, c_char, c_int32, c_int64, c_void_p
from typing import Any

from hvdlite import exceptions
from hvdlite.base.operations import ALLREDUCE
from hvdlite.core.by_ctypes.device_array import DeviceArray, check_gpus
from hvdlite.core.by_ctypes.interface import (
    Generation,
    InitOptions,
    Mpi,
    Place,
    PoolAllocator,
    PoolCounters,
    as_bytes,
    c,
    check,
    loss_of_last_error,
    memory_at,
    names,
    numbers,
    patiently,
    text_of,
    texts,
    threads_inside,
)  # fmt: skip
from hvdlite.core.by_ctypes.operations import (
    Call,
    NotContiguous,
    end_in_place,
    give_back,
    poll,
    release_all,
    run,
    run_in_place,
    run_list_in_place,
    start,
    start_in_place,
    start_list_in_place,
    submit,
    submit_encoded,
    submit_group,
    submit_sparse,
    wait,
    wait_all,
)  # fmt: skip
from hvdlite.core.by_ctypes.tensors import elements, lend

__all__ = [
    "DeviceArray", "GradientHooks", "NotContiguous", "check_gpus", "end_in_place", "give_back",
    "poll", "release_all", "run", "run_in_place", "run_list_in_place", "start_in_place",
    "start_list_in_place", "submit", "submit_encoded", "submit_group", "submit_sparse",
    "threads_inside", "wait", "wait_all",
]  # fmt: skip


def loss() -> exceptions.Loss | None:
    return loss_of_last_error() if c.health() else None


def simd() -> str:
    return text_of(c.simd())


def gpu_kernels() -> str:
    return text_of(c.gpu_kernels())


def codecs() -> dict[str, tuple[int, str]]:
    found = enumerate(names(c.codec_name, 1), 1)
    return {name: (number, text_of(c.codec_parameter(number))) for number, name in found}


def encoded_bytes(codec: int, parameter: float, count: int) -> int:
    found = int(c.encoded_bytes(codec, parameter, count))
    if found < 0:
        raise ValueError("no codec has this number and this parameter")
    return found


def _version(find: Callable[..., int], *libraries: str) -> int:
    version = c_int32()
    check(patiently(find, *(library.encode() for library in libraries), byref(version)))
    return version.value


def find_cuda(library: str) -> int:
    return _version(c.find_cuda, library)


def find_nccl(wanted: str, wheel: str) -> int:
    return _version(c.find_nccl, wanted, wheel)


def _mpi(said: dict[str, Any]) -> Mpi:
    if "absent" in said:
        return Mpi(absent=said["absent"].encode())
    names = sorted(said["handles"])
    return Mpi(
        module=said["module"].encode(),
        library=said["library"].encode(),
        names=texts(names),
        handles=numbers(c_int64, [said["handles"][name] for name in names]),
        handle_count=len(names),
        in_place=said["in_place"],
        communicator=said["communicator"],
    )


def init(
    rank: int,
    size: int,
    store: str | None,
    store_prefix: str,
    secret: str | None,
    knobs: dict[str, str],
    process_sets: list[list[int]],
    release: str,
    mpi: dict[str, Any] | None = None,
    generation: tuple[int, str, int, int] | None = None,
) -> None:
    options = InitOptions(
        rank=rank,
        size=size,
        store=as_bytes(store),
        store_prefix=store_prefix.encode(),
        secret=as_bytes(secret),
        knobs=texts([text for pair in knobs.items() for text in pair]),
        knob_count=len(knobs),
        set_sizes=numbers(c_int32, [*map(len, process_sets)]),
        set_ranks=numbers(c_int32, [rank for ranks in process_sets for rank in ranks]),
        set_count=len(process_sets),
        release=release.encode(),
    )
    if mpi is not None:
        options.mpi = ctypes.pointer(_mpi(mpi))
    if generation is not None:
        number, nonce, slot, seconds = generation
        options.generation = ctypes.pointer(Generation(number, nonce.encode(), slot, seconds))
    check(patiently(c.init, byref(options)))


def shutdown(timeout: float) -> str:
    return text_of(c.last_error()) if patiently(c.shutdown, timeout) else ""


def failure() -> str:
    return text_of(c.last_error()) if c.health() else ""


def ended() -> str:
    return text_of(c.last_error()) if c.ended() else ""


def abort(why: str) -> None:
    patiently(c.abort, why.encode())


def end_generation(number: int, why: str) -> None:
    patiently(c.end_generation, number, why.encode())


def mpi_names() -> list[str]:
    return [*names(c.mpi_handle_name)]


def is_initialized() -> bool:
    return bool(c.is_initialized())


def has_place() -> bool:
    return not c.where(byref(Place()))


def _where() -> Place:
    place = Place()
    check(c.where(byref(place)))
    return place


def rank() -> int:
    return int(_where().rank)


def size() -> int:
    return int(_where().size)


def local_rank() -> int:
    return int(_where().local_rank)


def local_size() -> int:
    return int(_where().local_size)


def cross_rank() -> int:
    return int(_where().cross_rank)


def cross_size() -> int:
    return int(_where().cross_size)


def is_homogeneous() -> bool:
    return bool(_where().is_homogeneous)


def process_set_ranks(process_set: int) -> list[int]:
    capacity = 64
    while True:
        ranks = (c_int32 * capacity)()
        count = c.process_set_ranks(process_set, ranks, capacity)
        if count <= capacity:
            return list(ranks[:count])
        capacity = count


def process_set_ids() -> list[int]:
    ids = (c_int32 * 1024)()
    return list(ids[: c.process_set_ids(ids, 1024)])


# ---- Observation ---------------------------------------------------------------------------------


def _text(ask: Callable[[Any, int], int]) -> str:
    """`ask` writes as much as fits and returns the length of the text."""
    capacity = 4096
    while True:
        text = ctypes.create_string_buffer(capacity)
        length = patiently(ask, text, capacity)
        if length < capacity:
            return text_of(text.raw[:length])
        capacity = 2 * length  # it may have grown in between


def start_timeline(path: str, mark_cycles: bool) -> None:
    check(c.start_timeline(path.encode(), int(mark_cycles)))


def stop_timeline() -> None:
    check(patiently(c.stop_timeline))


def describe(what: str) -> str:
    return _text(lambda text, capacity: int(c.describe(what.encode(), text, capacity)))


def explain(process_set: int) -> str:
    return _text(lambda text, capacity: int(c.explain(process_set, text, capacity)))


def uses_mpi() -> bool:
    return bool(c.uses_mpi())


def wait_question(timeout: float) -> tuple[int, str]:
    asked = patiently(c.wait_question, timeout)
    return asked, text_of(c.last_error()) if asked < 0 else ""


def answer(place: str, in_wait: bool) -> None:
    c.answer(place.encode(), int(in_wait))


class _Action(ctypes.Structure):
    """C's struct sigaction, on Linux of 64 bits."""

    _fields_ = [
        ("handler", c_void_p), ("mask", c_char * 128), ("flags", c_int32), ("restorer", c_void_p)
    ]  # fmt: skip


_SA_RESTART = 0x10000000


def obey_sigquit() -> bool:
    """The handler is the library's own function: Python's would wait for the main thread."""
    sigaction = ctypes.CDLL(None).sigaction
    action = _Action()
    if sigaction(signal.SIGQUIT, None, byref(action)) or action.handler:
        return False
    action.handler = ctypes.cast(c.wish_report, c_void_p).value
    action.flags = _SA_RESTART
    return not sigaction(signal.SIGQUIT, byref(action), None)


# ---- Tensors in shared memory, and digests -------------------------------------------------------


def pool_patch(module: str, function: str, gate: str, outside: int) -> None:
    named = (text.encode() for text in (module, function, gate))
    check(c.pool_patch(byref(PoolAllocator(*named, outside))))


pool_expect = c.pool_expect
pool_arm = c.pool_arm
pool_take_all = c.pool_take_all
pool_offset = c.pool_offset


def pool_stats() -> tuple[int, int, int, int]:
    counters = PoolCounters()
    c.pool_stats(byref(counters))
    return counters.hits, counters.misses, counters.live, counters.bytes


#: Memory with Python's buffer protocol.
PoolBlock = ctypes.Array


def pool_allocate(bytes: int) -> Any:
    memory = c.pool_allocate(bytes)
    if memory is None:
        return None
    return memory_at(memory, bytes, c.pool_free, memory)


def digests(tensors: list[Any]) -> list[int]:
    lent = [lend(tensor) for tensor in tensors]
    found = []
    for each in lent:
        tensor = each.tensor
        if not each.contiguous or tensor.device_kind:
            raise TypeError("digests are of contiguous tensors in host memory")
        count = elements(tensor) * c.dtype_size(tensor.dtype)
        found.append(int(c.digest(tensor.data, count)))
    return found


# ---- Gradients -----------------------------------------------------------------------------------


class GradientHooks:
    """Submits each gradient for an in-place allreduce from its autograd hook."""

    def __init__(self, op: int, prescale: float, postscale: float, process_set: Any) -> None:
        self._reduction = op, prescale, postscale
        self._process_set = process_set
        self._names: list[str] = []
        self._permitted: set[int] = set()
        self._submitted: dict[int, None] = {}  # by hooks, in this step
        self._taken = 0
        self._in_flight: list[tuple[int, Any, Any]] = []
        self.handles: list[int] = []

    def add(self, name: str) -> int:
        self._names.append(name)
        return len(self._names) - 1

    def hook(self, number: int, otherwise: Callable[[Any], None]) -> Callable[[Any], None]:
        me = weakref.ref(self)  # a parameter owns its hook and must not own the reducer

        def hvdlite_hook(parameter: Any) -> None:
            hooks = me()
            if hooks is None or not hooks._submit_by_hook(number, parameter):
                otherwise(parameter)

        return hvdlite_hook

    def permit(self, number: int, permitted: bool) -> None:
        (self._permitted.add if permitted else self._permitted.discard)(number)

    def submit(self, number: int, parameter: Any) -> bool:
        try:
            gradient = parameter.grad
            process_set = self._process_set.process_set_id  # None until it is registered
            if not isinstance(process_set, int):
                return False
            op, prescale, postscale = self._reduction
            name = self._names[number]
            call = Call(ALLREDUCE.kind, op, process_set, name, prescale, postscale, patient=True)
            call.borrow(gradient, gradient)
            self.handles.append(start(call))
        except Exception:
            return False
        self._in_flight.append((number, parameter, gradient))
        return True

    def _submit_by_hook(self, number: int, parameter: Any) -> bool:
        if number not in self._permitted or number in self._submitted:
            return False
        if not self.submit(number, parameter):
            return False
        self._submitted[number] = None
        return True

    def take_submitted(self) -> list[int]:
        taken = list(self._submitted)[self._taken :]
        self._taken += len(taken)
        return taken

    def form_lists(self) -> None:
        pass  # each gradient travels alone, which meets the lists of other ranks

    def flush(self) -> list[int]:
        return []

    @property
    def under_way(self) -> bool:
        return bool(self.handles)

    def begin_step(self) -> None:
        self._submitted.clear()
        self._taken = 0

    def finish(self) -> list[int]:
        in_flight, self._in_flight = self._in_flight, []
        return [
            number for number, parameter, gradient in in_flight if parameter.grad is not gradient
        ]

    def forget(self) -> None:
        self.handles.clear()
        self._in_flight = []
        self.begin_step()
