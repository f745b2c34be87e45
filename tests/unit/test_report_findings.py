"""What `hvdlite report` says about a job, and when it says nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from report_jobs import LAYERS, Imagined

from hvdlite.observe.report.facts import Facts
from hvdlite.observe.report.findings import MOST, findings
from hvdlite.observe.report.history import History


def facts_of(job: Imagined) -> Facts:
    history = History()
    for record in job.records():
        history.add(record)
    return history.facts("train.py")


def changed(facts: Facts, **details: Any) -> Facts:
    assert facts.details is not None
    return replace(facts, details=replace(facts.details, **details))


HALF_OF_BOTH_HOSTS = {4: 0.15, 5: 0.15, 6: 0.15, 7: 0.15}
SAID: dict[str, tuple[Imagined, list[str]]] = {
    "nothing stands out": (Imagined(moving=0.05), []),
    "too short": (Imagined(seconds=4, every=1, waits={2: 0.5}), []),
    "few operations": (Imagined(seconds=90, step=10, names=["a"], waits={2: 0.5}), []),
    "one rank": (Imagined(ranks=1, moving=0.05), []),
    "a little waiting": (Imagined(waits={2: 0.09}, moving=0.05), []),
    "a rank": (
        Imagined(waits={2: 0.31}, moving=0.05),
        ["31 % of the time operations wait for rank 2."],
    ),
    "a rank of another host": (
        Imagined(waits={3: 0.4}, hosts=("a", "b"), moving=0.05),
        ["40 % of the time operations wait for rank 3 on b."],
    ),
    "all ranks of a host, of which none has half of it": (
        Imagined(ranks=8, waits=HALF_OF_BOTH_HOSTS, hosts=("a", "b"), moving=0.05),
        ["61 % of the time operations wait for some rank, and no rank stands out."],
    ),
    "all alike": (
        Imagined(waits={rank: 0.08 for rank in range(4)}, moving=0.05),
        ["32 % of the time operations wait for some rank, and no rank stands out."],
    ),
    "all alike, and too little": (
        Imagined(waits={rank: 0.04 for rank in range(4)}, moving=0.05), [],
    ),
    "a tensor": (
        Imagined(heavy="fc.weight", moving=0.3),
        ["allreduce.fc.weight alone takes 51 % of the communication."],
    ),
    "a tensor, but communication takes no time": (Imagined(heavy="fc.weight", moving=0.05), []),
    "two tensors": (Imagined(names=("a", "b"), heavy="b", moving=0.2), []),
    "half the bytes": (
        Imagined(moving=0.7),
        [
            "14 % of a step is communication after the backward pass; half the bytes would save up "
            "to 7 %."
        ],
    ),
    "two things, the larger one first": (
        Imagined(heavy="fc.weight", moving=0.6, waits={1: 0.2}),
        [
            "allreduce.fc.weight alone takes 51 % of the communication.",
            "20 % of the time operations wait for rank 1.",
            "12 % of a step is communication after the backward pass; half the bytes would save up "
            "to 6 %.",
        ],
    ),
    "no details": (Imagined(details=False, moving=0.9), []),
}  # fmt: skip


@pytest.mark.parametrize("case", SAID)
def test_what_is_said(case: str) -> None:
    job, sentences = SAID[case]
    found = findings(facts_of(job))
    assert [each.text for each in found] == sentences
    assert len(found) <= MOST and all(each.advice for each in found)


def test_all_ranks_of_a_host_that_come_late_are_a_matter_of_the_host() -> None:
    job = Imagined(ranks=8, waits={6: 0.45, 7: 0.3}, hosts=("a", "b", "c", "d"), moving=0.05)
    [found] = findings(facts_of(job))
    assert found.text == "45 % of the time operations wait for rank 6 on d."
    assert found.advice == "All ranks on d come late, so look at that host."


def test_bytes_in_shared_memory_are_not_to_be_halved() -> None:
    """docs/guides/compression.md: inside a host no compression pays."""
    facts = facts_of(Imagined(moving=0.7))
    assert facts.details is not None
    assert findings(changed(facts, ways={"shm": facts.details.bytes})) == []
    assert len(findings(changed(facts, ways={"shm": 1.0, "net": 9.0}))) == 1


TAKEN = {"host": "", "ranks": 4, "cores": 8, "each": 0.05, "others": 7.7}


def test_a_host_that_other_programs_use_comes_first() -> None:
    first, second = findings(facts_of(Imagined(moving=0.05, waits={1: 0.9}, taken=TAKEN)))
    assert first.text == (
        "The ranks get 5 % of a core each: other programs use 7.7 of the host's 8 cores."
    )
    assert second.text == "90 % of the time operations wait for rank 1."
    many = Imagined(moving=0.05, taken=TAKEN | {"host": "a"})
    facts = facts_of(many)
    [(seconds, taken)] = facts.taken
    assert seconds == pytest.approx(many.seconds / 2, abs=many.every)
    [found] = findings(replace(facts, taken=[(seconds, taken), (seconds, taken)]))
    assert "The ranks on a get" in found.text and "on 1 more of the hosts" in found.advice


def test_a_host_that_was_taken_for_a_moment_is_no_finding() -> None:
    facts = facts_of(Imagined(moving=0.05, taken=TAKEN))
    [(seconds, taken)] = facts.taken
    assert findings(replace(facts, taken=[(seconds / 3, taken)])) == []


def test_bytes_that_are_halved_already_are_not_to_be_halved() -> None:
    facts = facts_of(Imagined(moving=0.7))
    for dtypes in ({"bfloat16": 1.0}, {"float32": 0.5, "float16": 0.5}, {}):
        assert facts.details is not None
        whole = {name: share * facts.details.bytes for name, share in dtypes.items()}
        assert findings(changed(facts, dtypes=whole)) == []


@pytest.mark.parametrize(
    ("size", "advice"),
    [
        (
            1,
            "It has only 1 B, so its time is that of messages and not of bytes: use it less often.",
        ),
        (1e6, "It has 1.00 MB, 2 % of all bytes."),
        (
            2.2e7,
            "It has 22.0 MB, 54 % of all bytes. If it is an embedding, sparse gradients send only "
            "the rows that were used.",
        ),
    ],
)
def test_what_is_said_of_a_tensor_depends_on_its_size(size: float, advice: str) -> None:
    facts = facts_of(Imagined(heavy="fc.weight", moving=0.3))
    assert facts.details is not None
    first, *others = facts.details.tensors
    heavy = replace(first, bytes=size * first.operations)
    [found] = findings(changed(facts, tensors=[heavy, *others]))
    assert found.advice == advice


def test_small_tensors_that_travel_alone() -> None:
    facts = facts_of(Imagined(moving=0.3, names=LAYERS))
    assert facts.details is not None
    operations = facts.details.operations
    facts = changed(
        facts, bytes=operations * 1200.0, fusion={"1": float(operations)}, tensors=[], dtypes={}
    )
    [found] = findings(facts)
    assert found.text == (
        "Nearly all tensors travel alone, and have 1.20 kB on average; that takes 30 % of the time."
    )
    assert not findings(changed(facts, fusion={"1": 1.0, "5 to 16": 9.0}))
    assert not findings(changed(facts, bytes=operations * 1e6))


def test_names_that_are_new_in_each_step() -> None:
    facts = facts_of(Imagined(moving=0.05))
    sums = replace(facts.sum, in_full=30_000, by_number=10_000, negotiating=0.1 * facts.active)
    facts = replace(facts, totals={0: sums})
    assert [each.text for each in findings(facts)] == ["75 % of the requests are sent in full."]
    few = replace(sums, in_full=600, by_number=200)
    assert not findings(replace(facts, totals={0: few}))


def test_a_job_without_a_collective() -> None:
    assert findings(Facts()) == []
    assert findings(History().facts()) == []
