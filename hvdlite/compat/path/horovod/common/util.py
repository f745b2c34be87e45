"""horovod.common.util: questions of programs about the installation, and small helpers that they
use."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

from hvdlite.job import horovod_basics as built

__all__ = [
    "ccl_built", "ddl_built", "env", "extension_available",
    "get_average_backwards_compatibility_fun", "gloo_built", "gpu_available", "is_iterable",
    "is_version_greater_equal_than", "mpi_built", "nccl_built", "num_rank_is_power_2", "split_list",
]  # fmt: skip

Item = TypeVar("Item")

#: a decorator that calls the function once for the same arguments
_cache = cache

# Horovod's argument, which made it print what it was trying.


def gloo_built(verbose: bool = False) -> bool:
    return built.gloo_built()


def mpi_built(verbose: bool = False) -> bool:
    return built.mpi_built()


def nccl_built(verbose: bool = False) -> int:
    return built.nccl_built()


def ddl_built(verbose: bool = False) -> bool:
    return built.ddl_built()


def ccl_built(verbose: bool = False) -> bool:
    return built.ccl_built()


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether horovod.<name> can be imported: both hvdlite's adapter and the framework are
    there."""
    return (
        find_spec(f"hvdlite.{ext_base_name}") is not None and find_spec(ext_base_name) is not None
    )


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether the framework sees a GPU."""
    if not extension_available(ext_base_name):
        return False
    adapter = import_module(f"hvdlite.{ext_base_name}")
    ask = adapter.gpu_available if ext_base_name == "tensorflow" else adapter._check_has_gpu
    return bool(ask())


@contextmanager
def env(**kwargs: str | None) -> Iterator[None]:
    """Sets environment variables within a `with` block; a variable whose value is None does not
    change."""
    wanted = {name: value for name, value in kwargs.items() if value is not None}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def split_list(l: Sequence[Item], n: int) -> list[Sequence[Item]]:  # noqa: E741
    """Returns n parts of a list, in order, whose lengths differ by at most one."""
    short, longer = divmod(len(l), n)
    cuts = [i * short + min(i, longer) for i in range(n + 1)]
    return [l[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]


def num_rank_is_power_2(num_rank: int) -> bool:
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def is_iterable(x: Any) -> bool:
    try:
        iter(x)
    except TypeError:
        return False
    return True


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Whether `ver` is not older than `target`, which has three numbers."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", target):
        raise ValueError(f"the version to compare with must be like 1.2.3, not {target!r}")
    numbers = [int(n) for n in re.findall(r"\d+", re.split(r"[^\d.]", ver)[0])]
    return (numbers + [0, 0, 0])[:3] >= [int(n) for n in target.split(".")]


def get_average_backwards_compatibility_fun(
    reduce_ops: Any,
) -> Callable[[int | None, bool | None], int]:
    """Returns a function of (op, average) that tells which reduction a call with the deprecated
    `average` means."""
    from hvdlite.base.ops import reduction_of

    return lambda op, average: reduction_of(average, op)
