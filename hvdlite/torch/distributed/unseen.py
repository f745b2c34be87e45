"""Methods that torch.compile must not trace."""

from __future__ import annotations

import types
from typing import Any

import torch


def hide(*classes: type) -> None:
    """Makes Dynamo skip the methods of these classes.

    C++ enters them while a compiled program runs. Dynamo would trace them and fail on torch's own
    objects, and torch.compiler.disable() does not keep it from that.
    """
    skip = _skipper()
    for owner in classes:
        for method in vars(owner).values():
            if isinstance(method, types.FunctionType):
                skip(method.__code__)


def _skipper() -> Any:
    frames: Any = torch._C._dynamo.eval_frame  # type: ignore[attr-defined]
    if not hasattr(frames, "_FrameExecStrategy"):  # before torch 2.7
        return frames.skip_code
    action = frames._FrameAction.SKIP
    strategy = frames._FrameExecStrategy(action, action)
    return lambda code: frames.set_code_exec_strategy(code, strategy)
