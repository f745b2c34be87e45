"""What the Estimators of all frameworks do: data into the store, a job, a model out of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from pyspark.ml import Estimator

from hvdlite.spark.common import data
from hvdlite.spark.common.backend import Backend, SparkBackend
from hvdlite.spark.common.params import EstimatorParams, Saved
from hvdlite.spark.common.rows import Training, columns_of
from hvdlite.spark.common.store import check

_WITHOUT_USE = ("data_module",)


class HorovodEstimator(Estimator[Any], EstimatorParams, Saved):
    """Derive from it, with _train()."""

    def fit_on_parquet(self, params: Mapping[Any, Any] | None = None) -> Any:
        """Trains on the Parquet files below the store's train path, and validates on those below
        its validation path, if there are any. Returns the model."""
        if params:
            return self.copy(dict(params)).fit_on_parquet()
        store, backend = check(self.of("store")), self._backend()
        path, val_path = store.get_train_data_path(), store.get_val_data_path()
        self._check()
        validates = store.is_parquet_dataset(val_path)
        return self._train(backend, self._training(path, val_path if validates else None))

    def _fit(self, dataset: Any) -> Any:
        store, backend = check(self.of("store")), self._backend()
        self._check()
        idx = uuid.uuid4().hex[:8]
        paths = store.get_train_data_path(idx), store.get_val_data_path(idx)
        processes = backend.num_processes()
        try:
            written = data.write(
                dataset,
                self._columns(dataset),
                self.of("validation"),
                store,
                paths,
                processes * self.of("partitions_per_process"),
                self.of("random_seed") or 0,
            )
            if written.train < processes:
                raise ValueError(
                    f"the DataFrame has {written.train} rows for training, and {processes} ranks "
                    "are to train on them: start fewer processes (num_proc), or give them more "
                    "data."
                )
            validates = written.validation >= processes
            if self.of("validation") and not validates:
                raise ValueError(
                    f"the DataFrame has {written.validation} rows for validation, and {processes} "
                    "ranks are to use them: give validation= a larger part, or start fewer "
                    "processes."
                )
            return self._train(backend, self._training(paths[0], paths[1] if validates else None))
        finally:
            for path in paths:
                store.delete(path)

    def _columns(self, dataset: Any) -> list[str]:
        """The columns that the ranks need: all of them if a function transforms them."""
        if self.of("transformation_fn") is not None:
            return list(dataset.columns)
        features, labels = self.listed("feature_cols"), self.listed("label_cols")
        return columns_of(features, labels, self.of("sample_weight_col"))

    def _check(self) -> None:
        for name in ("model", "feature_cols", "label_cols", *self._needs()):
            if not self.isDefined(name) or self.of(name) is None:
                raise ValueError(f"{type(self).__name__} needs {name}=")
        for name in _WITHOUT_USE:
            if self.of(name) is not None:
                raise ValueError(
                    f"{type(self).__name__}({name}=...) is not possible: data are read from the "
                    "store by pyarrow. transformation_fn changes them, and hvdlite.spark.run() "
                    "runs any loop of training."
                )

    def _needs(self) -> tuple[str, ...]:
        """More parameters that have to be given."""
        return ()

    def _backend(self) -> Backend:
        backend = self.of("backend")
        if backend is not None and self.of("num_proc") is not None:
            raise ValueError("num_proc and backend exclude one another: the backend has a number.")
        return backend or SparkBackend(self.of("num_proc"))

    def _training(self, path: str, val_path: str | None) -> Training:
        batch_size = self.of("batch_size")
        return Training(
            store=self.of("store"),
            train_path=path,
            val_path=val_path,
            run_id=self.of("run_id") or f"run-{uuid.uuid4().hex[:8]}",
            features=self.listed("feature_cols"),
            labels=self.listed("label_cols"),
            weight=self.of("sample_weight_col"),
            transformation=self.of("transformation_fn"),
            batch_size=batch_size,
            val_batch_size=self.of("val_batch_size") or batch_size,
            epochs=self.of("epochs"),
            steps=self.of("train_steps_per_epoch"),
            val_steps=self.of("validation_steps_per_epoch"),
            shuffle=self.of("shuffle"),
            seed=self.of("random_seed") or 0,
            verbose=self.of("verbose") if self.of("verbose") is not None else 1,
            use_gpu=self.of("use_gpu"),
        )

    def _train(self, backend: Backend, training: Training) -> Any:
        """Runs the job and returns the model."""
        raise NotImplementedError
