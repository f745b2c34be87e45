"""What `import torch` says under hvdliterun when a rank trains a model of its own, or sends nothing
over hvdlite."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from cases import cases

from hvdlite.job.default_group import replacement, stand_before_init, told
from hvdlite.torch.autoload import _advice, _may_train_alone


@cases(
    "imported, has_met, words",
    {
        "plain torch": (["torch"], False, "start it with hvdliterun --torch-distributed=hvdlite"),
        "plain torch that has met": (["torch"], True, "in DistributedDataParallel"),
        "Accelerate": (["accelerate"], False, "hvdlite.torch.distributed.init() before"),
        "an Accelerator that was made too early": (["accelerate"], True, "init() before"),
        "lightning": (["lightning.pytorch"], False, "strategy=hvdlite.lightning.HvdliteStrategy()"),
        "pytorch_lightning with Accelerate": (
            ["pytorch_lightning", "accelerate"],
            True,
            "strategy=hvdlite.lightning.HvdliteStrategy()",
        ),
    },
)
def test_the_advice_fits_the_program(imported: list[str], has_met: bool, words: str) -> None:
    assert words in _advice(imported, has_met)


@cases(
    "environ, expected",
    {
        "no launcher": ({}, False),
        "the first of two": ({"HVDLITE_RANK": "0", "HVDLITE_SIZE": "2"}, True),
        "the second": ({"HVDLITE_RANK": "1", "HVDLITE_SIZE": "2"}, False),
        "the only one": ({"HVDLITE_RANK": "0", "HVDLITE_SIZE": "1"}, False),
        "on purpose": (
            {"HVDLITE_RANK": "0", "HVDLITE_SIZE": "2", "HVDLITE_ALLOW_SINGLETON": "1"},
            False,
        ),
    },
)
def test_who_speaks(environ: dict[str, str], expected: bool) -> None:
    assert _may_train_alone(environ) == expected


# ---- the default group


@cases(
    "backend, wish, expected",
    {
        "gloo": ("gloo", "replace", "hvdlite"),
        "nccl": ("nccl", "replace", "hvdlite"),
        "torch-ccl's": ("cpu:ccl", "replace", "hvdlite"),
        "torch's choice": (None, "replace", "hvdlite"),
        "an empty name": ("", "replace", "hvdlite"),
        "the name that torch has for it": ("undefined", "replace", "hvdlite"),
        "one for each device": ("cpu:gloo,cuda:nccl", "replace", "hvdlite"),
        "one for one device": ("cuda:nccl", "replace", "hvdlite"),
        "another spelling": ("NCCL", "replace", "hvdlite"),
        "the wish as one may write it": ("gloo", "hvdlite", "hvdlite"),
        "another backend": ("mpi", "replace", None),
        "another backend for one device": ("cpu:gloo,cuda:mpi", "replace", None),
        "hvdlite": ("hvdlite", "replace", None),
        "no wish": ("gloo", "", None),
        "the other wish": ("gloo", "keep", None),
    },
)
def test_what_the_default_group_is_made_with(
    backend: str | None, wish: str, expected: str | None
) -> None:
    assert replacement(backend, wish) == expected


ALONE, TWO = {"HVDLITE_SIZE": "1"}, {"HVDLITE_SIZE": "2"}
KEEP, REPLACE = {"HVDLITE_TORCH_BACKEND": "keep"}, {"HVDLITE_TORCH_BACKEND": "replace"}


@cases(
    "backend, instead, found, environ, has_joined, words",
    {
        "gloo": ("gloo", None, "gloo", TWO, False, "group is gloo: hvdlite carries nothing"),
        "torch's choice": (None, None, "undefined", TWO, False, "default group is gloo and nccl:"),
        "a member of an elastic job": (
            "nccl", None, "nccl", {"HVDLITE_MEMBER": "1"}, False, "hvdlite carries nothing",
        ),
        "instead": ("gloo", "hvdlite", "hvdlite", {**TWO, **REPLACE}, False, "not of gloo, as"),
        "what cannot be replaced": ("mpi", None, "mpi", {**TWO, **REPLACE}, False, "group is mpi:"),
        "on purpose": ("gloo", None, "gloo", {**TWO, **KEEP}, False, ""),
        "beside hvd.init()": ("gloo", None, "gloo", TWO, True, ""),
        "one rank": ("gloo", None, "gloo", ALONE, False, ""),
        "hvdlite": ("hvdlite", None, "hvdlite", TWO, False, ""),
    },
)  # fmt: skip
def test_what_rank_0_says_of_the_default_group(
    backend: str | None, instead: str | None, found: str, environ: dict[str, str],
    has_joined: bool, words: str,
) -> None:  # fmt: skip
    said = told(backend, instead, found, environ, has_joined)
    assert words in said and bool(words) == bool(said)


def test_a_wish_that_means_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    def torchs() -> None:
        """It is replaced already."""

    torchs.of_torch = torchs  # type: ignore[attr-defined]
    dist = SimpleNamespace(distributed_c10d=SimpleNamespace(init_process_group=torchs))
    stand_before_init(dist, {"HVDLITE_TORCH_BACKEND": "repalce"})
    said = capsys.readouterr().err
    assert (
        said == "hvdlite: HVDLITE_TORCH_BACKEND=repalce has no effect: expected replace or keep\n"
    )
