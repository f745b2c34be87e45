"""States of elastic training, their marks, and the loop around them, without other ranks."""

from __future__ import annotations

import pytest

from hvdlite import elastic
from hvdlite.elastic.session import is_foreign
from hvdlite.elastic.state import CopyPace, Marks
from hvdlite.job.membership import StateProgress
from hvdlite.rendezvous.documents import Role


def _alone(value: object, root_rank: int = 0) -> object:
    assert root_rank == 0
    return value


def _state(**kwargs: object) -> elastic.ObjectState:
    return elastic.ObjectState(_alone, lambda: 0, **kwargs)


def test_restore_undoes_changes_in_place() -> None:
    state = _state(numbers=[1, 2], epoch=0)
    state.commit()
    state.numbers.append(3)
    state.epoch = 5
    state.restore()
    assert (state.numbers, state.epoch) == ([1, 2], 0)
    state.numbers.append(4)  # the copy is not the state
    state.restore()
    assert state.numbers == [1, 2]


def test_a_state_has_a_copy_from_the_start() -> None:
    state = _state(epoch=7)
    state.epoch = 8
    state.restore()
    assert state.epoch == 7


def test_commit_counts_a_boundary_and_step_keeps_the_state_whole() -> None:
    state = _state(epoch=0)
    state.commit()
    assert state._marks.progress() == StateProgress(1, False, 1)
    state.step()
    assert state._marks.progress().position == 2 and state._marks.whole


def test_hosts_that_a_program_reports_interrupt_at_the_boundary() -> None:
    state = _state(epoch=0)
    state.on_hosts_updated(10, 1)
    with pytest.raises(elastic.HostsUpdatedInterrupt) as removed:
        state.commit()
    assert removed.value.skip_sync and state._marks.progress() == StateProgress(1, True, 1)
    state.on_hosts_updated(11, 2)
    state.on_hosts_updated(12, 1)
    with pytest.raises(elastic.HostsUpdatedInterrupt) as mixed:
        state.check_host_updates()
    assert not mixed.value.skip_sync and state._marks.whole
    assert state._last_updated_timestamp == 12
    state.on_hosts_updated(12, 2)  # is no later than what is known
    state.check_host_updates()


def test_an_interrupt_without_a_copy_is_a_boundary_too() -> None:
    state = _state(epoch=0)
    state.commit()
    state.on_hosts_updated(1, 2)
    with pytest.raises(elastic.HostsUpdatedInterrupt):
        state.check_host_updates()
    assert state._marks.progress() == StateProgress(2, True, 1)


def test_callbacks_run_in_order_behind_reset() -> None:
    done = []

    class Mine(elastic.ObjectState):
        def reset(self) -> None:
            done.append("reset")

    state = Mine(_alone, lambda: 0)
    state.register_reset_callbacks([lambda: done.append("first"), lambda: done.append("second")])
    state.on_hosts_updated(1, 2)
    state.on_reset()
    assert done == ["reset", "first", "second"] and state._host_messages.empty()


@pytest.mark.parametrize("steps", [True, False])
def test_what_the_roll_says(steps: bool) -> None:
    state = _state(epoch=0)
    state._marks.steps = steps
    state.epoch = 1
    state.commit()
    state.epoch = 2
    state._take_role(Role.KEEP, None, 1)
    assert state.epoch == (1 if steps else 2)  # step() promises that the step is done again
    state.epoch = 3
    state._take_role(Role.RESTORE, None, 1)
    assert state.epoch == 1 and state._marks.progress() == StateProgress(1, steps, 1)


@pytest.mark.parametrize("steps", [True, False])
def test_a_newcomer_learns_whether_the_program_steps(steps: bool) -> None:
    """Otherwise its state counts as torn, and an interrupt before its first step as a boundary."""
    state = elastic.ObjectState(lambda *_: ({"epoch": 7}, steps), lambda: 1, epoch=0)
    state._take_role(Role.RECEIVE, 0, 5)
    assert state.epoch == 7 and state._marks.progress() == StateProgress(5, steps, 5)


def test_a_cursor_moves_with_boundaries_and_goes_back_with_the_state() -> None:
    cursor = elastic.Cursor(100, batch_size=10, shuffle=False, rank=lambda: 0, size=lambda: 1)
    state = _state(cursor=cursor)
    cursor.begin()
    state.commit()
    assert cursor.sample == 10
    cursor.begin()
    cursor.whole()
    assert cursor.sample == 20
    state.restore()
    assert cursor.sample == 10 and state.cursor is cursor
    deal = cursor.deal
    state.on_reset()
    assert cursor.deal == deal + 1


def test_a_state_of_the_programs_own_is_foreign() -> None:
    class Named(elastic.ObjectState):
        def reset(self) -> None: ...

    class Saving(elastic.ObjectState):
        def save(self) -> None: ...

    class Synchronising(elastic.State):
        def sync(self) -> None: ...

    assert not is_foreign(_state(epoch=0)) and not is_foreign(Named(_alone))
    assert is_foreign(Saving(_alone)) and is_foreign(Synchronising(_alone)) and is_foreign(object())


def test_without_an_elastic_job_run_synchronises_and_calls() -> None:
    called = []

    class Recorded(elastic.ObjectState):
        def sync(self) -> None:
            called.append("sync")

        def reset(self) -> None:
            called.append("reset")

    state = Recorded(_alone, lambda: 0, epoch=0)

    @elastic.run
    def train(state: elastic.ObjectState, more: int, *, most: int) -> int:
        called.append("train")
        if called.count("train") == 1:
            raise elastic.HostsUpdatedInterrupt()
        return more + most

    assert train(state, 1, most=2) == 3 and train.__name__ == "train"
    assert called == ["sync", "train", "reset", "sync", "train"]


def test_an_error_ends_a_job_that_is_not_elastic() -> None:
    @elastic.run
    def train(state: elastic.ObjectState) -> None:
        raise elastic.HorovodInternalError("lost")

    with pytest.raises(elastic.HorovodInternalError, match="lost"):
        train(_state(epoch=0))


def test_marks_of_a_program_that_steps() -> None:
    marks = Marks(steps=True)
    marks.at_boundary()
    marks.go_on()
    assert marks.progress() == StateProgress(1, True, None)
    marks.tear()
    assert not marks.whole


def test_copies_take_a_hundredth_of_the_time() -> None:
    pace = CopyPace()
    assert pace.is_due()
    pace.took(1e6)
    assert not pace.is_due()
