"""Runs hot operations under callgrind, which counts the instructions of each; see count.py.

Each has two dumps, `<its number>.<calls>`, of a short and a long run. Their difference has no start
and no end.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import numpy as np
import torch

import hvdlite as hvd
import hvdlite.torch as torch_hvd
from hvdlite.core import engine

WARM = 200
_LAYERS = [(64, 3, 7, 7), *[(256, 64, 1, 1), (64, 64, 3, 3), (256,)] * 53, (1000, 256)]


def control(*words: str) -> None:
    command = ["callgrind_control", *words, str(os.getpid())]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def numpy_allreduce() -> None:
    hvd.allreduce(_FEW, name="few")


def numpy_allreduce_negotiated() -> None:
    # In place: what the C library spends on a block of 20 kB depends on what was freed before.
    hvd.allreduce_(_MORE, name="more")


def torch_allreduce() -> None:
    torch_hvd.allreduce(_FEW_OF_TORCH, name="few of torch")


def torch_step() -> None:
    """161 gradients, which are there already."""
    handles = [
        torch_hvd.allreduce_async_(gradient, name=f"gradient.{i}")
        for i, gradient in enumerate(_GRADIENTS)
    ]
    for handle in handles:
        torch_hvd.synchronize(handle)


def torch_small() -> None:
    for handle in [
        torch_hvd.allreduce_async_(tensor, name=f"small.{i}") for i, tensor in enumerate(_SMALL)
    ]:
        torch_hvd.synchronize(handle)


def torch_group() -> None:
    torch_hvd.grouped_allreduce_(_SMALL, name="small")


class Hooks:
    """Those of DistributedOptimizer, without a backward pass."""

    def __init__(self) -> None:
        self._core = engine.GradientHooks(torch_hvd.Sum, 1.0, 1.0, torch_hvd.global_process_set)
        self._hooks = []
        for i, gradient in enumerate(_SMALL):
            parameter = torch.nn.Parameter(torch.zeros(gradient.shape))
            parameter.grad = gradient
            number = self._core.add(f"hooked.{i}")
            self._core.permit(number, True)
            self._hooks.append((self._core.hook(number, print), parameter))

    def __call__(self) -> None:
        for hook, parameter in self._hooks:
            hook(parameter)
        assert len(self._core.take_submitted()) == len(_SMALL)
        assert not self._core.flush()
        self._core.begin_step()
        engine.wait_all(self._core.handles)
        self._core.form_lists()
        assert not self._core.finish()


_FEW = np.ones(1, np.float32)
_MORE = np.ones(5000, np.float32)  # too many for the fast path
_FEW_OF_TORCH = torch.ones(1)
_GRADIENTS = [torch.ones(shape) for shape in _LAYERS]
_SMALL = [torch.ones(64) for _ in range(161)]

# By name, what is counted and how often.
OPERATIONS: dict[str, tuple[Callable[[], None], int]] = {
    "numpy: allreduce of 4 bytes": (numpy_allreduce, 500),
    "numpy: allreduce of 20 kB in place": (numpy_allreduce_negotiated, 500),
    "torch: allreduce of 4 bytes": (torch_allreduce, 500),
    "torch: 161 gradients": (torch_step, 5),
    "torch: 161 small tensors in flight": (torch_small, 20),
    "torch: a group of 161 small tensors": (torch_group, 20),
    "torch: hooks of 161 small gradients": (Hooks(), 20),
}


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    control("--instr=on")
    for number, (operation, times) in enumerate(OPERATIONS.values()):
        for _ in range(min(WARM, 4 * times)):
            operation()
        for repeat in (times, 3 * times):
            control("--zero")
            for _ in range(repeat):
                operation()
            control(f"--dump={number}.{repeat}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
