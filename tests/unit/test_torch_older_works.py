"""Which works C++ gets from a process group if torch forgets their Python part."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("hvdlite._core", reason="the native core is not built here")

from hvdlite.torch.distributed import older  # noqa: E402


class Work:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.waited = 0
        self.asked = 0

    def wait(self) -> None:
        self.waited += 1
        if self.error is not None:
            raise self.error

    def get_future(self) -> Any:
        self.asked += 1
        future: Any = torch.futures.Future()
        future.set_result([torch.ones(2)])
        return future


@pytest.fixture
def forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(older, "FORGETS_WORKS", True)


def _called_by(module: str, work: Work) -> Any:
    return eval("ask(work)", {"__name__": module, "ask": older.for_the_caller, "work": work})


def test_a_torch_that_keeps_works_gets_them_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(older, "FORGETS_WORKS", False)
    work = Work()
    assert older.for_the_caller(work) is work and (work.waited, work.asked) == (0, 0)


def test_torchs_python_keeps_works(forgets: None) -> None:
    work = Work()
    assert _called_by("torch.distributed.distributed_c10d", work) is work
    assert (work.waited, work.asked) == (0, 0)


@pytest.mark.parametrize("caller", ["torch._ops", "torch.distributed.utils", "program"])
def test_any_other_caller_gets_a_work_of_torch_that_is_over(forgets: None, caller: str) -> None:
    work = Work()
    given = _called_by(caller, work)
    assert type(given) is torch.distributed.Work and work.waited == 1
    assert given.is_completed() and given.wait()
    assert given.get_future().wait()[0].tolist() == [1, 1]


def test_its_error_is_raised_by_the_call(forgets: None) -> None:
    with pytest.raises(RuntimeError, match="a peer is gone"):
        _called_by("torch._ops", Work(RuntimeError("a peer is gone")))


def test_the_landing_keeps_works_for_the_reducer(forgets: None) -> None:
    work = Work()
    assert older.for_the_caller(work, is_reducer=True) is work
    assert (work.waited, work.asked) == (0, 1)
