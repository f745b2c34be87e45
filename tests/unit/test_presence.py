"""Which gradients the ranks have: what each says, what all conclude, and what a disagreement is
called."""

from __future__ import annotations

import pytest

from hvdlite.adapter.agreement import presence


def _heard(*words: list[int]) -> list[int]:
    return [max(column) for column in zip(*words, strict=True)]


FROZEN, LACKING = {"trained": []}, {"trained": [0], "lacking": [0]}
DENSE, SPARSE, DEEPER = (
    {"trained": [0]},
    {"trained": [0], "sparse": {0: 1}},
    {"trained": [0], "sparse": {0: 3}},
)


def _said(how: dict[str, object]) -> list[int]:
    return presence.words(1, **{"trained": [], "lacking": [], "sparse": {}, **how})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ranks", "kind", "differently", "both"),
    [
        ([DENSE, DENSE], "dense", False, False),
        ([DENSE, LACKING], "dense", False, False),
        ([LACKING, LACKING], "lacking", False, False),
        ([SPARSE, LACKING], "sparse", False, False),
        ([LACKING, DEEPER], "sparse", False, False),
        ([FROZEN, FROZEN], "frozen", False, False),
        ([FROZEN, LACKING], "", True, False),
        ([DENSE, FROZEN], "", True, False),
        ([SPARSE, FROZEN], "", True, False),
        ([SPARSE, DENSE], "", False, True),
        ([SPARSE, LACKING, DENSE], "", False, True),
    ],
)
def test_all_ranks_conclude_the_same(
    ranks: list[dict[str, object]], kind: str, differently: bool, both: bool
) -> None:
    for order in (ranks, ranks[::-1]):
        heard = _heard(*map(_said, order))
        verdict = presence.verdict(heard)
        assert (verdict.trained_differently, verdict.of_both_kinds) == (
            [0] * differently,
            [0] * both,
        )
        if kind:
            assert presence.kind(presence.said_of(0, heard)) == kind


def test_a_rank_hears_how_many_dimensions_are_sparse() -> None:
    heard = _heard(_said(DEEPER), _said(LACKING))
    assert presence.said_of(0, heard) == (presence.LACKING, 3)


def test_each_parameter_has_a_verdict_of_its_own() -> None:
    one = presence.words(4, trained=[0, 2, 3], lacking=[], sparse={3: 1})
    other = presence.words(4, trained=[0, 1, 2, 3], lacking=[2], sparse={})
    assert presence.verdict(_heard(one, other)) == presence.Verdict([1], [3])
    assert all(0 <= word <= 255 for word in one + other)


def test_a_disagreement_names_the_parameter_and_the_ranks() -> None:
    frozen = presence.sentence("fc.bias", 0, {0: "frozen", 4: "dense", 5: "lacking"})
    assert frozen.startswith(
        "requires_grad of parameter 'fc.bias' is False on rank 0 and True on ranks 4 and 5."
    )
    both = presence.sentence("emb", 2, {0: "sparse", 1: "dense", 2: "sparse", 3: "lacking"})
    assert (
        "'emb' (and of 2 more) is dense on rank 1 and sparse on ranks 0 and 2 in this step" in both
    )
    assert "sparse_as_dense=True" in both
