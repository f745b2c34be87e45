"""The thread that hears the driver's news while a member trains.

News about the end of the present generation abort its engine, so that waiting calls fail at once.
All other news wait for the program's next boundary.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from hvdlite.core import engine
from hvdlite.job.membership import Member, Store
from hvdlite.rendezvous.roll import News, Refused, decode_news

_log = logging.getLogger("hvdlite")
_reader: Reader | None = None


class Reader:
    """`first`: the number of the first news of interest. `tell` gets each that breaks nothing."""

    def __init__(
        self,
        member: Member,
        first: int,
        tell: Callable[[News], None],
        abort: Callable[[int, str], None] = engine.end_generation,
    ) -> None:
        self.latest: News | None = None
        self._member = member
        self._tell = tell
        self._abort = abort
        self._stopped = False
        self._store: Store = member.connect()
        self._thread = threading.Thread(
            target=self._run,
            args=(first,),
            name="hvdlite-news",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._store.close()  # ends the wait
        self._thread.join(5.0)

    def _run(self, number: int) -> None:
        try:
            while not self._stopped:
                self._hear(decode_news(self._store.get(f"elastic/news/{number}")))
                number += 1
        except (ConnectionError, ValueError) as error:
            if isinstance(error, Refused):
                _log.error("news %d of the job's driver cannot be read: %s", number, error)
            elif not self._stopped:
                _log.warning("no more news of the job's driver: %s", error)

    def _hear(self, news: News) -> None:
        self.latest = news
        if news.broken:
            self._member.end(news.generation, _why(news, self._member), self._abort)
        else:
            self._tell(news)


def start(member: Member, tell: Callable[[News], None]) -> Reader:
    """Starts the one reader of this process, behind the news that the roll answers."""
    global _reader
    stop()
    _reader = Reader(member, (member.roll.answers if member.roll else 0) + 1, tell)
    return _reader


def stop() -> None:
    global _reader
    if _reader is not None:
        _reader.stop()
    _reader = None


def latest() -> News | None:
    """The last news that were heard, if there is a reader."""
    return _reader.latest if _reader else None


def _why(news: News, member: Member) -> str:
    numbers = member.roll.numbers() if member.roll else ()
    lost = [f"member {m} (rank {numbers.index(m)})" for m in news.lost if m in numbers]
    who = ", ".join(lost) or "a member"
    return f"hvdliterun has lost {who}"
