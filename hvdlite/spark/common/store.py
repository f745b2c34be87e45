"""Where an Estimator keeps its data, checkpoints and logs: a folder on any file system of fsspec.

    store = Store.create("/mnt/shared/run")        a folder that all executors reach
    store = Store.create("s3://bucket/run")        with s3fs; likewise hdfs://, gs://, abfs://

All hosts read and write through fsspec and pyarrow. Spark's own file systems are not used, so they
need no configuration.
"""

from __future__ import annotations

import posixpath
from typing import Any

from hvdlite.spark.needs import need

__all__ = [
    "AbstractFilesystemStore", "DBFSLocalStore", "FilesystemStore", "HDFSStore", "LocalStore",
    "Store",
]  # fmt: skip

CHECKPOINT = "checkpoint"
LOGS = "logs"


class Store:
    """A folder with `runs/RUN/checkpoint`, `runs/RUN/logs` and data in Parquet.

    `create()` chooses the class. `storage_options` go to fsspec.
    """

    def __init__(
        self,
        prefix_path: str,
        train_path: str | None = None,
        val_path: str | None = None,
        test_path: str | None = None,
        runs_path: str | None = None,
        save_runs: bool = True,
        storage_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        need("fsspec", "a Store")
        self.prefix_path = self.get_full_path(prefix_path)
        self.storage_options = dict(storage_options or {})
        self._train = train_path or self._below("intermediate_train_data")
        self._val = val_path or self._below("intermediate_val_data")
        self._test = test_path or self._below("intermediate_test_data")
        self._runs = runs_path or self._below("runs")
        self._save_runs = save_runs

    @staticmethod
    def create(prefix_path: str, *args: Any, **kwargs: Any) -> Store:
        """Returns the store for this path: a local folder, or a URL that fsspec knows."""
        if HDFSStore.matches(prefix_path):
            return HDFSStore(prefix_path, *args, **kwargs)
        if DBFSLocalStore.matches_dbfs(prefix_path):
            return DBFSLocalStore(prefix_path, *args, **kwargs)
        if LocalStore.matches(prefix_path):
            return LocalStore(prefix_path, *args, **kwargs)
        return FilesystemStore(prefix_path, *args, **kwargs)

    @property
    def fs(self) -> Any:
        """The file system of fsspec. Each process makes its own."""
        import fsspec

        return fsspec.core.url_to_fs(self.prefix_path, **self.storage_options)[0]

    def get_full_path(self, path: str) -> str:
        return path.rstrip("/") if len(path) > 1 else path

    def get_localized_path(self, path: str) -> str:
        """Returns the path as the file system itself writes it, without a protocol."""
        return str(self.fs._strip_protocol(path))

    # Data

    def get_train_data_path(self, idx: int | str | None = None) -> str:
        return _numbered(self._train, idx)

    def get_val_data_path(self, idx: int | str | None = None) -> str:
        return _numbered(self._val, idx)

    def get_test_data_path(self, idx: int | str | None = None) -> str:
        return _numbered(self._test, idx)

    def is_parquet_dataset(self, path: str) -> bool:
        """Whether there are Parquet files in this folder, or below it."""
        return self.exists(path) and bool(self.parquet_files(path))

    def get_parquet_dataset(self, path: str) -> Any:
        """Returns it as a dataset of pyarrow."""
        import pyarrow.dataset

        files = [file for file, _ in self.parquet_files(path)]
        return pyarrow.dataset.dataset(files, filesystem=self.fs, format="parquet")

    def parquet_files(self, path: str) -> list[tuple[str, int]]:
        """Returns the Parquet files below this folder with their sizes, by name."""
        fs = self.fs
        folder = str(fs._strip_protocol(path))
        found = fs.find(folder, detail=True)
        return sorted(
            (name, int(facts["size"]))
            for name, facts in found.items()
            if name.endswith((".parquet", ".parq"))
            and not any(
                part.startswith(("_", ".")) for part in name[len(folder) :].split("/") if part
            )
        )

    # Runs

    def saving_runs(self) -> bool:
        return self._save_runs

    def get_runs_path(self) -> str:
        return self._runs

    def get_run_path(self, run_id: str) -> str:
        return posixpath.join(self._runs, run_id)

    def get_checkpoint_path(self, run_id: str) -> str:
        """Returns the folder of a run's checkpoints."""
        return posixpath.join(self.get_run_path(run_id), CHECKPOINT)

    def get_checkpoints(self, run_id: str, suffix: str = ".ckpt") -> list[str]:
        """Returns the files of a run's checkpoints, in the order of their names."""
        folder = self.get_checkpoint_path(run_id)
        if not self.exists(folder):
            return []
        fs = self.fs
        return sorted(name for name in fs.find(self.get_localized_path(folder)) if
                      name.endswith(suffix))  # fmt: skip

    def get_logs_path(self, run_id: str) -> str:
        return posixpath.join(self.get_run_path(run_id), self.get_logs_subdir())

    def get_checkpoint_filename(self) -> str:
        return CHECKPOINT

    def get_logs_subdir(self) -> str:
        return LOGS

    # Files

    def exists(self, path: str) -> bool:
        return bool(self.fs.exists(path))

    def read(self, path: str) -> bytes:
        with self.fs.open(path, "rb") as file:
            return bytes(file.read())

    def write(self, path: str, data: bytes) -> None:
        """Writes a file, and the folders above it."""
        fs = self.fs
        fs.makedirs(posixpath.dirname(path), exist_ok=True)
        with fs.open(path, "wb") as file:
            file.write(data)

    def write_text(self, path: str, text: str) -> None:
        self.write(path, text.encode())

    def delete(self, path: str) -> None:
        """Removes a file or a folder with all that is in it, if it is there."""
        fs = self.fs
        if fs.exists(path):
            fs.rm(path, recursive=True)

    def _below(self, *names: str) -> str:
        return posixpath.join(self.prefix_path, *names)


class AbstractFilesystemStore(Store):
    """A store on a file system; Horovod's name for all of them."""


class FilesystemStore(AbstractFilesystemStore):
    """A store on any file system of fsspec, by its URL."""


class LocalStore(FilesystemStore):
    """A store in a local folder. On a cluster all hosts have to reach it under this path."""

    def get_full_path(self, path: str) -> str:
        import os

        return os.path.abspath(path.removeprefix("file://"))

    @staticmethod
    def matches(path: str) -> bool:
        return "://" not in path or path.startswith("file://")


class DBFSLocalStore(LocalStore):
    """A store in Databricks' file system: `dbfs:/...` and `file:///dbfs/...` are `/dbfs/...`."""

    def get_full_path(self, path: str) -> str:
        return super().get_full_path(self.normalize_path(path))

    @staticmethod
    def matches_dbfs(path: str) -> bool:
        return path.startswith(("dbfs:/", "/dbfs/", "file:///dbfs/"))

    @staticmethod
    def normalize_path(path: str) -> str:
        path = path.removeprefix("file://")
        return "/dbfs/" + path[len("dbfs:/") :].lstrip("/") if path.startswith("dbfs:/") else path


class HDFSStore(FilesystemStore):
    """A store on HDFS, over fsspec's driver, which needs libhdfs (pyarrow).

    `driver` is accepted for Horovod's sake: there is one.
    """

    def __init__(
        self,
        prefix_path: str,
        host: str | None = None,
        port: int | None = None,
        user: str | None = None,
        kerb_ticket: str | None = None,
        driver: str = "libhdfs",
        extra_conf: dict[str, str] | None = None,
        *,
        storage_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        given = {"host": host, "port": port, "user": user, "kerb_ticket": kerb_ticket,
                 "extra_conf": extra_conf}  # fmt: skip
        options = {name: value for name, value in given.items() if value is not None}
        super().__init__(
            prefix_path, storage_options={**options, **(storage_options or {})}, **kwargs
        )

    def get_full_path(self, path: str) -> str:
        return path if "://" in path else f"hdfs://{path}"

    @staticmethod
    def matches(path: str) -> bool:
        return path.startswith("hdfs://")


def _numbered(path: str, idx: int | str | None) -> str:
    return path if idx is None else f"{path}.{idx}"


def check(store: Any) -> Store:
    """Returns it; the errors say what an Estimator needs."""
    if store is None:
        raise ValueError("the Estimator needs store=, for example Store.create('/shared/folder')")
    if not isinstance(store, Store):
        raise TypeError(f"store={store!r}: expected a Store, as of Store.create()")
    return store
