"""Items from one thread to another one."""

from __future__ import annotations

import os
import select

from hvdlite.base.mailbox import Mailbox


def test_items_come_in_their_order_and_make_it_readable() -> None:
    mailbox: Mailbox[int] = Mailbox()
    for number in range(3):
        mailbox.put(number)
    assert select.select([mailbox], [], [], 0)[0]
    assert mailbox.take() == [0, 1, 2]
    assert not select.select([mailbox], [], [], 0)[0] and mailbox.take() == []
    mailbox.close()


def test_what_is_put_after_the_end_reaches_no_other_file() -> None:
    """The thread of a member whose cluster answers late puts its end after close()."""
    mailbox: Mailbox[int] = Mailbox()
    mailbox.close()
    reader, writer = os.pipe2(os.O_NONBLOCK)  # they get the descriptors that have become free
    mailbox.put(1)
    assert not select.select([reader], [], [], 0)[0]
    os.close(reader)
    os.close(writer)
