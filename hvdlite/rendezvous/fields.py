"""JSON of at most 1 MiB whose fields are checked one by one. Pure.

What reads it raises Refused and no other exception, whatever the bytes are. A value of another type
is refused, not converted.

A member proves by a seal that it has written a document itself: all members have the job's secret,
and each has a token of its own. A seal is of a label, which says what kind of thing is sealed, and
of the data. Reports and requests carry their seal. Some keys say all by their name, such as
`done/3`; their value is a seal.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar

MOST_BYTES = 1 << 20
MOST_ITEMS = 1 << 16
_MOST_NUMBER = 1 << 53
_MOST_SECONDS = 1e9
_MOST_TEXT = 1000


class Refused(ValueError):
    """The bytes are no such document, or not of the member that they name."""


def encoded(fields: Mapping[str, Any]) -> bytes:
    try:
        data = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise Refused(f"it is not JSON: {type(error).__name__}") from None
    if len(data) > MOST_BYTES:
        raise Refused(f"{len(data)} bytes are more than the {MOST_BYTES} that are allowed")
    return data


_Item = TypeVar("_Item")


class Fields:
    """The fields of one JSON object."""

    def __init__(self, source: bytes | Mapping[str, Any], names: set[str]) -> None:
        found = parsed(source) if isinstance(source, bytes) else source
        if not isinstance(found, dict) or found.keys() != names:
            raise Refused(f"expected an object with the fields {', '.join(sorted(names))}")
        self._found = found

    def number(self, name: str) -> int:
        return number(self._found[name])

    def number_or_none(self, name: str) -> int | None:
        return None if self._found[name] is None else self.number(name)

    def flag(self, name: str) -> bool:
        value = self._found[name]
        if not isinstance(value, bool):
            raise Refused(f"{name} is neither true nor false")
        return value

    def text(self, name: str) -> str:
        return text(self._found[name])

    def seconds(self, name: str) -> float:
        value = self._found[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refused(f"{name} is not a number of seconds")
        if not 0 <= value <= _MOST_SECONDS:  # nor is NaN between them
            raise Refused(f"{name} is not a number of seconds")
        return float(value)

    def seconds_or_none(self, name: str) -> float | None:
        return None if self._found[name] is None else self.seconds(name)

    def items(self, name: str, read: Callable[[Any], _Item]) -> tuple[_Item, ...]:
        value = self._found[name]
        if not isinstance(value, list) or len(value) > MOST_ITEMS:
            raise Refused(f"{name} is not a list of at most {MOST_ITEMS} items")
        return tuple(read(item) for item in value)


def parsed(data: bytes) -> Any:
    if len(data) > MOST_BYTES:
        raise Refused(f"{len(data)} bytes are more than the {MOST_BYTES} that are allowed")
    try:
        text = data.decode("ascii")
        return json.loads(text, object_pairs_hook=_object, parse_int=_parsed_int)
    except Refused:
        raise
    except (ValueError, RecursionError) as error:
        raise Refused(f"it is not JSON: {type(error).__name__}") from None


def _parsed_int(digits: str) -> int:
    """Python before 3.10.7 takes long for a long number."""
    if len(digits) > len(str(_MOST_NUMBER)):
        raise Refused(f"expected numbers below {_MOST_NUMBER}")
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Refused("an object has a field twice")
    return found


def number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_NUMBER:
        raise Refused(f"expected a number from 0 to {_MOST_NUMBER - 1}")
    return value


def text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT or not value.isprintable():
        raise Refused(f"expected printable text of at most {_MOST_TEXT} characters")
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Refused("expected an object")
    return value


_Choice = TypeVar("_Choice", bound=Enum)


def one_of(kind: type[_Choice], value: str) -> _Choice:
    try:
        return kind(value)
    except ValueError:
        raise Refused(f"{value!r} is not one of {[each.value for each in kind]}") from None


_KEY_LABEL = b"hvdlite key 1\n"


def seal_of(label: bytes, data: bytes, token: bytes) -> str:
    return hmac.digest(token, label + data, "sha256").hex()


def is_sealed(label: bytes, data: bytes, token: bytes, found: bytes) -> bool:
    return hmac.compare_digest(seal_of(label, data, token).encode(), found)


def sealed_key(key: str, token: bytes) -> bytes:
    """The value of this key, which is without `elastic/`."""
    return seal_of(_KEY_LABEL, key.encode(), token).encode()


def check_key(key: str, value: bytes, token: bytes, member: int) -> None:
    """Raises Refused if another process than the member has written this value."""
    if not is_sealed(_KEY_LABEL, key.encode(), token, value):
        raise Refused(f"it is not sealed with the token of member {member}")
