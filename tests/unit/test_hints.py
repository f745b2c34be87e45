"""What hvdliterun's last line adds for a program whose library explains its failure badly."""

from __future__ import annotations

import pytest

from hvdlite.launch.verdict import command_meant, with_hint


@pytest.mark.parametrize(
    ("said", "added"),
    [
        ("ModuleNotFoundError: No module named 'horovod' at a.py:1.", "--horovod-compat runs it"),
        ("ModuleNotFoundError: No module named 'horovod.torch' at a.py:1.", "--horovod-compat"),
        ("ModuleNotFoundError: No module named 'horovod_tools' at a.py:1.", ""),
        ("ModuleNotFoundError: No module named 'my.horovod' at a.py:1.", ""),
        ("ModuleNotFoundError: hvdlite has no horovod.mxnet: move the model.", ""),
        (
            "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice' at a.py:3.",
            "built without CUDA",
        ),
        ("AssertionError: Torch not compiled with CUDA enabled at a.py:3.", "built without CUDA"),
        ("AttributeError: module 'torch._C' has no attribute '_nothing'", ""),
        (
            "ValueError: Error initializing torch.distributed using env:// rendezvous: environment "
            "variable RANK expected, but not set.",
            "hvdliterun --torch-distributed sets torchrun's variables. In an elastic job, call "
            "hvdlite.torch.distributed.init()",
        ),
        ("ValueError: environment variable RANKS expected, but not set", ""),
        ("ValueError: no", ""),
        ("", ""),
    ],
)
def test_a_hint_follows_what_it_explains(said: str, added: str) -> None:
    line = with_hint(said)
    assert line.startswith(said) and added in line
    assert (line == said) == (added == "")


@pytest.mark.parametrize(
    ("word", "meant"),
    [("pyhton", "python"), ("pyton3", "python3"), ("python", "python3"), ("no-such", ""),
     ("./train", ""), ("", "")],
)  # fmt: skip
def test_a_misspelt_command_has_one_that_was_meant(word: str, meant: str) -> None:
    assert command_meant(word) == meant
