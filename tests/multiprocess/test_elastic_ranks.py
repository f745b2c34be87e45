"""The ranks' side of an elastic job: survivors go on in their processes, and newcomers join them."""

from __future__ import annotations

from pathlib import Path

from elastic_members import Members

from hvdlite.rendezvous.roll import Part

# Each step adds exactly 1 to all weights, whatever the number of ranks is: a step that is lost or
# done twice is seen at once. Member 2 waits for its death in step 5 of the first generation.
# With two ranks it goes on until there are three again, and then for five steps.
NUMPY = """
import hvdlite as hvd
hvd.init()
state = hvd.elastic.ObjectState(weights=np.zeros(1000), steps=0, after=0)
state.register_reset_callbacks([lambda: tell(reset=hvd.size())])

@hvd.elastic.run
def train(state):
    tell(rank=hvd.rank(), size=hvd.size(), generation=hvd.elastic.generation(), steps=state.steps)
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


def test_survivors_of_a_kill_go_on_and_a_newcomer_joins_them(tmp_path: Path) -> None:
    with Members(tmp_path, NUMPY) as members:
        for number in range(3):
            members.start(number, size=3)
        first = members.form(members.gather((), range(3)))
        assert first.source == 0
        members.job.wait_for_files(["waits.2"])

        members.kill(2)
        members.tell(broken=True, lost=(2,))
        reports = members.gather((0, 1))
        assert all(report.broken and not report.whole and report.copy == 5 for report in reports)
        second = members.form(reports)
        assert second.source is None and second.position == 5

        members.start(3, size=3, slot=2, meets=False)
        newcomers = members.gather((), (3,))
        members.tell(ready=(3,))
        survivors = members.gather((0, 1))
        assert all(r.whole and not r.broken and r.position >= 6 for r in survivors)
        third = members.form([*survivors, *newcomers])
        assert [entry.part for entry in third.members] == [Part.KEEP, Part.KEEP, Part.RECEIVE]
        members.end_well(0, 1, 3)

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
