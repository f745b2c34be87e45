"""Quantised gradients: the codecs of the core, with error feedback."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hvdlite.adapter.compression.algebra import Algebra, Array
from hvdlite.adapter.compression.methods import Encoded, Method, Part, Rounds, State


class Quantised(Method):
    """Sends each matrix by a codec of the core: docs/decisions/0014-codecs.md says what they do.

    What the codec loses is added to the next step's gradient, on the rank that has lost it.
    """

    def __init__(
        self,
        algebra: Callable[[], Algebra],
        codec: str,
        parameter: float = 0.0,
        shown: str = "",
        feedback: bool = True,
        seed: int = 0,
        skip: str | Sequence[str] = (),
    ) -> None:
        super().__init__(algebra, skip)
        self._codec = (codec, float(parameter))
        self._shown = shown
        self._feedback = feedback
        self._seed = seed

    def compressing(self, shape: Sequence[int]) -> Part:
        return _ByCodec(*self._codec, self._feedback, self._seed)

    def __repr__(self) -> str:
        feedback = f"error_feedback={self._feedback}"
        return f"{self._codec[0]}({', '.join(filter(None, (self._shown, feedback)))})"


class _ByCodec(Part):
    guarded = False  # the core leaves the residual of a block with NaN as it was

    def __init__(self, codec: str, parameter: float, feedback: bool, seed: int) -> None:
        self._codec = codec
        self._parameter = parameter
        self._feedback = feedback
        self._seed = seed

    def begin(self, algebra: Algebra, flat: Array) -> State:
        state = {"step": algebra.zeros((), flat)}
        return {**state, "residual": algebra.zeros_for_core(flat)} if self._feedback else state

    def rounds(self, algebra: Algebra, flat: Array, state: State, ranks: int) -> Rounds:
        residual, step = state.get("residual"), state["step"]
        total, residual = yield Encoded(
            flat, residual, self._codec, self._parameter, self._seed, step
        )
        after = {"step": step + 1.0}
        return total, {**after, "residual": residual} if self._feedback else after


def int8(algebra: Callable[[], Algebra], *, error_feedback: bool = True,
         skip: str | Sequence[str] = ()) -> Quantised:  # fmt: skip
    """8 bits for a number, a quarter of float32: the nearest of 255 values, in blocks of 256."""
    return Quantised(algebra, "int8", feedback=error_feedback, skip=skip)


def fp8(algebra: Callable[[], Algebra], *, error_feedback: bool = True,
        skip: str | Sequence[str] = ()) -> Quantised:  # fmt: skip
    """8 bits for a number: the nearest e4m3, in blocks of 256."""
    return Quantised(algebra, "fp8", feedback=error_feedback, skip=skip)


def sign(algebra: Callable[[], Algebra], *, error_feedback: bool = True,
         skip: str | Sequence[str] = ()) -> Quantised:  # fmt: skip
    """1 bit for a number, its sign, with the mean magnitude of each block of 1024."""
    return Quantised(algebra, "sign", feedback=error_feedback, skip=skip)


def ternary(algebra: Callable[[], Algebra], clip: float = 2.5, *, error_feedback: bool = False,
            seed: int = 0, skip: str | Sequence[str] = ()) -> Quantised:  # fmt: skip
    """2 bits for a number: -s, 0 or s at random, so that the mean is the number, once it is clipped
    to `clip` times the root of the mean square of its block.

    What it loses in a step may be as large as the gradient, and would grow with error feedback.
    """
    _check("clip", clip, clip > 0)
    return Quantised(algebra, "ternary", clip, f"clip={clip:g}", error_feedback, seed, skip)


def qsgd(algebra: Callable[[], Algebra], levels: int = 7, *, error_feedback: bool = True,
         seed: int = 0, skip: str | Sequence[str] = ()) -> Quantised:  # fmt: skip
    """4 bits for a number up to 7 levels, 8 bits up to 127: one of two neighbouring levels at
    random, so that the mean is the number."""
    _check("levels", levels, levels == int(levels) and 1 <= levels <= 127)
    return Quantised(algebra, "qsgd", levels, f"levels={levels}", error_feedback, seed, skip)


def threshold(algebra: Callable[[], Algebra], t: float, *, error_feedback: bool = True,
              skip: str | Sequence[str] = ()) -> Quantised:  # fmt: skip
    """2 bits for a number: t, -t, or 0 until what is kept has added up to t."""
    _check("t", t, t > 0)
    return Quantised(algebra, "threshold", t, f"t={t:g}", error_feedback, skip=skip)


def _check(name: str, value: float, possible: bool) -> None:
    if not possible:
        raise ValueError(f"{name}={value} is not possible")
