"""What a check is given: where it runs, deterministic data of every rank, and numpy's answer to
every reduction."""

from __future__ import annotations

import contextlib
import hashlib
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np

import hvdlite as hvd

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = ("bool", *INTEGERS, *FLOATS)
AVERAGE, SUM, ADASUM, MIN, MAX, PRODUCT = range(6)
OPS = {"Average": AVERAGE, "Sum": SUM, "Min": MIN, "Max": MAX, "Product": PRODUCT}

# 0-d, empty, one element, fewer than ranks or lanes, two dimensions, not a multiple of a cache
# line, and just beyond what travels in one piece (HVDLITE_SHM_SMALL_BYTES).
SHAPES = ((), (0,), (3, 0, 2), (1,), (3,), (7, 5), (1, 1, 129), (8193,))


def dtype_of(name: str) -> np.dtype[Any]:
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


class Here:
    """One rank's view of the job, which its launcher and the test's configuration have made so."""

    def __init__(
        self, rank: int, size: int, communicator: str, over_mpi: bool, environment: dict[str, str]
    ) -> None:
        self.communicator = communicator
        self.over_mpi = over_mpi
        self.environment = environment
        self.rank = rank
        self.size = size
        self.check = ""
        self._digest = hashlib.sha256()
        self._count = 0

    @property
    def ranks(self) -> range:
        return range(self.size)

    @property
    def in_rank_order(self) -> bool:
        """Whether reductions are promised to be those of a loop over the ranks, bit by bit."""
        return self.communicator in ("shm", "net")

    @property
    def same_bits_always(self) -> bool:
        """Whether a sum is promised to have the same bits whatever travels along; an MPI library
        promises nothing."""
        return self.environment.get("HVDLITE_MPI_ALLREDUCE") != "library"

    def begin(self, check: str) -> None:
        self.check = check
        self._digest = hashlib.sha256()
        self._count = 0

    def rng(self, rank: int, *key: object) -> np.random.Generator:
        """The same on every rank that asks for the same."""
        return np.random.default_rng(zlib.crc32(repr((self.check, rank, key)).encode()))

    def data(
        self, dtype: str, shape: tuple[int, ...], rank: int, *key: object, op: int = SUM
    ) -> np.ndarray:
        """What `rank` contributes."""
        rng = self.rng(rank, dtype, shape, *key)
        kind = dtype_of(dtype)
        if dtype == "bool":
            # Products of many ranks should sometimes be true, sums sometimes false.
            return np.array(rng.random(shape) < (0.8 if op in (PRODUCT, MIN) else 0.3))
        if op == PRODUCT:
            return np.array(rng.choice([1, 2, 3], shape)).astype(kind)
        if dtype in INTEGERS:
            info = np.iinfo(kind)
            return np.array(
                rng.integers(info.min // 8, info.max // 8, shape, dtype=kind, endpoint=True)
            )
        return np.array(rng.standard_normal(shape) * 4).astype(kind)

    def everyones(
        self, dtype: str, shape: tuple[int, ...], *key: object, op: int = SUM
    ) -> list[np.ndarray]:
        return [self.data(dtype, shape, rank, *key, op=op) for rank in self.ranks]

    # ---- comparing

    def saw(self, result: np.ndarray) -> None:
        """Adds a result that must have the same bits on all ranks; settle() compares them."""
        self._digest.update(repr((result.shape, str(result.dtype))).encode())
        self._digest.update(np.ascontiguousarray(result).tobytes())
        self._count += 1

    def settle(self) -> None:
        """All ranks have seen the same bits."""
        mine = np.frombuffer(self._digest.digest(), np.uint8)
        all_of_them = hvd.allgather(mine[np.newaxis], name=f"{self.check}.settle")
        different = [r for r in self.ranks if all_of_them[r].tobytes() != mine.tobytes()]
        assert not different, (
            f"ranks {different} got other bits than rank {self.rank} ({self._count} results)"
        )

    def same_on_all_ranks(self, text: str) -> None:
        texts = hvd.allgather_object(text, name=f"{self.check}.text")
        assert texts == [text] * self.size, f"the ranks disagree: {texts}"

    def close(
        self, got: np.ndarray, expected: np.ndarray, what: str = "", exact: bool | None = None
    ) -> None:
        """Equal bits where that is promised or the dtype is not a float, else equal up to
        rounding."""
        assert isinstance(got, np.ndarray), f"{what}: got a {type(got).__name__}"
        assert got.shape == expected.shape, f"{what}: shape {got.shape} instead of {expected.shape}"
        assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype} instead of {expected.dtype}"
        if exact is None:
            exact = self.in_rank_order
        if exact or got.dtype.kind in "bui":
            if got.tobytes() == expected.tobytes():
                return
            wrong = np.flatnonzero(~_same_values(got.ravel(), expected.ravel()))
            assert wrong.size == 0, (
                f"{what}: {wrong.size} of {got.size} elements differ, the first at {wrong[0]}: "
                f"{got.ravel()[wrong[0]]!r} instead of {expected.ravel()[wrong[0]]!r}"
            )
            return
        eps = float(ml_dtypes.finfo(got.dtype).eps)
        a, b = got.astype(np.float64), expected.astype(np.float64)
        scale = np.maximum(np.abs(b), 8.0)
        bad = np.abs(a - b) > scale * eps * 2 * self.size
        assert not bad.any(), f"{what}: {a[bad].ravel()[0]!r} instead of {b[bad].ravel()[0]!r}"


def _same_values(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    both_nan = (a != a) & (b != b)
    return np.asarray((a == b) | both_nan)


# ---- numpy's answer


def _integer_step(values: np.ndarray, factor: float, divide: bool = False) -> np.ndarray:
    """One scaling step of integers: in double, truncated towards zero, saturating."""
    if factor == 1.0:
        return values
    info = np.iinfo(values.dtype)
    wide = np.atleast_1d(values.astype(np.float64))
    wide = np.trunc(wide / factor if divide else wide * factor)
    low, high = float(info.min), float(info.max)
    out = np.clip(wide, low, np.nextafter(high, 0) if high > info.max else high).astype(
        values.dtype
    )
    out[wide >= high] = info.max
    out[wide <= low] = info.min
    return np.asarray(out).reshape(values.shape)


def reference(
    inputs: list[np.ndarray],
    op: int,
    prescale: float = 1.0,
    postscale: float = 1.0,
    members: int | None = None,
) -> np.ndarray:
    """The sequential reduction in the order of ranks: fp16 and bf16 in fp32, rounded once; integers
    wrap around."""
    dtype = inputs[0].dtype
    divisor = float(members or len(inputs)) if op == AVERAGE else 1.0
    combine: Any = {
        AVERAGE: np.add,
        SUM: np.add,
        MIN: np.minimum,
        MAX: np.maximum,
        PRODUCT: np.multiply,
    }[op]
    if dtype == np.bool_:
        combine = np.logical_and if op in (MIN, PRODUCT) else np.logical_or
        result = inputs[0].copy()
        for other in inputs[1:]:
            result = combine(result, other)
        return np.asarray(result)
    with np.errstate(all="ignore"):
        if dtype.kind in "iu":
            result = _integer_step(np.array(inputs[0]), prescale)
            for other in inputs[1:]:
                result = combine(result, _integer_step(np.array(other), prescale), dtype=dtype)
            result = np.asarray(result, dtype)
            return _integer_step(_integer_step(result, divisor, divide=True), postscale)
        wide: Any = np.float64 if dtype == np.float64 else np.float32

        def scaled(values: np.ndarray, factor: float) -> np.ndarray:
            return values if factor == 1.0 else values * wide(factor)

        result = scaled(inputs[0].astype(wide), prescale)
        for other in inputs[1:]:
            result = combine(result, scaled(other.astype(wide), prescale))
        if divisor != 1.0:
            result = result / wide(divisor)
        return np.asarray(scaled(result, postscale)).astype(dtype)


def adasum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Adasum of two vectors in double."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    dot, aa, bb = float(np.vdot(a, b)), float(np.vdot(a, a)), float(np.vdot(b, b))
    tiny = np.sqrt(np.finfo(np.float64).tiny)
    ca = 1.0 if aa < tiny else 1 - dot / (2 * aa)
    cb = 1.0 if bb < tiny else 1 - dot / (2 * bb)
    return np.asarray(ca * a + cb * b)


def adasum_tree(inputs: list[np.ndarray]) -> np.ndarray:
    """Members beyond the largest power of two are folded in first, then distances 1, 2, 4, ..."""
    vectors = [v.astype(np.float64) for v in inputs]
    power = 1 << (len(vectors).bit_length() - 1)
    for extra in range(power, len(vectors)):
        vectors[extra - power] = adasum(vectors[extra - power], vectors[extra])
    vectors = vectors[:power]
    while len(vectors) > 1:
        vectors = [adasum(vectors[i], vectors[i + 1]) for i in range(0, len(vectors), 2)]
    return vectors[0]


def in_threads(number: int, work: Callable[[int], None]) -> None:
    """work(0), work(1), ..., each in a thread of its own; the first exception is raised here."""
    with ThreadPoolExecutor(number) as threads:
        list(threads.map(work, range(number)))


@contextlib.contextmanager
def raises(kind: type[BaseException], *words: str) -> Iterator[list[BaseException]]:
    """The block raises exactly that, and says these words."""
    caught: list[BaseException] = []
    try:
        yield caught
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in {type(error).__name__}: {error}"
        caught.append(error)
        return
    raise AssertionError(f"nothing was raised; expected {kind.__name__}")
