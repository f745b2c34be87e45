"""hvdlite under torch's own DistributedDataParallel: a communication hook for its buckets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hvdlite.adapter import names
from hvdlite.adapter.compression import CompressionAdapter
from hvdlite.base.operations import ALLREDUCE
from hvdlite.base.ops import Average
from hvdlite.core.operations import Call
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.torch.compression import Compression
from hvdlite.torch.ops import OPS

__all__ = ["ddp_comm_hook"]

Hook = Callable[[Any, Any], "torch.futures.Future[torch.Tensor]"]


def ddp_comm_hook(
    op: int = Average,
    compression: Any = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> Hook:
    """For `ddp_model.register_comm_hook(None, hvd.ddp_comm_hook())`: hvdlite reduces the gradients,
    DDP does the rest.

    Each model needs one of its own.
    """
    from torch import distributed as dist

    adapted = CompressionAdapter(compression)
    prefix = f"{names.scope()}ddp."
    under_way: list[tuple[torch.futures.Future[torch.Tensor], Callable[[], torch.Tensor]]] = []

    how = Call(ALLREDUCE, None, process_set, op, in_place=True, patient=True)
    numbers: dict[int, int] = {}  # of parameters: their buckets may change

    def start(bucket: Any) -> Callable[[], torch.Tensor]:
        if adapted.method is None:
            call = how._replace(name=f"{prefix}{bucket.index()}")
            return adapted.start(OPS, call, bucket.buffer()).result
        gradients = list(bucket.gradients())
        runners = []
        for parameter, gradient in zip(bucket.parameters(), gradients, strict=True):
            number = numbers.setdefault(id(parameter), len(numbers))
            call = how._replace(name=f"{prefix}gradient.{number}")
            runners.append(adapted.start(OPS, call, gradient, f"gradient.{number}"))

        def finish() -> torch.Tensor:
            for gradient, runner in zip(gradients, runners, strict=True):
                gradient.copy_(runner.result())
            return bucket.buffer()

        return finish

    def hook(state: Any, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        del state
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        if bucket.index() == 0:
            under_way.clear()  # of a backward pass that ended with an exception
        under_way.append((future, start(bucket)))
        if bucket.is_last():
            # DDP asks for the results only after its last bucket: no thread needs to wait for them.
            started, under_way[:] = list(under_way), []
            for each, finish in started:
                each.set_result(finish())
            if adapted.method is not None:
                adapted.method.stepped(process_set)
        return future

    # DDP looks at the annotations, which are strings here.
    bucket_type = dist.GradBucket  # type: ignore[attr-defined]
    hook.__annotations__ = {"bucket": bucket_type, "return": torch.futures.Future[torch.Tensor]}
    return hook
