"""The ranks of an elastic job: survivors go on in their processes, and newcomers join them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from elastic_members import Members
from machine import within

from hvdlite.rendezvous.documents import Assignment, Report, Role

# Each step adds exactly 1 to all weights, whatever the number of ranks is: a step that is lost or
# done twice is seen at once. Member 2 waits for its death in step 5 of the first generation.
# With two ranks it goes on until there are three again, and then for five steps.
NUMPY = """
import hvdlite as hvd
hvd.init()
state = hvd.elastic.ObjectState(weights=np.zeros(1000), steps=0, after=0)
state.register_reset_callbacks([lambda: tell(reset=hvd.size())])
sets = []

@hvd.elastic.run
def train(state):
    tell(rank=hvd.rank(), size=hvd.size(), generation=hvd.elastic.generation(), steps=state.steps)
    assert all(known.process_set_id is None for known in sets), "a number may mean another set now"
    if hvd.size() > 1:
        sets.append(hvd.add_process_set([0]))
    while state.after < 5:
        assert (state.weights == state.steps).all(), (state.steps, state.weights)
        if MEMBER == 2 and state.steps == 5:
            wait_to_be_killed()
        state.weights += hvd.allreduce(np.ones(1000), name="gradient")
        state.steps += 1
        if hvd.elastic.generation() == 3:
            state.after += 1
        state.commit()
    return float(state.weights.sum())

tell(end=train(state), steps=state.steps, size=hvd.size())
"""


def _begin(members: Members) -> Assignment:
    """Three members train until member 2 waits for its death."""
    for number in range(3):
        members.start(number, size=3)
    first = members.form(members.gather((), range(3)))
    members.job.wait_for_files(["waits.2"])
    return first


def _lose(members: Members, *numbers: int, left: Sequence[int]) -> list[Report]:
    """What the others report when these are killed."""
    for number in numbers:
        members.kill(number)
    members.tell(broken=True, lost=numbers)
    return members.gather(left)


def _newcomer(members: Members) -> tuple[list[Report], list[Report]]:
    """Member 3 comes for member 2: what the survivors report, and what it does."""
    members.start(3, size=3, slot=2, meets=False)
    newcomers = members.gather((), (3,))
    members.tell(ready=(3,))
    return members.gather((0, 1)), newcomers


def test_survivors_of_a_kill_go_on_and_a_newcomer_joins_them(tmp_path: Path) -> None:
    with Members(tmp_path, NUMPY) as members:
        assert _begin(members).source == 0
        reports = _lose(members, 2, left=(0, 1))
        assert all(report.broken and not report.whole and report.copy == 5 for report in reports)
        second = members.form(reports)
        assert second.source is None and second.position == 5

        survivors, newcomers = _newcomer(members)
        assert all(r.whole and not r.broken and r.position >= 6 for r in survivors)
        third = members.form([*survivors, *newcomers])
        assert [entry.role for entry in third.members] == [Role.KEEP, Role.KEEP, Role.RECEIVE]
        members.end_well(numbers=(0, 1, 3))

        said = {number: members.told(number) for number in (0, 1, 3)}
        for number in (0, 1):
            lines = said[number]
            assert len({line["pid"] for line in lines}) == 1
            assert [line["size"] for line in lines if "generation" in line] == [3, 2, 3]
            assert [line["reset"] for line in lines if "reset" in line] == [2, 3]
        assert [line["generation"] for line in said[3] if "generation" in line] == [3]
        ends = [lines[-1] for lines in said.values()]
        assert ends[0]["end"] == 1000 * ends[0]["steps"]
        assert len({(end["end"], end["steps"], end["size"]) for end in ends}) == 1
        for number in (0, 1, 3):
            members.wait_for_key(f"elastic/trains/{number}")
            members.wait_for_key(f"elastic/done/{number}")


# The model's gradient is the same on all ranks, so the weights tell how many steps were made.
# A second optimizer, made inside the function, has the same name on survivors and newcomers.
TORCH = """
import torch
import hvdlite.torch as hvd
hvd.init()
torch.manual_seed(MEMBER)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
optimizer = hvd.DistributedOptimizer(
    torch.optim.Adam(model.parameters(), lr=0.01), named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
assert hvd.broadcast_object(7, root_rank=0) == 7
sampler = hvd.elastic.ElasticSampler(range(1000), shuffle=False)
state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, steps=0, after=0)
inside = []

@hvd.elastic.run
def train(state):
    tell(rank=hvd.rank(), size=hvd.size(), generation=hvd.elastic.generation(), steps=state.steps)
    other = torch.nn.Linear(2, 1)
    inside.append(hvd.DistributedOptimizer(
        torch.optim.SGD(other.parameters(), lr=0.1), named_parameters=other.named_parameters()))
    while state.after < 5:
        optimizer.zero_grad()
        torch.manual_seed(state.steps)  # the same batch on all ranks
        if MEMBER == 2 and state.steps == 5:
            wait_to_be_killed()
        model(torch.randn(16, 4)).square().mean().backward()
        optimizer.step()
        inside[-1].zero_grad()
        other(torch.ones(1, 2)).sum().backward()
        inside[-1].step()
        sampler.record_batch(state.steps, 2)
        state.steps += 1
        if hvd.elastic.generation() == 3:
            state.after += 1
        state.END_OF_STEP()

train(state)
flat = torch.cat([t.double().reshape(-1) for t in model.state_dict().values()])
adam = [t.double().sum() for s in optimizer.state.values() for t in s.values()]
tell(end=[float(flat.sum()), float(torch.stack(adam).sum())], steps=state.steps, size=hvd.size(),
     processed=sampler.processed_num, left=len(sampler))
"""


@pytest.mark.costly
@pytest.mark.parametrize("end_of_step", ["commit", "step"])
def test_models_are_equal_after_a_kill_and_a_newcomer(tmp_path: Path, end_of_step: str) -> None:
    with Members(tmp_path, TORCH.replace("END_OF_STEP", end_of_step)) as members:
        _begin(members)
        reports = _lose(members, 2, left=(0, 1))
        expected = (5, True) if end_of_step == "step" else (5, False)
        assert [(report.position, report.whole) for report in reports] == [expected] * 2
        second = members.form(reports)
        assert second.source is None and second.position == 5

        survivors, newcomers = _newcomer(members)
        members.form([*survivors, *newcomers])
        members.end_well(numbers=(0, 1, 3))

        ends = [members.told(number)[-1] for number in (0, 1, 3)]
        for end in ends:
            del end["pid"]
        assert ends[0] == ends[1] == ends[2]
        # Five steps of three ranks, then some of two, then five of three, in batches of 2.
        steps = ends[0]["steps"]
        assert ends[0]["processed"] == 2 * (3 * 10 + 2 * (steps - 10))


def test_survivors_in_commit_keep_the_step_that_all_have_finished(tmp_path: Path) -> None:
    lines = NUMPY.splitlines()
    place = next(n for n, line in enumerate(lines) if "state.commit()" in line)
    death = "        if MEMBER == 2 and state.steps == 6: wait_to_be_killed()"
    program = "\n".join([*lines[:place], death, *lines[place:]])
    program = program.replace("steps == 5", "steps == -1")
    with Members(tmp_path, program) as members:
        _begin(members)
        for number in (0, 1):
            members.wait_until_still(number)  # in commit()
        reports = _lose(members, 2, left=(0, 1))
        assert [(r.position, r.whole, r.copy) for r in reports] == [(6, True, 6)] * 2
        second = members.form(reports)
        assert [entry.role for entry in second.members] == [Role.KEEP] * 2
        members.form(_lose(members, 0, left=(1,)))
        members.end_well(numbers=(1,))
        last = members.told(1)[-1]
        assert last["end"] == 1000 * last["steps"]


def test_a_newcomer_that_dies_while_it_receives_leaves_the_others_whole(tmp_path: Path) -> None:
    program = NUMPY.replace(
        "@hvd.elastic.run",
        "if MEMBER == 3: type(state)._receive = lambda *_: wait_to_be_killed()\n@hvd.elastic.run",
    ).replace("generation() == 3", "generation() == 4")
    with Members(tmp_path, program) as members:
        _begin(members)
        members.form(_lose(members, 2, left=(0, 1)))
        survivors, newcomers = _newcomer(members)
        members.form([*survivors, *newcomers])
        members.job.wait_for_files(["waits.3"])
        again = _lose(members, 3, left=(0, 1))
        assert all(report.whole and report.broken for report in again)
        assert {report.position for report in again} == {survivors[0].position}
        members.form(again)
        members.end_well(numbers=(0, 1))
        ends = [members.told(number)[-1] for number in (0, 1)]
        assert ends[0]["end"] == ends[1]["end"] == 1000 * ends[0]["steps"]


def test_a_death_before_the_engines_are_up_leads_to_the_next_generation(tmp_path: Path) -> None:
    with Members(tmp_path, NUMPY) as members:
        _begin(members)
        reports = _lose(members, 2, left=(0, 1))
        members.kill(1)  # it will never come to this generation, whose assignment names it
        members.write_assignment(reports)
        members.server.call_off("g2/init", "member 1 has ended before it joined")
        alone = members.gather((0,))
        assert alone[0].broken and alone[0].copy == 5
        assert members.form(alone).member_numbers() == (0,)
        members.end_well(numbers=(0,))
        assert [line["size"] for line in members.told(0) if "size" in line] == [3, 1, 1]


def test_a_death_in_init_is_repaired_in_init(tmp_path: Path) -> None:
    program = "import hvdlite as hvd\nhvd.init()\ntell(size=hvd.size())"
    with Members(tmp_path, program) as members:
        for number in range(3):
            members.start(number, size=3)
        reports = members.gather((), range(3))
        members.kill(2)
        members.write_assignment(reports)
        members.server.call_off("g1/init", "member 2 has ended before it joined")
        again = members.gather((0, 1))
        assert all(report.newcomer and report.meets and report.broken for report in again)
        members.form(again)
        members.end_well(numbers=(0, 1))
        assert [members.told(number)[0]["size"] for number in (0, 1)] == [2, 2]


ALONE = """
import hvdlite as hvd
hvd.init()
assert hvd.is_initialized() and not hvd.elastic.generation()
tell(place=[hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()], slot=hvd.elastic.slot())
assert (hvd.broadcast(np.arange(3), root_rank=1) == np.arange(3)).all()
assert hvd.broadcast_object({"a": MEMBER}, root_rank=1) == {"a": MEMBER}
for refused in (lambda: hvd.allreduce(np.ones(3)), hvd.barrier, lambda: hvd.allgather_object(1)):
    try:
        refused()
        tell(refused=False)
    except RuntimeError as error:
        assert "hvd.elastic.run" in str(error), error
state = hvd.elastic.ObjectState(number=MEMBER)
state.register_reset_callbacks([lambda: tell(reset=hvd.size())])
tell(end=hvd.elastic.run(lambda state: (hvd.rank(), hvd.size(), state.number))(state))
"""


@pytest.mark.parametrize("meets", [True, False])
def test_a_newcomer_warms_up_alone_and_knows_what_to_expect(tmp_path: Path, meets: bool) -> None:
    with Members(tmp_path, ALONE) as members:
        members.generation = 6  # of a job that has trained for long
        members.start(7, size=4, slot=3, meets=meets)
        members.start(8, size=4, slot=2, meets=meets)
        if meets:  # they came too late for the generation that meets in init()
            for report in members.gather((), (7, 8)):
                assert report.meets
                members.place(report.member, 0)
        reports = members.gather((), (7, 8))
        assert not any(report.meets for report in reports)
        members.form(reports)
        members.end_well(numbers=(7, 8))
        first, second = members.told(7), members.told(8)
        assert [line.get("place") for line in (first[0], second[0])] == [[3, 4, 3, 4], [2, 4, 2, 4]]
        assert [line["slot"] for line in (first[0], second[0])] == [3, 2]
        assert [line["reset"] for line in first[1:-1]] == [2]
        assert (first[-1]["end"], second[-1]["end"]) == ([0, 2, 7], [1, 2, 7])


def test_a_member_that_the_roll_does_not_name_ends_with_a_sentence(tmp_path: Path) -> None:
    with Members(tmp_path, NUMPY) as members:
        _begin(members)
        reports = _lose(members, 2, left=(0, 1))
        members.form(reports[:1])
        assert members.processes[1].wait(within(20)) == 0
        assert "the job goes on without this process (member 1)" in members.outputs()
        members.kill(0)
