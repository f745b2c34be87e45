"""fit() that goes on where it is when ranks die, leave and come.

    hvd.elastic.fit(model, x, y, batch_size=32, epochs=90, callbacks=[...])

The loop is Keras' own. What it calls for a batch is ours: that deals the samples to the ranks there
are, and makes a step again in which a rank was lost, with what the step had changed put back. So a
step of Keras' loop is a step of the job, whatever becomes of the ranks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from hvdlite.adapter.failures import of_any_framework
from hvdlite.core.arrays.objects import broadcast_object
from hvdlite.data.cursor import Cursor
from hvdlite.data.order import Indices
from hvdlite.elastic.in_place import JobsCursor, LoopInPlace
from hvdlite.elastic.loop import generation
from hvdlite.elastic.session import warn_of_a_job_that_is_not_elastic
from hvdlite.exceptions import HorovodInternalError
from hvdlite.job import basics, membership
from hvdlite.job.observe import metrics
from hvdlite.job.process_sets import add_process_set, instead_of_all
from hvdlite.keras.backends import chosen
from hvdlite.keras.callbacks import DriftGuardCallback
from hvdlite.keras.elastic.state import KerasState
from hvdlite.keras.flavour import KERAS, LEGACY

Load = Callable[[Indices], Any]
_NO_COUNT = -1, -1  # of operations


def fit(
    model: Any, x: Any = None, y: Any = None, *, batch_size: int = 32, epochs: int = 1,
    callbacks: Sequence[Any] = (), on_rank_0: Sequence[Any] = (), shuffle: bool = True,
    seed: int = 0, sample_weight: Any = None, length: int | None = None, workers: int = 0,
    initial_epoch: int = 0, on_change: Callable[[int, int], None] | None = None,
    parts: Mapping[str, Any] | None = None, **options: Any,
) -> Any:  # fmt: skip
    """model.fit() in an elastic job. Returns its History.

    `x`, `y`, `sample_weight`: arrays, or tuples and dicts of arrays, all of them on each rank. Or
    `x` is a function that loads the samples of given numbers, `(x, y)` or `(x, y, sample_weight)`,
    out of `length` samples, and `workers` threads call it ahead of the training.

    A step takes `batch_size` samples per rank of the ranks at the start, and as many whatever
    becomes of the ranks. Each epoch has an order of its own, of `seed`. The last step of an epoch
    repeats some of its first samples.

    `on_rank_0`: callbacks that only rank 0 calls, whichever process that is, such as
    ModelCheckpoint and TensorBoard. `on_change(before, now)` hears the numbers of ranks. `parts`:
    what else belongs to the training, as the keywords of KerasState. `options`: others of fit().
    """
    _check(model, options)
    load, length = _loader(x, y, sample_weight, length)
    cursor = JobsCursor(
        length, global_batch=batch_size * basics.size(), shuffle=shuffle, seed=seed, tail="pad"
    )
    batches = _Ahead(cursor, load, workers)
    first = batches.first()
    model._symbolic_build(data_batch=first)
    state = KerasState(model, **(parts or {}), cursor=cursor)
    loop = _Fit(model, state, cursor, batches, on_change)
    every = [each for each in callbacks if not isinstance(each, DriftGuardCallback)]
    return loop.run(epochs, initial_epoch, first, every, on_rank_0, options)


class _Fit(LoopInPlace):
    def __init__(
        self, model: Any, state: KerasState, cursor: JobsCursor, batches: _Ahead,
        on_change: Callable[[int, int], None] | None,
    ) -> None:  # fmt: skip
        super().__init__(state, basics.size(), on_change, self)
        self.callbacks: Any = None
        self.cursor = cursor
        self._model = model
        self._batches = batches
        self._received: Any = None
        self._operations = _operations()
        self._compiler = ThreadPoolExecutor(1, "hvdlite-compile")

    # ---- the call of fit()

    def run(
        self, epochs: int, initial_epoch: int, first: Any, every: Sequence[Any],
        on_rank_0: Sequence[Any], options: dict[str, Any],
    ) -> Any:  # fmt: skip
        """`first`: a batch. `every`: callbacks of all ranks."""
        model, cursor = self._model, self.cursor
        cursor.load_state_dict(cursor.state_dict() | {"epoch": initial_epoch})
        verbose = options.pop("verbose", "auto")
        model.make_train_function()
        own = model.train_function
        try:
            with of_any_framework():
                self._enter(own, first)
                steps = cursor.steps_of_an_epoch()
                self.callbacks = _Callbacks(
                    self, every, on_rank_0, skipped=steps - len(cursor), epochs=epochs,
                    verbose=verbose, steps=steps,
                )  # fmt: skip
                model.train_function = chosen().in_turns(model, own, self._turn)
                found = model.fit(
                    _Numbers(steps), epochs=epochs, initial_epoch=cursor.epoch, shuffle=False,
                    callbacks=self.callbacks, **options,
                )  # fmt: skip
                self.end()
                return found
        finally:
            model.train_function = own
            instead_of_all(None)
            self._compiler.shutdown(cancel_futures=True)

    def _enter(self, step: Callable[..., Any], first: Any) -> None:
        if membership.member() is None:
            warn_of_a_job_that_is_not_elastic()
            self.state.sync()
            return
        self._compile(step, first)
        self._begin()  # until then the others do not wait for a newcomer

    def _compile(self, step: Callable[..., Any], first: Any) -> None:
        """For this rank's part of a step. In a thread, also for those that it may have later: as
        another rank, and after a death."""
        size, mine = basics.size(), len(KERAS.tree.flatten(first)[0])
        parts = self.cursor.parts(max(size - 1, 1)) | self.cursor.parts(size)
        for length in sorted(parts, key=lambda each: each != mine):
            batch = _like(first, length, parts[length])
            compiles = chosen().trace_step(self._model, step, batch)
            if compiles is not None:
                compiles() if length == mine else self._compiler.submit(compiles)

    # ---- turns

    def _turn(self, make: Callable[[Any], Any]) -> Any:
        """Again and again until this rank's state is behind it. If another rank has made the turn,
        this one has its state, and the logs of the turn before."""
        if self.callbacks.skips():
            return {}
        marks, logs = self.state._marks, None
        behind = marks.position + 1
        self.next_turn()
        while marks.position < behind:
            try:
                with of_any_framework():
                    logs = make(self._batches.of_next_step())
                    self.state._at_boundary()
            except HorovodInternalError as error:
                if not error.retryable or self._session is None:
                    raise
                self.turn.withdraw()
                self.again(error)
                self.turn.behind = 0
                if marks.position < behind:
                    self.next_turn()
                else:
                    self.turn.begin()
        self.turn.end()
        if self._session is not None:
            self._agree()
        return self._model.get_metrics_result() if logs is None else logs

    # ---- between them

    def call(self, callback: Any, function: Callable[..., None], *given: Any) -> None:
        """A callback's method, again if a rank is lost meanwhile. If another rank has had the
        call, this one gets what that has changed: logs, and plain attributes."""
        logs = given[-1] if isinstance(given[-1], dict) else {}
        self._operations = _operations()

        def once() -> tuple[dict[str, Any], dict[str, Any], bool]:
            with of_any_framework():
                function(*given)
            return dict(logs), plain_attributes(callback), self._model.stop_training

        changed, attributes, self._model.stop_training = self.region(once)
        logs.update(changed)
        vars(callback).update(attributes)

    def rank_0s(self, function: Callable[[], Any]) -> Any:
        """What this returns on rank 0. All ranks call it, again if rank 0 is lost meanwhile."""
        self._operations = _NO_COUNT

        def once() -> Any:
            mine = function()
            return broadcast_object(mine, 0, name="elastic.on_rank_0") if self._session else mine

        return self.region(once)

    def done(self, result: list[Any] | None) -> None:
        """Most callbacks do no operation: then ranks are not counted to be apart by them."""
        if _operations() != self._operations:
            super().done(result)

    # ---- generations

    def _bind(self, ranks: list[int]) -> None:
        """Newcomers do not take part in what callbacks do between turns."""
        if len(ranks) == basics.size():
            instead_of_all(None)
            return
        name = f"fit in place, generation {generation()}"
        instead_of_all(add_process_set(ranks, name=name))

    def keep(self) -> None:
        """What callbacks have changed between turns is not put back."""
        self.state._keep()

    # ---- what newcomers get besides the state

    def objects(self) -> Any:
        return self._model.stop_training, self.callbacks.plain()

    def take_objects(self, found: Any) -> None:
        self._received = found

    def take_over(self) -> None:
        """When Keras has begun."""
        if self._received is not None:
            self._model.stop_training, plain = self._received
            self.callbacks.take(plain)
            self._received = None


# ---- callbacks


class _Callbacks(KERAS.callbacks.CallbackList):  # type: ignore[misc, name-defined]
    """All of fit(). A newcomer is told of no batch of its first epoch that others have had."""

    callbacks: list[Any]

    def __init__(
        self, loop: _Fit, every: Sequence[Any], on_rank_0: Sequence[Any], *, skipped: int,
        verbose: Any, **params: int,
    ) -> None:  # fmt: skip
        """`skipped`: steps of this process's first epoch. `params`: what Keras tells callbacks."""
        self._loop = loop
        self._skipped, self._batch = skipped, 0
        only = [_OnRank0(each, loop) for each in on_rank_0]
        if verbose == "auto":
            only.append(_OnRank0(KERAS.callbacks.ProgbarLogger()))
        super().__init__(
            [*every, *only], add_history=True, add_progbar=verbose not in (0, "auto"),
            model=loop._model, verbose=1 if verbose == "auto" else verbose, **params,
        )  # fmt: skip
        self.callbacks = [
            each if _is_simple(each) else _Repeated(each, loop) for each in self.callbacks
        ]

    def _configure_async_dispatch(self, callbacks: Any) -> None:
        """What a callback does belongs between two turns."""

    def skips(self) -> bool:
        return self._batch < self._skipped

    # ---- what Keras calls

    def on_train_begin(self, logs: Any = None) -> None:
        super().on_train_begin(logs)
        self._loop.take_over()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._loop.keep()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._batch = batch
        if not self.skips():
            super().on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if not self.skips():
            super().on_train_batch_end(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_end(epoch, logs)
        self._skipped = 0

    # ---- for the other ranks

    def plain(self) -> list[tuple[str, dict[str, Any]]]:
        return [(type(each).__name__, plain_attributes(each)) for each in self._lasting()]

    def take(self, found: list[tuple[str, dict[str, Any]]]) -> None:
        mine = self._lasting()
        kinds = [type(each).__name__ for each in mine]
        if kinds != [kind for kind, _ in found]:
            raise ValueError(
                f"elastic.fit: this process has the callbacks {kinds}, and those that train have "
                f"{[kind for kind, _ in found]}: all ranks need the same ones. Give callbacks that "
                "only rank 0 needs as on_rank_0=[...] on all ranks"
            )
        for each, (_, attributes) in zip(mine, found, strict=True):
            vars(each).update(attributes)

    def _lasting(self) -> list[Any]:
        inner = [each.inner if isinstance(each, _Around) else each for each in self.callbacks]
        return [each for each in inner if type(each).__name__ != "ProgbarLogger"]


def _hooks() -> list[str]:
    names = dir(KERAS.callbacks.Callback)
    return [name for name in names if name.startswith("on_") and "predict" not in name]


class _Around(KERAS.callbacks.Callback):  # type: ignore[misc, name-defined]
    """Hands all on to another callback."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def set_model(self, model: Any) -> None:
        self.inner.set_model(model)

    def set_params(self, params: Any) -> None:
        self.inner.set_params(params)

    def _call(self, hook: str, *given: Any) -> None:
        raise NotImplementedError


def _handed_on(hook: str) -> Callable[..., None]:
    def method(self: _Around, *given: Any, **named: Any) -> None:
        self._call(hook, *given, *named.values())

    return method


for _hook in _hooks():
    setattr(_Around, _hook, _handed_on(_hook))


class _Repeated(_Around):
    """A callback that may communicate."""

    def __init__(self, inner: Any, loop: _Fit) -> None:
        super().__init__(inner)
        self._loop = loop

    def _call(self, hook: str, *given: Any) -> None:
        self._loop.call(self.inner, getattr(self.inner, hook), *given)


class _OnRank0(_Around):
    """A callback that rank 0 calls, which may be another process after each death. With a loop,
    all ranks know at an epoch's end what it remembers, and if rank 0 dies there, the next one calls
    it again."""

    def __init__(self, inner: Any, loop: _Fit | None = None) -> None:
        super().__init__(inner)
        self._loop = loop
        self._epoch: tuple[Any, ...] = ()
        self._has_begun = False

    def _call(self, hook: str, *given: Any) -> None:
        if hook != "on_epoch_end" or self._loop is None:
            self._if_rank_0(hook, given)
            return
        is_done = False

        def once() -> dict[str, Any]:
            nonlocal is_done
            is_done = is_done or self._if_rank_0(hook, given)
            return plain_attributes(self.inner)

        vars(self.inner).update(self._loop.rank_0s(once))

    def _if_rank_0(self, hook: str, given: tuple[Any, ...]) -> bool:
        if hook == "on_epoch_begin":
            self._epoch = given
        if basics.rank() != 0:
            return False
        if not self._has_begun and hook != "on_train_begin":
            self.inner.on_train_begin({})
            if self._epoch and hook != "on_epoch_begin":
                self.inner.on_epoch_begin(*self._epoch)
        self._has_begun = True
        getattr(self.inner, hook)(*given)
        return True


def _is_simple(callback: Any) -> bool:
    """Keras' own communicate with nobody."""
    return isinstance(callback, _OnRank0) or type(callback).__module__.startswith("keras.")


def plain_attributes(callback: Any) -> dict[str, Any]:
    """What a callback remembers in the form of numbers, words, arrays, and lists of them."""
    return {
        name: value
        for name, value in vars(callback).items()
        if name not in ("params", "_params", "model", "_model") and _is_plain(value)
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_plain(each) for pair in value.items() for each in pair)
    if isinstance(value, (list, tuple, set)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str, np.generic, np.ndarray))


def _operations() -> tuple[int, int]:
    """Those of this generation."""
    return generation(), metrics()["operations"]


# ---- data


class _Numbers(KERAS.utils.Sequence if LEGACY else KERAS.utils.PyDataset):  # type: ignore[misc]
    """What Keras' loop counts its batches by. The contents come from elsewhere."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._steps = steps

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, number: int) -> Any:
        return (np.zeros((1, 1), np.float32),)


class _Ahead:
    """Loads the batches of this rank, `workers` of them ahead of the training."""

    def __init__(self, cursor: Cursor, load: Load, workers: int) -> None:
        self._cursor = cursor
        self._load = load
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers, "hvdlite-fit") if workers else None
        self._place: tuple[int, int] | None = None
        self._futures: deque[Future[Any]] = deque()
        self._rest: Iterator[Any] = iter(())  # of the epoch, not asked for yet

    def first(self) -> Any:
        return self._load(self._cursor.ahead()[0])

    def of_next_step(self) -> Any:
        """Which is under way from now on."""
        place = self._cursor.deal, self._cursor.epoch
        if place != self._place:
            self._place, self._rest = place, iter(self._cursor.ahead())
            self._futures.clear()
        indices, weight = self._cursor.begin(), self._cursor.weight
        if self._pool is None:
            return weighed(self._load(indices), weight, len(indices))
        while len(self._futures) <= self._workers and (later := next(self._rest, None)) is not None:
            self._futures.append(self._pool.submit(self._load, later))
        return weighed(self._futures.popleft().result(), weight, len(indices))


def _like(batch: Any, length: int, weight: float) -> Any:
    """A batch of so many samples, for what is traced: without their contents."""

    def empty(each: Any) -> Any:
        return np.zeros_like(each, shape=(length, *each.shape[1:]))

    return weighed(KERAS.tree.map_structure(empty, batch), weight, length)


def weighed(batch: Any, weight: float, length: int) -> Any:
    """The mean of the ranks' means is that of the samples, if their parts differ."""
    if weight == 1.0:
        return batch
    x, y, *more = (*batch, None)[:3]
    given = more[0] if more and more[0] is not None else np.ones(length, np.float32)
    return x, y, given * np.float32(weight)


def _loader(x: Any, y: Any, sample_weight: Any, length: int | None) -> tuple[Load, int]:
    """Returns what loads the samples of given numbers, and how many there are."""
    if callable(x):
        if y is not None or sample_weight is not None or length is None:
            raise TypeError(
                "elastic.fit: x is a function that loads samples, so it returns (x, y) or (x, y, "
                "sample_weight), and length= says how many there are"
            )
        return x, length
    tree = KERAS.tree
    parts = tuple(tree.map_structure(_array, each) for each in (x, y, sample_weight)
                  if each is not None)  # fmt: skip
    lengths = {len(each) for each in tree.flatten(parts)}
    if len(lengths) != 1:
        raise ValueError(f"elastic.fit: the arrays have different lengths: {sorted(lengths)}")
    return lambda numbers: tree.map_structure(lambda each: each[numbers], parts), lengths.pop()


def _array(given: Any) -> Any:
    if isinstance(given, np.ndarray) or KERAS.ops.is_tensor(given):
        found = np.asarray(KERAS.ops.convert_to_numpy(given))
        return found.astype(KERAS.config.floatx()) if found.dtype == np.float64 else found
    raise TypeError(
        f"elastic.fit: a {type(given).__name__} cannot be dealt to other ranks when these change: "
        "give arrays, or a function that loads the samples of given numbers, with length=. Or call "
        "model.fit() in a function under @hvd.elastic.run"
    )


_INSTEAD = {
    "class_weight": "give sample_weight",
    "validation_split": "give validation_data",
    "steps_per_epoch": "the samples and the batch say how many steps an epoch has",
}


def _check(model: Any, options: Mapping[str, Any]) -> None:
    """Raises for what cannot go on in place."""
    if LEGACY:
        raise RuntimeError("elastic.fit needs Keras 3, and this program runs with tf_keras")
    for name, instead in _INSTEAD.items():
        if name in options:
            raise TypeError(f"elastic.fit does not take {name}: {instead}")
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        raise ValueError("elastic.fit: call model.compile() first")
    if not hasattr(optimizer, "_hvd"):
        raise ValueError(
            "elastic.fit: the model's optimizer is not distributed, so nothing adds the ranks' "
            "gradients: model.compile(optimizer=hvd.DistributedOptimizer(...))"
        )
    if getattr(model, "steps_per_execution", 1) != 1:
        raise ValueError("elastic.fit needs steps_per_execution=1: a step is made again alone")
