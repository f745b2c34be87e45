"""Handles of processes, and the jobs that they make."""

from __future__ import annotations

import pytest

from hvdlite.job.reconfiguration import Handle, Member, in_order

A = Handle("aa", (("10.0.0.1", 1000), ("fe::1", 1001), ("127.0.0.1", 1000)), b"s" * 32)
B = Handle("bb", (("127.0.0.1", 2000),), b"t" * 32)


def test_a_handle_is_text_without_line_ends() -> None:
    text = A.encode()
    assert text.isprintable() and Handle.decode(text) == A
    assert "s" * 32 not in repr(A), "a log would tell the secret"


@pytest.mark.parametrize(
    "text",
    ["", "gloo", "hvdlite/2 aa 127.0.0.1:1 " + "73" * 32, "hvdlite/1 aa 127.0.0.1:1", "a b c d"],
)
def test_what_is_no_handle(text: str) -> None:
    with pytest.raises(ValueError, match="not a handle of the backend hvdlite"):
        Handle.decode(text)


@pytest.mark.parametrize("broken", ["nowhere " + "73" * 32, "127.0.0.1:1 7373"])
def test_a_damaged_handle(broken: str) -> None:
    with pytest.raises(ValueError):
        Handle.decode(f"hvdlite/1 aa {broken}")


def test_a_list_says_the_ranks_and_a_set_does_not() -> None:
    texts = [B.encode(), A.encode()]
    assert [each.member for each in in_order(texts)] == ["bb", "aa"]
    assert [each.member for each in in_order(tuple(texts))] == ["bb", "aa"]
    assert [each.member for each in in_order(set(texts))] == ["aa", "bb"]


@pytest.mark.parametrize(("texts", "why"), [([], "empty"), ([A.encode()] * 2, "twice")])
def test_lists_that_make_no_job(texts: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        in_order(texts)


def test_a_process_names_itself() -> None:
    member = Member()
    try:
        assert member.handle() == member.handle()
        (mine,) = member.checked(1, [member.handle()])
        assert mine.encode() == member.handle()
        with pytest.raises(ValueError, match="own handle"):
            member.checked(1, [A.encode(), B.encode()])
    finally:
        member.close()
