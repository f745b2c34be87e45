"""When the works are completed for which DDP waits in C++: real backward passes in one process."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("hvdlite._core", reason="the native core is not built here")
from torch.utils.checkpoint import checkpoint  # noqa: E402

from hvdlite.torch.distributed import older  # noqa: E402
from hvdlite.torch.distributed.work import ByBackward, called_by_autograd  # noqa: E402


class Work:
    def __init__(self) -> None:
        self.completed = False

    def complete(self) -> Exception | None:
        self.completed = True
        return None


class Works:
    """What takes works that no backward pass completes."""

    def __init__(self) -> None:
        self.taken: list[Any] = []

    def take(self, work: Any) -> None:
        self.taken.append(work)


def test_works_of_a_backward_pass_are_complete_at_its_end() -> None:
    others = Works()
    completer, work, layer = ByBackward(others), Work(), torch.nn.Linear(2, 2)
    layer.weight.register_post_accumulate_grad_hook(lambda _: completer.take(work))
    layer(torch.ones(1, 2)).sum().backward()
    assert work.completed and completer.completed == 1 and others.taken == []
    completer.take(work)
    assert others.taken == [work] and completer.completed == 1


def test_works_of_both_backward_passes_are_complete_when_the_inner_one_ends() -> None:
    completer, inner, outer = ByBackward(Works()), Work(), Work()
    first, last = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    first.weight.register_post_accumulate_grad_hook(lambda _: completer.take(inner))
    last.weight.register_post_accumulate_grad_hook(lambda _: completer.take(outer))
    x, seen = torch.ones(1, 2, requires_grad=True) * 1, []
    x.register_hook(
        lambda _: seen.append((inner.completed, outer.completed))
    )  # the inner one has ended
    last(checkpoint(first, x, use_reentrant=True)).sum().backward()
    assert seen == [(True, True)] and completer.completed == 2


def test_works_of_the_last_backward_pass_are_kept_only_for_a_torch_that_forgets_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    completer, layer = ByBackward(Works()), torch.nn.Linear(2, 2)
    works = [Work(), Work(), Work()]
    layer.weight.register_post_accumulate_grad_hook(
        lambda _: completer.take(works[completer.completed])
    )
    for forgets, kept in ((False, []), (True, [works[1]]), (True, [works[2]])):
        monkeypatch.setattr(older, "FORGETS_WORKS", forgets)
        layer(torch.ones(1, 2)).sum().backward()
        assert completer.kept == kept


def _program() -> bool:
    return called_by_autograd()


def test_only_what_autograd_calls_for_a_complete_gradient_is_called_by_autograd() -> None:
    found: dict[str, bool] = {}

    def autograd_calls(_: Any) -> None:
        found["C++"] = called_by_autograd()
        # as a hook of DDP in Python, which may wait before the backward pass ends
        found["a function in Python"] = _program()
        engine = torch.autograd.Variable._execution_engine
        engine.queue_callback(lambda: found.update({"the end": called_by_autograd()}))

    layer = torch.nn.Linear(2, 2)
    layer.weight.register_post_accumulate_grad_hook(autograd_calls)
    output = layer(torch.ones(1, 2))
    output.register_hook(lambda _: found.update({"another gradient": called_by_autograd()}))
    output.sum().backward()
    assert found.pop("C++") and len(found) == 3 and not any(found.values()), found
