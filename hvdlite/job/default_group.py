"""torch's default group in programs that make it themselves, with gloo, nccl or hvdlite.

init_process_group() is replaced where hvdliterun has set torchrun's variables, where the user asks
for it, and by `hvdlite.torch.distributed.init()`.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

NAME = "hvdlite"
#: replace: gloo, nccl and ccl become hvdlite. keep: the program's backend is meant.
VARIABLE = "HVDLITE_TORCH_BACKEND"
_REPLACE = ("replace", NAME)
_REPLACED = {"ccl", "gloo", "nccl"}

_kept: Any = None  # the default group that hvdlite.torch.distributed.init() has made


def keep(dist: Any, group: Any) -> None:
    """From now on the program's own init_process_group() leaves this default group as it is."""
    global _kept
    _kept = group
    stand_before_init(dist, os.environ)


def check_before_run(is_newcomer: bool, is_first: bool) -> None:
    """The function under `hvd.elastic.run` is about to be called. RuntimeError in a process that
    has come later, if init() has been called already: its group has no other ranks."""
    dist = sys.modules.get("torch.distributed")
    if _kept is None or dist is None or dist.group.WORLD is not _kept:
        return
    if is_newcomer:
        raise RuntimeError(_TOO_EARLY)
    if is_first:
        _say(_FOR_ONE_GENERATION)


_TOO_EARLY = (
    "hvdlite.torch.distributed.init(): this process has joined a job that trains already, and had "
    "no rank yet. Call init() at the beginning of the function under @hvd.elastic.run: each "
    "generation has a default group of its own."
)
_FOR_ONE_GENERATION = (
    "hvdlite: hvdlite.torch.distributed.init() has been called before the function under "
    "@hvd.elastic.run: this default group ends with the first generation, and a process that comes "
    "later has none. Call init() at the beginning of that function."
)


def tell_accelerate(torch: Any) -> None:
    """Without an accelerator, Accelerate would ignore the default group."""
    if not getattr(torch, "accelerator", torch.cuda).is_available():
        os.environ.setdefault("ACCELERATE_USE_CPU", "true")


def replacement(backend: Any, setting: str) -> str | None:
    """What a default group is made with instead of `backend`; None: with that.

    `setting`: the variable's value.
    """
    if setting not in _REPLACE:
        return None
    asked = str(backend or "").lower()
    if asked in ("", "undefined"):  # torch would take gloo and nccl
        return NAME
    names = {each.rpartition(":")[2] for each in asked.split(",")}
    return NAME if names <= _REPLACED else None


def stand_before_init(dist: Any, environ: Mapping[str, str]) -> None:
    """Replaces init_process_group() wherever it has been imported already. `dist`:
    torch.distributed."""
    setting = environ.get(VARIABLE, "")
    if setting not in ("", "keep", *_REPLACE):
        _say(f"hvdlite: {VARIABLE}={setting} has no effect: expected replace or keep")
    if setting in _REPLACE:
        tell_accelerate(sys.modules["torch"])
    torchs = dist.distributed_c10d.init_process_group
    if hasattr(torchs, "of_torch"):
        return

    @functools.wraps(torchs)
    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        if _is_kept(dist, torchs, (backend, *args), kwargs):
            if dist.get_rank() == 0:
                _say(_KEPT.format(asked=backend or "", backend=dist.get_backend()))
            return
        instead = replacement(backend, setting)
        torchs(instead or backend, *args, **kwargs)
        if dist.get_rank() == 0:
            said = told(backend, instead, str(dist.get_backend()), environ, _has_joined())
            if said:
                _say(said)

    init_process_group.of_torch = torchs  # type: ignore[attr-defined]
    for module in list(sys.modules.values()):
        # vars(): a module may import on getattr().
        if isinstance(module, ModuleType) and vars(module).get("init_process_group") is torchs:
            vars(module)["init_process_group"] = init_process_group


_KEPT = (
    "hvdlite: hvdlite.torch.distributed.init() has made the default group over {backend}, and the "
    "program goes on with it: init_process_group({asked}) makes no other"
)
_INSTEAD = (
    "hvdlite: the default group is of hvdlite, not of {asked}, as hvdliterun "
    "--torch-distributed=hvdlite or {variable}={value} asks"
)
_NOT_OURS = (
    "hvdlite: the program's default group is {asked}: hvdlite carries nothing that is sent over "
    "it. hvdliterun --torch-distributed=hvdlite makes the group with hvdlite instead; "
    "{variable}=keep says that {asked} is meant."
)


def _is_kept(
    dist: Any, torchs: Callable[..., None], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> bool:
    """Whether the default group is init()'s, and the call asks for the same ranks."""
    if _kept is None or not dist.is_initialized() or dist.group.WORLD is not _kept:
        return False
    asked = inspect.signature(torchs).bind(*args, **kwargs).arguments
    sizes, ranks = (-1, None, dist.get_world_size()), (-1, None, dist.get_rank())
    return asked.get("world_size") in sizes and asked.get("rank") in ranks


def told(
    backend: Any, instead: str | None, found: str, environ: Mapping[str, str], has_joined: bool
) -> str:
    """What rank 0 says of a new default group; empty: nothing.

    `found`: torch's name of its backend. `has_joined`: whether the program uses hvdlite besides.
    """
    asked, setting = str(backend or "gloo and nccl"), environ.get(VARIABLE, "")
    if instead:
        return _INSTEAD.format(asked=asked, variable=VARIABLE, value=setting)
    is_meant = found == NAME or setting == "keep" or has_joined
    alone = environ.get("HVDLITE_SIZE", "1") == "1" and not environ.get("HVDLITE_MEMBER")
    return "" if is_meant or alone else _NOT_OURS.format(asked=asked, variable=VARIABLE)


def _has_joined() -> bool:
    core = sys.modules.get("hvdlite._core")
    return core is not None and core.has_place()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
