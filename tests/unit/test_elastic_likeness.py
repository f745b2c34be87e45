"""Newcomers that do not fit are refused by name, and the members that train go on: row 32."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from elastic_job import Job, running

from hvdlite import elastic
from hvdlite.elastic import handlers
from hvdlite.elastic.handlers import StateHandler
from hvdlite.job.membership import StateProgress
from hvdlite.launch.elastic import events
from hvdlite.launch.elastic.store_events import StoreEvents
from hvdlite.rendezvous import documents
from hvdlite.rendezvous.documents import (
    ALL_OTHERS,
    Report,
    Role,
    difference,
    encode_report,
    fitting,
)
from hvdlite.rendezvous.fields import MOST_BYTES
from hvdlite.rendezvous.last_step import Inconsistent, decide

ALIKE = (("model.weight", "float32[3, 4]"), ("model.bias", "float32[3]"))


@pytest.mark.parametrize(
    ("newcomers", "said"),
    [
        (ALIKE, ""),
        (ALIKE[::-1], ""),
        (ALIKE[:1], "it has no model.bias, which the job has"),
        ((*ALIKE, ("more", "x")), "it has more, which the job has not"),
        (
            (("model.weight", "float32[3, 5]"), ALIKE[1]),
            "model.weight is float32[3, 5] there, and float32[3, 4] in the job",
        ),
    ],
)
def test_the_first_difference_is_named(newcomers: tuple[tuple[str, str], ...], said: str) -> None:
    assert difference(Report(2, 0, newcomer=True, alike=newcomers), Report(1, 5, alike=ALIKE)) == (
        said
    )


def test_what_a_report_has_no_room_for_is_compared_by_a_checksum() -> None:
    many = [(f"tensor {n} \n" + "é" * 700, f"float32[{n}]") for n in range(2000)]
    short = fitting(many)
    assert short == fitting(many) and short[-1][0] == ALL_OTHERS and len(short) < len(many)
    data = encode_report(Report(1, 1, alike=short, fingerprints=short), bytes(32))
    assert len(data) < MOST_BYTES
    assert documents.decode_report(data, bytes(32), 1, 1).alike == short
    changed = fitting([*many[:-1], ("last", "float32[7]")])
    assert changed[:-1] == short[:-1] and changed[-1] != short[-1]


# The driver.


def _with_a_free_slot() -> tuple[Job, int]:
    """Two members train, and a newcomer has been started. Returns its number, too."""
    job = running("here:3").die(3).report(1, 2, alike=ALIKE).form(1, 2)
    while not job.starts:
        due = job.machine.due()
        assert due is not None
        job.hear(after=max(0.0, due - job.now))
    [(member, _, _)] = job.starts
    return job, member


@pytest.mark.parametrize("fits", [True, False])
def test_a_newcomer_with_other_tensors_is_refused_by_name_and_the_others_go_on(fits: bool) -> None:
    job, newcomer = _with_a_free_slot()
    alike = ALIKE if fits else (("model.weight", "float32[9]"), ALIKE[1])
    job.hear(events.Reported(Report(newcomer, 0, newcomer=True, alike=alike)))
    assert job.notice.ready == (newcomer,)
    job.report(1, alike=ALIKE).report(2, alike=ALIKE)
    assert not job.all(events.End)
    if fits:
        assert job.assignment.member_numbers() == (1, 2, newcomer) and job.kills == []
        return
    assert job.assignment.member_numbers() == (1, 2) and job.kills == [newcomer]
    assert job.the(events.Say).text == (
        f"member {newcomer} on here is refused: model.weight is float32[9] there, and float32[3, "
        "4] in the job."
    )
    job.form(1, 2).die(newcomer)
    assert newcomer not in job.machine.members.by_number and not job.all(events.Tell)


def test_a_state_that_tells_nothing_of_itself_is_not_compared() -> None:
    """That of a program with a save() or sync() of its own."""
    job, newcomer = _with_a_free_slot()
    job.warm(newcomer).hear(after=3.0)
    assert job.report(1).report(2).assignment.member_numbers() == (1, 2, newcomer)


def test_a_newcomer_of_another_release_is_refused_by_name() -> None:
    said: list[str] = []
    store_events = StoreEvents(said.append)
    token = store_events.new_token(7)
    report = Report(7, 0, newcomer=True)
    fields = {**json.loads(encode_report(report, token)), "release": "9.9", "of a later one": [1]}
    del fields["seal"]
    sealed = {**fields, "seal": documents._seal(fields, token)}
    [unfit] = store_events.read([("report/0/7", json.dumps(sealed).encode())], 0.0)
    why = "it runs hvdlite 9.9, and hvdliterun runs hvdlite "
    assert isinstance(unfit, events.Unfit) and unfit.member == 7 and unfit.why.startswith(why)
    forged = {**fields, "seal": documents._seal(fields, bytes(32))}
    assert store_events.read([("report/0/7", json.dumps(forged).encode())], 0.0) == []
    assert "not sealed" in said[0]
    job, newcomer = _with_a_free_slot()
    job.hear(events.Unfit(newcomer, unfit.why))
    assert job.kills == [newcomer] and not job.all(events.End) and not job.all(events.Tell)
    assert f"member {newcomer} on here is refused: {why}" in job.the(events.Say).text


# What ranks say.


class Tensor(StateHandler):
    def save(self) -> None: ...
    def restore(self) -> None: ...
    def sync(self, root_rank: int = 0) -> None: ...

    def form(self) -> dict[str, str]:
        return {"weight": str(self.value.shape)}

    def fingerprints(self) -> dict[str, str]:
        return {"weight": handlers.checksum([self.value.tobytes()])}


def _state(value: object) -> elastic.ObjectState:
    class State(elastic.ObjectState):
        def _handler_of(self, value: object) -> StateHandler | None:
            return Tensor(value) if isinstance(value, np.ndarray) else super()._handler_of(value)

    return State(lambda value, root=0: value, lambda: 0, model=value, epoch=0)


def test_a_state_tells_settings_and_tensors_and_checksums_only_while_it_is_whole() -> None:
    state = _state(np.arange(3.0))
    alike, fingerprints = state._described()
    assert ("model.weight", "(3,)") in alike and fingerprints == ()
    assert any(name.startswith("HVDLITE_") for name, _ in alike)
    state.step()
    [(name, checksum)] = state._described()[1]
    assert name == f"model.weight ({handlers.processor()})" and len(checksum) == 8


def test_a_replica_that_has_drifted_is_named() -> None:
    reports = []
    for member, number in enumerate((3.0, 3.0, 3.5)):
        state = _state(np.arange(number))
        state.step()
        alike, fingerprints = state._described()
        reports.append(
            Report(member, 2, position=1, whole=True, alike=alike, fingerprints=fingerprints)
        )
    assert set(decide(reports[:2]).roles.values()) == {Role.KEEP}
    with pytest.raises(Inconsistent, match=r"members 0 and 2 are both .* model.weight .* differs"):
        decide(reports)
    on_another_processor = replace(
        reports[2],
        fingerprints=tuple((f"{name} x", value) for name, value in reports[2].fingerprints),
    )
    assert set(decide([*reports[:2], on_another_processor]).roles.values()) == {Role.KEEP}


def test_a_step_that_is_done_again_draws_the_same_random_numbers() -> None:
    def draws() -> tuple[float, float]:
        return random.random(), float(np.random.random())

    state = elastic.ObjectState(lambda value: value, lambda: 0, epoch=0)
    state.step()
    first = draws()
    state._take_role(Role.KEEP, None, 1)
    assert draws() == first
    state._take_role(Role.RESTORE, None, 1)
    assert draws() == first
    state.commit()
    later = draws()
    assert later != first


def test_a_program_that_commits_keeps_its_random_numbers() -> None:
    """As with Horovod: only step() promises more."""
    state = elastic.ObjectState(lambda value: value, lambda: 0, epoch=0)
    state.commit()
    first = random.random()
    state._take_role(Role.RESTORE, None, 1)
    assert random.random() != first


def test_without_memory_for_a_copy_the_job_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    class Big:
        def __deepcopy__(self, memo: object) -> None:
            raise MemoryError("no room")

    state = elastic.ObjectState(lambda value: value, lambda: 0, epoch=0)
    state.epoch = Big()
    state.commit()
    assert state._marks.progress() == StateProgress(1, False, None) and "no room" in caplog.text
    state.epoch = 3
    state.commit()
    assert state._marks.copy == 2
