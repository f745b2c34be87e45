"""What `import torch` says under hvdliterun when a rank trains a model of its own."""

from __future__ import annotations

from cases import cases

from hvdlite.torch_backend import _advice, _may_train_alone


@cases(
    "imported, has_met, words",
    {
        "plain torch": (["torch"], False, "start it with hvdliterun --torch-distributed"),
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
