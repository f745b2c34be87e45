"""The exception classes as programs catch them."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from hvdlite import exceptions


def _classes() -> dict[str, type[BaseException]]:
    found = vars(exceptions).items()
    return {name: c for name, c in found if isinstance(c, type) and issubclass(c, BaseException)}


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in (exceptions.__doc__ or "").splitlines():
        match = re.match(r"^    ([│├└─ ]*)([A-Z]\w+)(  |$)", line)
        if match:
            depth, name = len(match.group(1)), match.group(2)
            path = [(d, n) for d, n in path if d < depth]
            if path:
                drawn[name] = path[-1][1]
            path.append((depth, name))
    for name, cls in _classes().items():
        assert drawn.pop(name) == cls.__bases__[0].__name__
    assert set(drawn) <= {"RuntimeError", "ValueError", "ImportError"}


def test_only_a_mismatch_is_never_worth_a_retry() -> None:
    assert exceptions.HorovodInternalError("x").retryable
    assert exceptions.PeerLostError("x", rank=3).retryable
    assert exceptions.ShutDownError("x").retryable
    assert not exceptions.MismatchError("x").retryable


@pytest.mark.parametrize("framework", ["torch", "tensorflow", "keras", "jax"])
def test_every_framework_has_them_under_its_own_name(framework: str) -> None:
    """By its source: none is imported for this. hvdlite.tensorflow.keras has all of keras."""
    file = "torch/api.py" if framework == "torch" else f"{framework}/__init__.py"
    source = (Path(exceptions.__file__).parent / file).read_text()
    assert "from hvdlite.exceptions import *" in source
    assert "__all__ += _exceptions.__all__" in source


def test_a_lost_peer_is_named() -> None:
    error = exceptions.PeerLostError("rank 3 is gone", rank=3)
    assert (error.rank, str(error)) == (3, "rank 3 is gone")
    assert exceptions.PeerLostError("somebody is gone").rank == -1


def test_programs_that_expect_a_value_error_get_one_with_the_line_to_add() -> None:
    with pytest.raises(
        ValueError,
        match=r"Horovod \(hvdlite\) is not initialized in this process\. .*hvd\.init\(\)",
    ):
        raise exceptions.NotInitializedError
    assert "hvd.init()" in str(exceptions.NotInitializedError()).split(":")[-1]


def test_hosts_updated_says_whether_to_skip_the_sync() -> None:
    assert exceptions.HostsUpdatedInterrupt(True).skip_sync is True
    assert exceptions.HostsUpdatedInterrupt().skip_sync is False


def test_a_version_mismatch_keeps_horovods_attributes() -> None:
    error = exceptions.HorovodVersionMismatchError("torch", "2.1", "2.2")
    assert (error.name, error.version, error.installed_version) == ("torch", "2.1", "2.2")
    assert isinstance(error, ImportError)


@pytest.mark.parametrize(
    "error",
    [
        exceptions.HorovodInternalError("text"),
        exceptions.MismatchError("text"),
        exceptions.PeerLostError("text", rank=5),
        exceptions.ShutDownError("text"),
        exceptions.HostsUpdatedInterrupt(True),
        exceptions.NotInitializedError(),
        exceptions.DuplicateNameError("text"),
        exceptions.HorovodVersionMismatchError("torch", "2.1", None),
    ],
    ids=lambda error: type(error).__name__,
)
def test_exceptions_survive_pickling(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
