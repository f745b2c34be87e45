"""What a TorchState tells the driver, and the random numbers of a step that is done again."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from hvdlite.rendezvous.documents import Role  # noqa: E402
from hvdlite.torch.elastic import TorchState  # noqa: E402


def _state(width: int = 3, seed: int = 0) -> TorchState:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.BatchNorm1d(width))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    state = TorchState(model, optimizer, epoch=0)
    model(torch.ones(2, 4)).square().sum().backward()
    optimizer.step()
    state.step()
    return state


def test_shapes_and_types_of_a_model_and_its_optimizer_are_told() -> None:
    alike = dict(_state()._described()[0])
    assert alike["model.0.weight"] == "float32[3, 4]" and alike["model.1.running_var"]
    assert alike["optimizer.parameters by group"] == "[4]"
    assert dict(_state(5)._described()[0])["model.0.weight"] == "float32[5, 4]"


def test_checksums_are_of_what_all_ranks_have_alike() -> None:
    mine, same, other = (dict(_state(seed=seed)._described()[1]) for seed in (0, 0, 1))
    names = {name.split(" (")[0] for name in mine}
    assert {"model.0.weight", "optimizer.exp_avg of parameter 0"} <= names
    assert not any("running" in name for name in names), "BatchNorm's buffers are a rank's own"
    assert mine == same and mine.keys() == other.keys() and mine != other


def test_a_failed_step_that_has_not_updated_leaves_the_checksums() -> None:
    state = _state()
    before = state._described()[1]
    state.model(torch.randn(5, 4)).sum().backward()  # BatchNorm's buffers change
    assert state._described()[1] == before


def test_parameters_with_sparse_gradients_have_no_checksum() -> None:
    model = torch.nn.Embedding(10, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(model.parameters())
    state = TorchState(model, optimizer)
    model(torch.tensor([1, 1, 2])).sum().backward()
    optimizer.step()
    state.step()
    assert state._described()[1] == ()


def test_gradients_of_a_failed_step_are_gone_when_other_ranks_go_on() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(10, 3, sparse=True), torch.nn.Linear(3, 1))
    state = TorchState(model, torch.optim.SGD(model.parameters(), lr=0.1))
    state.step()
    model(torch.tensor([1, 1, 2])).sum().backward()
    state.on_reset()
    sparse, *others = (parameter.grad for parameter in model.parameters())
    assert others == [None, None] and sparse._nnz() == 0
    # A parameter with sparse gradients is told from others by its gradient.
    names = {name.split(" (")[0] for name in dict(state._described()[1])}
    assert "model.1.weight" in names and "model.0.weight" not in names


def test_a_step_that_is_done_again_draws_the_same_random_numbers() -> None:
    state = _state()
    first = torch.rand(3)
    state._take_role(Role.KEEP, None, 1)
    assert torch.equal(torch.rand(3), first)


def test_without_memory_for_a_copy_the_job_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    state = _state()
    assert state._marks.copy is not None

    def empty(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 B")

    state._handlers["model"]._copy.kept = None  # its memory has to be allocated again
    monkeypatch.setattr(torch, "empty", empty)
    state.commit()
    assert state._marks.copy is None and "no memory for a copy of the state" in caplog.text
    monkeypatch.undo()
    state.commit()
    assert state._marks.copy == state._marks.position


def test_another_error_in_a_copy_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    state = _state()

    def save() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(state._handlers["model"], "save", save)
    with pytest.raises(RuntimeError, match="a bug"):
        state.commit()
