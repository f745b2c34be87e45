"""The thread that hears the driver's news while a member trains.

News about the end of the present generation abort its engine, so that waiting calls fail at once.
All other news wait for the program's next boundary.
"""

from __future__ import annotations

import logging
import threading
import time
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
        self.heard = 0.0  # when
        self.agreed: News | None = None  # at the last boundary at which the ranks had news
        self._recent: dict[int, News] = {}  # that the roll does not answer
        self._changed = threading.Condition()
        self._over = False
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

    def wait(self, done: Callable[[], bool], seconds: float | None = None) -> None:
        """Waits for news with which `done` is true. Ends early when no news will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or done(), seconds)

    def number(self, number: int) -> News | None:
        """Waits for the news of this number, which another rank has heard already."""
        self.wait(lambda: self.latest is not None and self.latest.number >= number)
        return self._recent.get(number)

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
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _hear(self, news: News) -> None:
        answered = self._member.roll.answers if self._member.roll else 0
        recent = {number: kept for number, kept in self._recent.items() if number > answered}
        with self._changed:
            self.latest, self.heard = news, time.monotonic()
            self._recent = {**recent, news.number: news}
            self._changed.notify_all()
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


def age() -> float:
    """For how many seconds the latest news are known."""
    return time.monotonic() - _reader.heard if _reader else 0.0


def wait(done: Callable[[News], bool], seconds: float) -> None:
    """Waits for news with which `done` is true, if there is a reader."""
    if _reader is not None:
        reader = _reader
        reader.wait(lambda: reader.latest is not None and done(reader.latest), seconds)


def agree(number: int) -> News | None:
    """The ranks stand at one boundary, and these are the latest news that one of them has heard.

    They decide on all ranks who leaves: a rank that knows later news does not use them here.
    """
    if _reader is None or not number:
        return None
    _reader.agreed = _reader.number(number)
    return _reader.agreed


def agreed() -> News | None:
    """The news of the last boundary, unless a roll has answered them."""
    found = _reader.agreed if _reader else None
    roll = _reader._member.roll if _reader else None
    return found if found and roll and found.number > roll.answers else None


def _why(news: News, member: Member) -> str:
    numbers = member.roll.numbers() if member.roll else ()
    lost = [f"member {m} (rank {numbers.index(m)})" for m in news.lost if m in numbers]
    who = ", ".join(lost) or "a member"
    return f"hvdliterun has lost {who}"
