"""The keys, and the requests that wait for them. Pure: no socket and no thread; times are
arguments."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator

from hvdlite.rendezvous.protocol import (
    MAX_PAYLOAD,
    WAIT_FOREVER,
    BadRequest,
    Operation,
    ReplyStatus,
    Request,
    decode_count,
    decode_counter,
    encode_counter,
    encode_reply,
    encode_values,
)

Reply = Callable[[bytes], None]

# How many missing keys a timeout lists: enough to see the pattern, few enough for one line.
_MOST_NAMED = 64


class Waiter:
    """A get or collect that is not answered yet.

    It is in the queue of one key only, the first that is missing. So a collect of n keys costs n
    steps in all and no memory per key, however many ranks collect.
    """

    def __init__(self, key: str, n: int | None, reply: Reply) -> None:
        self.key = key
        self.n = n  # None: a get
        self.position = 0  # the keys before this one existed when it looked
        self.reply: Reply | None = reply  # None once answered or cancelled
        self.missing = ""  # in whose queue it stands

    def keys(self, start: int = 0) -> Iterator[str]:
        if self.n is None:
            return iter((self.key,)[start:])
        return (f"{self.key}/{i}" for i in range(start, self.n))


class Table:
    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        # a dict for its order: first come, first served
        self._waiters: dict[str, dict[Waiter, None]] = {}
        self._deadlines: list[tuple[float, int, Waiter]] = []
        self._sweep_at = 1024
        self._numbers = itertools.count()
        self._version = 0
        # All ranks collect the same keys, and are answered when the last one comes. This encodes
        # that answer once.
        self._collected: tuple[int, str, int, bytes] = (-1, "", 0, b"")

    def submit(self, request: Request, now: float, reply: Reply) -> Waiter | None:
        """Calls `reply` with the payload, at once or later. Returns a waiter if it is later."""
        try:
            return self._submit(request, now, reply)
        except BadRequest as error:
            reply(encode_reply(ReplyStatus.BAD_REQUEST, str(error).encode()))
            return None

    def _submit(self, request: Request, now: float, reply: Reply) -> Waiter | None:
        if request.operation is Operation.SET:
            reply(encode_reply(ReplyStatus.OK))
            self._put(request.key, request.value)
        elif request.operation is Operation.ADD:
            total = self._add(request.key, decode_counter(request.value))
            reply(encode_reply(ReplyStatus.OK, encode_counter(total)))
            self._put(request.key, encode_counter(total))
        elif request.operation is Operation.DELETE:
            self._delete(request.key)
            reply(encode_reply(ReplyStatus.OK))
        else:
            n = decode_count(request.value) if request.operation is Operation.COLLECT else None
            waiter = Waiter(request.key, n, reply)
            if not self._try_answer(waiter):
                if request.argument != WAIT_FOREVER:
                    self._forget_answered()
                    deadline = now + request.argument / 1000
                    heapq.heappush(self._deadlines, (deadline, next(self._numbers), waiter))
                return waiter
        return None

    def peek(self, key: str) -> bytes | None:
        """Returns the present value of the key. Other threads than the owner's may call this and
        is_empty()."""
        return self._values.get(key)

    def is_empty(self, besides: str = "") -> bool:
        return len(self._values) <= (besides in self._values)

    def cancel(self, waiter: Waiter) -> None:
        """The answer is no longer needed."""
        waiter.reply = None
        queue = self._waiters.get(waiter.missing)
        if queue is not None:
            queue.pop(waiter, None)
            if not queue:
                del self._waiters[waiter.missing]

    def next_deadline(self) -> float | None:
        while self._deadlines and self._deadlines[0][2].reply is None:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expire(self, now: float) -> None:
        """Answers the waiters whose time is over."""
        while True:
            deadline = self.next_deadline()
            if deadline is None or deadline > now:
                return
            waiter = heapq.heappop(self._deadlines)[2]
            reply = waiter.reply
            assert reply is not None
            self.cancel(waiter)
            reply(encode_reply(ReplyStatus.TIMEOUT, self._what_is_missing(waiter).encode()))

    def _what_is_missing(self, waiter: Waiter) -> str:
        if waiter.n is None:
            return f"no rank set '{waiter.key}' in time"
        indices = [str(i) for i, key in enumerate(waiter.keys()) if key not in self._values]
        missing = ", ".join(indices[:_MOST_NAMED])
        if len(indices) > _MOST_NAMED:
            missing += f" and {len(indices) - _MOST_NAMED} more"
        last = f"{waiter.key}/{waiter.n - 1}"
        return f"of '{waiter.key}/0' to '{last}' these did not come in time: {missing}"

    def _put(self, key: str, value: bytes) -> None:
        self._values[key] = value
        self._version += 1
        for waiter in self._waiters.pop(key, {}):
            self._try_answer(waiter)

    def _add(self, key: str, amount: int) -> int:
        old = self._values.get(key)
        if old is not None and len(old) != 8:
            raise BadRequest(f"'{key}' is not a counter")
        total = amount + (decode_counter(old) if old is not None else 0)
        if not -(1 << 63) <= total < 1 << 63:
            raise BadRequest(f"the counter '{key}' would overflow")
        return total

    def _delete(self, key: str) -> None:
        below = key + "/"
        for found in [k for k in self._values if k == key or k.startswith(below)]:
            del self._values[found]
        self._version += 1
        self._collected = (-1, "", 0, b"")  # the memory of the keys

    def _try_answer(self, waiter: Waiter) -> bool:
        """Answers the waiter, or puts it into the queue of the first key that is missing."""
        index = self._first_missing(waiter, waiter.position)
        if index is None and waiter.position > 0:
            index = self._first_missing(waiter, 0)  # keys that existed may have been deleted since
        if index is not None:
            waiter.position = index
            waiter.missing = next(waiter.keys(index))
            self._waiters.setdefault(waiter.missing, {})[waiter] = None
            return False
        reply = waiter.reply
        assert reply is not None
        waiter.reply = None
        reply(self._answer(waiter))
        return True

    def _first_missing(self, waiter: Waiter, start: int) -> int | None:
        return next(
            (i for i, key in enumerate(waiter.keys(start), start) if key not in self._values), None
        )

    def _answer(self, waiter: Waiter) -> bytes:
        if waiter.n is None:
            return encode_reply(ReplyStatus.OK, self._values[waiter.key])
        if self._collected[:3] != (self._version, waiter.key, waiter.n):
            values = [self._values[key] for key in waiter.keys()]
            total = sum(len(value) + 8 for value in values)
            if total >= MAX_PAYLOAD:
                sentence = (
                    f"the values of '{waiter.key}' have {total} bytes together; 64 MiB are possible"
                )
                return encode_reply(ReplyStatus.BAD_REQUEST, sentence.encode())
            payload = encode_reply(ReplyStatus.OK, encode_values(values))
            self._collected = (self._version, waiter.key, waiter.n, payload)
        return self._collected[3]

    def _forget_answered(self) -> None:
        # Waiters answered long before their deadline would stay in the heap until then.
        if len(self._deadlines) >= self._sweep_at:
            self._deadlines = [entry for entry in self._deadlines if entry[2].reply is not None]
            heapq.heapify(self._deadlines)
            self._sweep_at = max(1024, 2 * len(self._deadlines))
