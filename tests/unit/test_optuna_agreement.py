"""hvdlite.optuna: what the ranks do after each has said what it does, and how errors travel. Needs
no Optuna."""

from __future__ import annotations

import pickle
from importlib import metadata

import pytest
from cases import cases

from hvdlite.exceptions import MismatchError
from hvdlite.optuna.agreement import (
    END,
    Agreement,
    RaisedElsewhere,
    Said,
    TrialFailure,
    agree,
    failure_of,
)


def failure(rank: int, is_pruned: bool = False) -> TrialFailure:
    return TrialFailure(rank, "text", "trace", b"", is_pruned)


FIRST, SECOND = failure(0), failure(1)
PRUNED = failure(0, is_pruned=True)


@cases(
    "said, expected",
    {
        "the first rank's result counts": (
            [Said("suggest", 1.5), Said("suggest")],
            Agreement([1.5, None]),
        ),
        "a call that fails is no end": (
            [Said("suggest", failure=FIRST), Said("suggest")],
            Agreement([], FIRST),
        ),
        "the objective returns on all ranks": (
            [Said(END, 3.0), Said(END)],
            Agreement([3.0, None], ends=True),
        ),
        "an objective that has failed meets a call of the other rank": (
            [Said("report"), Said(END, failure=SECOND)],
            Agreement([], SECOND, ends=True),
        ),
        "an error counts more than pruning": (
            [Said(END, failure=PRUNED), Said(END, failure=SECOND)],
            Agreement([], SECOND, ends=True),
        ),
        "the first of two errors": (
            [Said(END, failure=FIRST), Said(END, failure=SECOND)],
            Agreement([], FIRST, ends=True),
        ),
        "pruning on one rank ends the trial on all": (
            [Said(END, failure=PRUNED), Said(END, 1.0)],
            Agreement([], PRUNED, ends=True),
        ),
    },
)
def test_what_the_ranks_do(said: list[Said], expected: Agreement) -> None:
    assert agree([0, 1], said) == expected


@cases(
    "said, words",
    {
        "two calls": (
            [Said("suggest_float('a')"), Said("suggest_float('b')")],
            r"rank 2 is at suggest_float\('a'\), and rank 5 is at suggest_float\('b'\)",
        ),
        "one rank's objective has returned": (
            [Said("should_prune()"), Said(END)],
            r"rank 2 is at should_prune\(\), and rank 5 is at the end of the objective",
        ),
    },
)
def test_ranks_that_make_different_calls_are_told(said: list[Said], words: str) -> None:
    with pytest.raises(MismatchError, match=words):
        agree([2, 5], said)


class Known(Exception):
    """Travels as it is."""


class Unloadable(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Unpicklable(Exception):
    def __reduce__(self) -> str:
        raise TypeError("not me")


@cases(
    "error, kind, text",
    {
        "a class of the program": (Known("why"), Known, "why"),
        "one that cannot be made again": (Unloadable(1, 2), RuntimeError, "Unloadable: 1 and 2"),
        "one that cannot be pickled": (Unpicklable("why"), RuntimeError, "Unpicklable: why"),
    },
)
def test_an_error_arrives_as_it_was_or_as_its_text(
    error: Exception, kind: type[Exception], text: str
) -> None:
    try:
        raise error
    except Exception as raised:
        sent = pickle.dumps(failure_of(raised, 3))
    arrived = pickle.loads(sent).error()
    assert type(arrived) is kind and str(arrived) == text
    cause = arrived.__cause__
    assert isinstance(cause, RaisedElsewhere)
    assert str(cause).startswith("rank 3 raised this:\nTraceback") and "raise error" in str(cause)


@pytest.mark.parametrize("version", [None, "3.6.1"])
def test_an_optuna_that_is_missing_or_too_old_is_one_sentence(
    version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import hvdlite.optuna

    def look(name: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", look)
    with pytest.raises(ImportError) as caught:
        hvdlite.optuna.optimize  # noqa: B018
    assert str(caught.value) == (
        f"hvdlite.optuna needs Optuna 4 or newer, and {version or 'none'} is installed: pip "
        'install ".[optuna]" in a clone of hvdlite'
    )
