"""TorchState and ElasticSampler in one process: what is copied, put back and dealt."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("hvdlite._core", reason="the native core is not built here")

import hvdlite.torch as hvd  # noqa: E402
from hvdlite.core import engine  # noqa: E402
from hvdlite.job import basics  # noqa: E402
from hvdlite.rendezvous.documents import Role  # noqa: E402
from hvdlite.torch.elastic.handlers import StateHandler  # noqa: E402
from hvdlite.torch.elastic.state import get_handler_registry, set_handler_registry  # noqa: E402

pytestmark = pytest.mark.usefixtures("alone")


def _made() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    return model, torch.optim.Adam(model.parameters(), lr=0.1)


def _train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, update: bool = True) -> None:
    optimizer.zero_grad()
    model(torch.randn(8, 3)).square().sum().backward()
    if update:
        optimizer.step()


def _numbers(*parts: object) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []

    def walk(value: object) -> None:
        if isinstance(value, torch.Tensor):
            found.append(value.detach().clone())
        elif isinstance(value, dict):
            [walk(item) for item in value.values()]
        elif isinstance(value, list):
            [walk(item) for item in value]

    for part in parts:
        walk(part.state_dict())  # type: ignore[attr-defined]
    return found


def _equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


def test_restore_goes_back_to_the_commit_as_often_as_needed() -> None:
    model, optimizer = _made()
    state = hvd.elastic.TorchState(model, optimizer, batch=3)
    _train(model, optimizer)
    state.commit()
    before = _numbers(model, optimizer)
    for _ in range(2):  # what is put back is not the copy itself
        _train(model, optimizer)
        state.batch += 1
        assert not _equal(before, _numbers(model, optimizer))
        state.restore()
        assert _equal(before, _numbers(model, optimizer)) and state.batch == 3


def test_the_memory_of_a_copy_is_allocated_once() -> None:
    model, optimizer = _made()
    state = hvd.elastic.TorchState(model, optimizer)
    _train(model, optimizer)
    state.commit()
    handlers = [state._handlers[name] for name in ("model", "optimizer")]
    before = [handler._copy.kept for handler in handlers]
    places = before[0]["0.weight"].data_ptr(), before[1]["state"][0]["exp_avg"].data_ptr()
    _train(model, optimizer)
    state.commit()
    after = [handler._copy.kept for handler in handlers]
    assert places == (after[0]["0.weight"].data_ptr(), after[1]["state"][0]["exp_avg"].data_ptr())


@pytest.mark.parametrize("distributed", [False, True])
def test_a_step_is_torn_from_its_update_on(distributed: bool) -> None:
    model, optimizer = _made()
    if distributed:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    state = hvd.elastic.TorchState(model, optimizer, batch=0)
    _train(model, optimizer)
    state.step()
    assert state._marks.whole
    before = _numbers(model, optimizer)
    _train(model, optimizer, update=False)
    state.batch = 9
    assert state._marks.whole and not _equal(before, _numbers(model, optimizer))  # BatchNorm's
    state._take_role(Role.KEEP, None, 1)
    assert _equal(before, _numbers(model, optimizer)) and state.batch == 0
    _train(model, optimizer)
    assert not state._marks.whole


def test_a_step_whose_reduction_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVDLITE_ELASTIC", "1")
    model, _ = _made()
    optimizer = hvd.DistributedOptimizer(torch.optim.AdamW(model.parameters(), weight_decay=0.5))
    state = hvd.elastic.TorchState(model, optimizer)
    _train(model, optimizer)
    state.step()
    before = _numbers(optimizer) + [p.detach().clone() for p in model.parameters()]
    engine.abort("rank 0 was lost")
    with pytest.raises(hvd.HorovodInternalError, match="was lost"):
        _train(model, optimizer)
    after = _numbers(optimizer) + [p.detach().clone() for p in model.parameters()]
    assert _equal(before, after) and state._progress().whole


def test_buffers_are_put_back_into_those_that_a_step_has_assigned() -> None:
    model, optimizer = _made()
    state = hvd.elastic.TorchState(model, optimizer)
    state.step()
    model.add_module("later", torch.nn.BatchNorm1d(4))
    _train(model, optimizer)
    state.commit()  # the steps behind it keep the buffers of "later", too
    state.step()
    before = _numbers(model)
    model[1].running_mean = torch.full((4,), 7.0)
    _train(model, optimizer, update=False)
    assert not _equal(before, _numbers(model))
    state._take_role(Role.KEEP, None, 3)
    assert _equal(before, _numbers(model))
    state.step()
    model[1].running_mean.add_(1)
    state._take_role(Role.KEEP, None, 4)
    assert _equal(before, _numbers(model))


def test_a_model_that_is_assigned_takes_the_place_of_the_old_one() -> None:
    model, optimizer = _made()
    state = hvd.elastic.TorchState(model, optimizer)
    other, _ = _made()
    state.model = other
    before = _numbers(other)
    with torch.no_grad():
        other[0].weight.zero_()
    state.restore()
    assert state.model is other and _equal(before, _numbers(other))


def test_schedules_and_several_models_belong_to_the_state() -> None:
    (model, optimizer), (other, _) = _made(), _made()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
    state = hvd.elastic.TorchState(model, optimizer, other=other, schedule=schedule)
    _train(model, optimizer)
    schedule.step()
    with torch.no_grad():
        other[0].weight.zero_()
    state.restore()
    assert state.schedule is schedule and schedule.last_epoch == 0
    assert optimizer.param_groups[0]["lr"] == 0.1 and other[0].weight.abs().sum() > 0
    assert hvd.elastic.TorchState().model is None


def test_copies_always() -> None:
    model, optimizer = _made()
    state = hvd.elastic.TorchState(model, optimizer, copies="always")
    for n in range(1, 4):
        _train(model, optimizer)
        state.step()
        assert state._marks.copy == n
    with pytest.raises(ValueError, match="expected 'auto' or 'always'"):
        hvd.elastic.TorchState(copies="never")


def test_a_handler_of_the_programs_own() -> None:
    class Mine:
        number = 1

    class MineHandler(StateHandler):
        def save(self) -> None:
            self.kept = self.value.number

        def restore(self) -> None:
            self.value.number = self.kept

        def sync(self, root_rank: int = 0) -> None: ...

    before = get_handler_registry()
    set_handler_registry([(Mine, MineHandler), *before])
    try:
        state = hvd.elastic.TorchState(mine=Mine())
    finally:
        set_handler_registry(before)
    state.mine.number = 2
    state.restore()
    assert state.mine.number == 1


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_sampler_goes_on_with_other_ranks(monkeypatch: pytest.MonkeyPatch, shuffle: bool) -> None:
    place = {"rank": 0, "size": 2}
    monkeypatch.setattr(basics, "rank", lambda: place["rank"])
    monkeypatch.setattr(basics, "size", lambda: place["size"])

    def dealt(sampler: hvd.elastic.ElasticSampler) -> list[list[int]]:
        parts = []
        for rank in range(place["size"]):
            place["rank"] = rank
            sampler.reset()
            assert len(sampler) == len(list(sampler))
            parts.append(list(sampler))
        return parts

    sampler = hvd.elastic.ElasticSampler(range(11), shuffle=shuffle, seed=3)
    sampler.set_epoch(1)
    first = dealt(sampler)
    assert [len(part) for part in first] == [6, 6] and {*first[0], *first[1]} == set(range(11))
    sampler.record_batch(0, 2)
    assert sampler.state_dict() == {"epoch": 1, "processed_num": 4}
    seen = {*first[0][:2], *first[1][:2]}
    place["size"] = 3
    later = hvd.elastic.ElasticSampler(range(11), shuffle=shuffle, seed=3)
    later.load_state_dict(sampler.state_dict())
    rest = dealt(later)
    assert {index for part in rest for index in part} == set(range(11)) - seen
    later.record_batch(0, 4)
    assert dealt(later) == [[], [], []]


def test_importing_the_adapter_imports_nothing_of_it() -> None:
    import subprocess
    import sys

    program = (
        "import sys, hvdlite.torch\n"
        "new = {'hvdlite.elastic', 'hvdlite.job.membership', 'hvdlite.rendezvous.documents'}\n"
        "sys.exit(str(new & set(sys.modules)) if new & set(sys.modules) else 0)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
