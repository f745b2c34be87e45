"""What the ranks of a KerasEstimator do. Keras is imported only where it is used, because its
backend is chosen before that."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hvdlite.job import basics
from hvdlite.spark.common import rows
from hvdlite.spark.common.rows import Training, shaped


@dataclass(frozen=True)
class KerasJob:
    """What a user has given of Keras's, as far as it can be pickled."""

    model: bytes
    optimizer: Any
    loss: Any
    loss_weights: Any
    metrics: Any
    compression: Any
    callbacks: Sequence[Any]
    checkpoint_callback: Any
    custom_objects: Mapping[str, Any] | None
    label_shapes: Sequence[Sequence[int]] | None


def backend_name() -> str:
    import keras

    return str(keras.backend.backend())


def described(optimizer: Any) -> Any:
    """Returns the optimizer without the model for which it may have been built."""
    import keras

    if isinstance(optimizer, str):
        return optimizer
    return keras.optimizers.serialize(optimizer)


@contextlib.contextmanager
def _file(name: str, data: bytes = b"") -> Iterator[Path]:
    """A file with these bytes, for a moment: Keras knows its formats by their names."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        if data:
            path.write_bytes(data)
        yield path


def dumped(model: Any) -> bytes:
    """The model with its weights, in Keras' own format."""
    with _file("model.keras") as path:
        model.save(path)
        return path.read_bytes()


def loaded(data: bytes, custom_objects: Mapping[str, Any] | None) -> Any:
    import keras

    with _file("model.keras", data) as path:
        return keras.models.load_model(path, dict(custom_objects or {}), compile=False)


def train(asked: Training, job: KerasJob) -> tuple[list[Any], dict[str, Any]] | None:
    """Runs in each rank; rank 0 returns the weights and the history."""
    import keras

    import hvdlite.keras as hvd

    basics.init()
    keras.utils.set_random_seed(asked.seed + basics.rank())
    model = loaded(job.model, job.custom_objects)
    if basics.rank() == 0:
        _resume(model, asked)
    optimizer = keras.optimizers.get(job.optimizer)
    model.compile(
        hvd.DistributedOptimizer(optimizer, compression=job.compression or hvd.Compression.none),
        loss=job.loss,
        loss_weights=job.loss_weights,
        metrics=job.metrics,
    )
    arrays = asked.read(asked.train_path, basics.rank(), basics.size())
    most = max(hvd.allgather_object(rows.rows_of(arrays)))
    validation = None
    if asked.val_path:
        val = asked.read(asked.val_path, basics.rank(), basics.size())
        validation = _split(val, asked, job)
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        *job.callbacks,
    ]
    if basics.rank() == 0:
        if asked.store.saving_runs():
            callbacks.append(
                keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: _save(model, asked))
            )
        if job.checkpoint_callback is not None:
            callbacks.append(job.checkpoint_callback)
    fitted = model.fit(
        _batches(arrays, asked, job, most),
        epochs=asked.epochs,
        validation_data=validation,
        validation_batch_size=asked.val_batch_size if validation else None,
        validation_steps=asked.val_steps if validation else None,
        callbacks=callbacks,
        verbose=2 if asked.verbose and basics.rank() == 0 else 0,
    )
    history = {name: [float(v) for v in values] for name, values in fitted.history.items()}
    weights = model.get_weights()
    is_first = basics.rank() == 0
    basics.shutdown()
    return (weights, history) if is_first else None


def _split(batch: Mapping[str, Any], asked: Training, job: KerasJob) -> tuple[Any, ...]:
    """Returns features, labels and, if there are some, weights."""
    features = [_numbers(batch[name]) for name in asked.features]
    labels = [
        shaped(batch[name], job.label_shapes[i] if job.label_shapes else None)
        for i, name in enumerate(asked.labels)
    ]
    parts: list[Any] = [_one(features), _one(labels)]
    if asked.weight:
        parts.append(batch[asked.weight])
    return tuple(parts)


def _one(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def _numbers(values: Any) -> Any:
    return values.astype(np.float32) if np.issubdtype(values.dtype, np.floating) else values


def _batches(arrays: Mapping[str, Any], asked: Training, job: KerasJob, most: int) -> Any:
    """Returns a PyDataset whose epochs have the same number of batches on all ranks."""
    import keras

    class Batches(keras.utils.PyDataset):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._random = np.random.default_rng([asked.seed, most]) if asked.shuffle else None
            self.on_epoch_end()

        def __len__(self) -> int:
            return len(self._all)

        def __getitem__(self, index: int) -> tuple[Any, ...]:
            return _split(self._all[index], asked, job)

        def on_epoch_end(self) -> None:
            self._all = list(
                rows.batches(arrays, asked.batch_size, most, asked.steps, self._random)
            )

    return Batches()


def _save(model: Any, asked: Training) -> None:
    """Writes the weights of this epoch in place of those of the last one."""
    with _file("checkpoint.weights.h5") as path:
        model.save_weights(path)
        asked.store.write(asked.checkpoint, path.read_bytes())


def _resume(model: Any, asked: Training) -> None:
    """A run with this name may have been here before."""
    if asked.store.saving_runs() and asked.store.exists(asked.checkpoint):
        with _file("checkpoint.weights.h5", asked.store.read(asked.checkpoint)) as path:
            model.load_weights(path, skip_mismatch=False)


class Predictor:
    """Predicts batches in a task of Spark, which loads the model once."""

    def __init__(
        self, model: bytes, custom_objects: Mapping[str, Any] | None, backend: str
    ) -> None:
        self._model, self._custom, self._backend = model, custom_objects, backend
        self._loaded: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    def __call__(self, features: Sequence[Any]) -> list[Any]:
        if self._loaded is None:
            # Of no effect where this worker has imported Keras before.
            os.environ.setdefault("KERAS_BACKEND", self._backend)
            self._loaded = loaded(self._model, self._custom)
        found = self._loaded(_one([_numbers(values) for values in features]), training=False)
        outputs = found if isinstance(found, (list, tuple)) else [found]
        import keras

        return [keras.ops.convert_to_numpy(output) for output in outputs]
