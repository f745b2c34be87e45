"""hvdlite.lightning: devices, and which package is meant. Needs no Lightning."""

from __future__ import annotations

import sys
from importlib import metadata
from types import ModuleType

import pytest
from cases import cases

torch = pytest.importorskip("torch", reason="torch is not installed")

from hvdlite.lightning import packages  # noqa: E402
from hvdlite.lightning.strategy import device_of  # noqa: E402

CPU, GPU0, GPU1 = (torch.device(name) for name in ("cpu", "cuda:0", "cuda:1"))


@cases(
    "devices, local_rank, expected",
    {
        "one for all ranks of the host": ([CPU], 3, CPU),
        "the only visible one": ([GPU0], 1, GPU0),
        "one of several": ([GPU0, GPU1], 1, GPU1),
    },
)
def test_the_device_of_a_rank(devices: list[object], local_rank: int, expected: object) -> None:
    assert device_of(devices, local_rank) == expected


def test_more_ranks_than_devices_are_refused() -> None:
    with pytest.raises(ValueError, match="local rank 2 has no device: Trainer.. has 2 on this"):
        device_of([GPU0, GPU1], 2)


@cases(
    "installed, imported, expected",
    {
        "both are installed, none imported": (
            ["lightning", "pytorch-lightning"],
            [],
            "lightning.pytorch",
        ),
        "the older name alone": (["pytorch-lightning"], [], "pytorch_lightning"),
        "the program's import counts": (
            ["lightning", "pytorch-lightning"],
            ["pytorch_lightning"],
            "pytorch_lightning",
        ),
        "none is there: the error names lightning": ([], [], "lightning.pytorch"),
    },
)
def test_the_package_that_is_meant(
    installed: list[str], imported: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend(monkeypatch, dict.fromkeys(installed, "2.6.6"))
    for name in ("lightning.pytorch", "pytorch_lightning"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        if name in imported:
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert packages.preferred() == expected


@pytest.mark.parametrize("version", [None, "2.5.9", "1.9"])
def test_a_lightning_that_is_missing_or_too_old_is_one_sentence(
    version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend(monkeypatch, {"lightning": version} if version else {})
    packages.make.cache_clear()
    with pytest.raises(ImportError) as caught:
        packages.make("lightning.pytorch")
    assert str(caught.value) == (
        f"hvdlite.lightning needs lightning 2.6 or newer, and {version or 'none'} is installed: "
        'pip install ".[lightning]" in a clone of hvdlite'
    )


def test_other_packages_are_refused() -> None:
    with pytest.raises(ValueError, match=r"make\('fastai'\) is not possible: expected one of"):
        packages.make("fastai")


def _pretend(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str]) -> None:
    def look(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "version", look)
