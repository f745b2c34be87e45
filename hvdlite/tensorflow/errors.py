"""hvdlite's errors in TensorFlow's words: each is both, so that a program may catch either.

    what ranks disagree about, hvd.init() missing    tf.errors.FailedPreconditionError
    an argument that is wrong by itself              tf.errors.InvalidArgumentError
    a lost peer, a shutdown, any other failure       tf.errors.UnknownError

Inside a tf.function errors arrive as the class of TensorFlow alone, with the same message.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from hvdlite import exceptions


class _InBothWords:
    # The parameters are those by which TensorFlow makes such an error anew when it crosses a traced
    # function.
    def __init__(self, node_def: Any, op: Any, message: str, *_: Any) -> None:
        tf.errors.OpError.__init__(self, node_def, op, message, self.code)  # type: ignore[attr-defined]


def _in_both_words(ours: type[Exception], theirs: Any, name: str = "") -> Any:
    body = {"code": theirs(None, None, "").error_code, "__module__": __name__}
    return type(name or ours.__name__, (_InBothWords, ours, theirs), body)


MismatchError = _in_both_words(exceptions.MismatchError, tf.errors.FailedPreconditionError)
NotInitializedError = _in_both_words(
    exceptions.NotInitializedError, tf.errors.FailedPreconditionError
)
DuplicateNameError = _in_both_words(exceptions.DuplicateNameError, tf.errors.InvalidArgumentError)
InvalidArgumentError = _in_both_words(
    ValueError, tf.errors.InvalidArgumentError, "InvalidArgumentError"
)
PeerLostError = _in_both_words(exceptions.PeerLostError, tf.errors.UnknownError)
ShutDownError = _in_both_words(exceptions.ShutDownError, tf.errors.UnknownError)
HorovodInternalError = _in_both_words(exceptions.HorovodInternalError, tf.errors.UnknownError)

_CLASSES = (
    MismatchError, PeerLostError, ShutDownError, HorovodInternalError,
    NotInitializedError, DuplicateNameError, InvalidArgumentError,
)  # fmt: skip


@contextlib.contextmanager
def in_tensorflows_words() -> Iterator[None]:
    """What hvdlite raises in the block leaves it as an error of TensorFlow's, too."""
    try:
        yield
    except tf.errors.OpError:
        raise
    except (ValueError, exceptions.HorovodInternalError) as error:
        raise translated(error) from error


def translated(error: Exception) -> Exception:
    # The classes are ordered so that the first whose hvdlite half fits is the closest.
    for both in _CLASSES:
        if isinstance(error, both.__mro__[2]):
            result: Exception = both(None, None, str(error))
            for attribute in ("rank", "loss", "retryable"):
                if hasattr(error, attribute):
                    setattr(result, attribute, getattr(error, attribute))
            return result
    return error
