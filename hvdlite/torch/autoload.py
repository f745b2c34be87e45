"""What torch calls at the end of `import torch`, by hvdlite_torch_backend.py.

It makes `init_process_group("hvdlite")` possible in programs that do not import hvdlite. It runs in
every program that imports torch, so it loads nothing, and never raises an error: torch could not be
imported then. TORCH_DEVICE_BACKEND_AUTOLOAD=0 turns it off.

Where hvdliterun has set torchrun's variables, hvdlite/job/default_group.py looks at the group that
the program makes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Mapping
from importlib import import_module
from typing import Any

_ALONE = (
    "hvdlite: this rank trains a model of its own. hvdliterun has started {size} ranks, but {why}. "
    "{advice}; HVDLITE_ALLOW_SINGLETON=1 says that separate models are meant."
)
_NOT_MET = "the program has neither called hvd.init() nor made a process group of torch.distributed"
_SILENT = "they have sent nothing to each other before the first step of an optimizer"


def register() -> None:
    """Tells torch.distributed the backend's name."""
    try:
        _register(os.environ)
    except Exception as error:
        print(
            f"hvdlite: torch.distributed has no backend hvdlite: {type(error).__name__}: {error}",
            file=sys.stderr,
        )


def _register(environ: Mapping[str, str]) -> None:
    from torch import distributed as dist

    if not dist.is_available():
        return
    dist.Backend.register_backend("hvdlite", _create, extended_api=True, devices=devices())
    if _may_train_alone(environ):
        _watch_the_first_step(dist, environ["HVDLITE_SIZE"])
    if environ.get("HVDLITE_RANK") or environ.get("HVDLITE_MEMBER"):
        import_module("hvdlite.lightning.packages").name_on_import()
    if environ.get("HVDLITE_TORCH_BACKEND") or environ.get("HVDLITE_TORCH_ENV") == "1":
        import_module("hvdlite.job.default_group").stand_before_init(dist, environ)


def devices() -> list[str]:
    """Of which the backend takes tensors. torch's tools prefer a GPU, even where torch was built
    without."""
    import torch

    is_built: Any = torch.backends.cuda.is_built
    return ["cpu", "cuda"] if is_built() else ["cpu"]


def _create(options: Any, backend_options: Any) -> Any:
    """Makes a process group. Loads hvdlite for the first one."""
    return import_module("hvdlite.torch.distributed").create(options, backend_options)


def _may_train_alone(environ: Mapping[str, str]) -> bool:
    """Whether this is the first of several ranks of hvdliterun; one sentence is enough."""
    return (
        environ.get("HVDLITE_RANK") == "0"
        and environ.get("HVDLITE_SIZE", "1") != "1"
        and not environ.get("HVDLITE_ALLOW_SINGLETON")
    )


def _watch_the_first_step(dist: Any, size: str) -> None:
    """The first step of an optimizer tells whether the program knows of the other ranks."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    has_looked = False

    def stepped(*_: Any) -> None:
        nonlocal has_looked
        if has_looked:  # it cannot be removed here: torch iterates over the hooks
            return
        has_looked = True
        why = _why_alone(dist)
        if why:
            advice = _advice(sys.modules, has_met=why == _SILENT)
            print(_ALONE.format(size=size, why=why, advice=advice), file=sys.stderr, flush=True)

    register_optimizer_step_post_hook(stepped)


def _why_alone(dist: Any) -> str:
    """Why this rank's step cannot know of the other ranks; empty if it may."""
    core = sys.modules.get("hvdlite._core")
    if not (core is not None and core.has_place()) and not dist.is_initialized():
        return _NOT_MET
    environment = sys.modules.get("hvdlite.job.torch_environment")
    silent = environment is not None and environment.is_silent() and not _has_other_groups(dist)
    return _SILENT if silent else ""


def _has_other_groups(dist: Any) -> bool:
    """Whether there are groups beside the default one: they may have another backend."""
    world = getattr(dist.distributed_c10d, "_world", None)
    return len(getattr(world, "pg_map", ())) != 1


def _advice(imported: Container[str], has_met: bool) -> str:
    """What a program has to do that has imported these modules, and has or has not made torch's
    default group."""
    if "lightning.pytorch" in imported or "pytorch_lightning" in imported:
        return "Pass strategy=hvdlite.lightning.HvdliteStrategy() to Lightning's Trainer"
    if "accelerate" in imported:  # also imported by Transformers' Trainer
        return (
            "Call hvdlite.torch.distributed.init() before the program makes an Accelerator or "
            "TrainingArguments"
        )
    if has_met:
        return "Wrap the model in DistributedDataParallel or its like"
    return "If it reads torchrun's variables, start it with hvdliterun --torch-distributed=hvdlite"
