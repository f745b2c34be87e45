"""A strategy in plain words."""

from __future__ import annotations

from hvdlite.adapter.local.factors import Mode
from hvdlite.adapter.strategy.options import Choice, compressor

_FACTORS = {
    True: "Linear layers send the factors of their gradients.",
    "auto": "Linear layers send the factors of their gradients where these are fewer bytes.",
}
_LARGE_BATCH = {"lars": "LARS takes the place of SGD", "lamb": "LAMB takes the place of Adam"}


def described(
    *,
    compression: Choice | None,
    local: Choice | None,
    large_batch: Choice | None,
    sufficient_factors: Mode,
    backward_passes_per_step: int,
) -> str:
    """Some sentences."""
    if local is not None:
        return " ".join(_LOCAL[local.name](local))
    passes = backward_passes_per_step
    added_up = f", added up over {passes} backward passes" if passes > 1 else ""
    said = [f"Each step reduces the gradients of all ranks{added_up}."]
    if compression is not None:
        said.append(f"They travel by {_compressor(compression)}.")
    if sufficient_factors:
        said.append(_FACTORS[sufficient_factors])
    if large_batch is not None:
        trust = f" with trust={large_batch['trust']:g}" if large_batch.name == "lars" else ""
        said.append(f"{_LARGE_BATCH[large_batch.name]}{trust}.")
    return " ".join(said)


def _compressor(choice: Choice) -> str:
    return choice.name if choice.name in ("fp16", "bf16") else str(compressor(choice))


def _interval(local: Choice) -> str:
    every = local["every"]
    return f"{every} steps" if isinstance(every, int) else str(every)


def _local_sgd(local: Choice) -> list[str]:
    said = [f"Ranks make steps of their own and average their weights every {_interval(local)}."]
    if local["start"]:
        said.append(f"The first {local['start']} steps are synchronous.")
    if local["adaptive"]:
        said.append("The interval shrinks with the loss.")
    if local["momentum"] == "average":
        said.append("Momentum is averaged, too.")
    return said


def _diloco(local: Choice) -> list[str]:
    said = [f"Ranks make steps of their own; every {_interval(local)}, {local['outer']} makes a "
            "step with the average of what they have changed."]  # fmt: skip
    if local["fragments"] > 1:
        said.append(f"The model travels in {local['fragments']} fragments.")
    if local["overlap"]:
        said.append(f"An average is applied {local['overlap']} steps after it was started.")
    if local["momentum"] == "reset":
        said.append("Momentum begins anew behind each average.")
    return said


_LOCAL = {"local_sgd": _local_sgd, "diloco": _diloco}
