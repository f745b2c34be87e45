"""What a log is told of strangers: the first few, then a number now and then."""

from __future__ import annotations

from hvdlite.rendezvous.quota import FIRST, SECONDS, Quota


def test_the_first_few_are_written_and_the_others_counted_once_per_interval() -> None:
    quota = Quota()
    assert [quota.allows(now=10) for _ in range(FIRST + 20)] == [True] * FIRST + [False] * 20
    assert quota.due() == 10 + SECONDS
    assert quota.take(now=10 + SECONDS / 2) == 0
    assert quota.take(now=10 + SECONDS) == 20
    assert quota.due() is None


def test_a_flood_that_goes_on_is_a_number_per_interval() -> None:
    quota = Quota()
    told = 0
    for second in range(600):
        written = [quota.allows(second) for _ in range(1000)]
        assert second < 1 or not any(written)
        told += bool(quota.take(second))
    assert told == 600 // SECONDS - 1


def test_after_a_pause_strangers_are_written_again() -> None:
    quota = Quota()
    for _ in range(FIRST + 1):
        quota.allows(now=0)
    assert quota.take(now=SECONDS) == 1
    assert not quota.allows(now=SECONDS + 1)
    assert quota.take(now=2 * SECONDS) == 1
    assert quota.allows(now=3 * SECONDS)


def test_seldom_strangers_are_all_written() -> None:
    quota = Quota()
    assert all(quota.allows(hour * 3600) for hour in range(100))
    assert quota.due() is None
