"""The parameters of Estimators, with Horovod's names and defaults, and how they are saved.

Each is a Param of pyspark.ml with a getter and a setter: `batch_size`, `getBatchSize()`,
`setBatchSize(32)`.
"""

from __future__ import annotations

import base64
import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

import cloudpickle
from pyspark.ml.param import Param, Params
from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)

_PARAMETERS = "hvdlite"  # of the metadata of what is saved

# name -> (default, what it is)
Rows = Mapping[str, tuple[Any, str]]

COMMON: Rows = {
    "num_proc": (None, "number of processes; spark.default.parallelism if not given"),
    "data_module": (None, "accepted for compatibility with Horovod: data are read by pyarrow"),
    "model": (None, "the model to train"),
    "backend": (None, "a Backend that runs the processes, instead of num_proc"),
    "store": (None, "the Store for data, checkpoints and logs"),
    "optimizer": (None, "the optimizer"),
    "loss": (None, "a loss, or one for each label"),
    "metrics": (None, "functions to observe"),
    "loss_weights": (None, "the weight of each label's loss"),
    "sample_weight_col": (None, "the column with the weight of each row"),
    "gradient_compression": (None, "hvd.Compression.fp16, for example"),
    "feature_cols": (None, "the columns that the model gets"),
    "continuous_cols": (None, "accepted for compatibility with Horovod"),
    "categorical_cols": (None, "accepted for compatibility with Horovod"),
    "validation": (None, "the part of the rows to validate with, or the column that marks them"),
    "label_cols": (None, "the columns with labels"),
    "callbacks": (None, "callbacks of the framework"),
    "batch_size": (32, "rows of a step of one process"),
    "val_batch_size": (None, "the same for validation; batch_size if not given"),
    "epochs": (1, "number of epochs"),
    "verbose": (1, "0: rank 0 prints nothing"),
    "random_seed": (None, "the seed of the order of rows"),
    "shuffle_buffer_size": (
        None,
        "accepted for compatibility with Horovod: all rows of a rank are shuffled",
    ),
    "shuffle": (True, "whether each epoch has another order of rows"),
    "partitions_per_process": (10, "files of data per process"),
    "run_id": (None, "the name of the run in the store; a new one if not given"),
    "train_steps_per_epoch": (None, "steps of an epoch; all rows if not given"),
    "validation_steps_per_epoch": (None, "the same for validation"),
    "transformation_fn": (None, "a function from one pandas.DataFrame to another"),
    "train_reader_num_workers": (2, "accepted for compatibility with Horovod"),
    "val_reader_num_workers": (2, "accepted for compatibility with Horovod"),
    "reader_pool_type": ("thread", "accepted for compatibility with Horovod"),
    "label_shapes": (None, "the shape of each label"),
    "inmemory_cache_all": (
        False,
        "accepted for compatibility with Horovod: a rank's rows are in memory",
    ),
    "use_gpu": (True, "whether ranks use a GPU, if there is one"),
    "mp_start_method": (None, "accepted for compatibility with Horovod"),
}

MODEL: Rows = {
    "history": (None, "what the epochs of training have measured"),
    "model": (None, "the trained model"),
    "feature_columns": (None, "the columns that the model gets"),
    "label_columns": (None, "the columns with labels"),
    "output_cols": (None, "the columns with predictions; LABEL__output if not given"),
    "run_id": (None, "the name of the run in the store"),
}


class Tabular(Params):
    """A part of a Pipeline whose parameters are the rows of a table.

    A class with ROWS gets a Param, a getter and a setter for each of them, and a constructor with a
    keyword for each. None stands for the default.
    """

    ROWS: ClassVar[Rows] = {}
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        kind = inspect.Parameter.KEYWORD_ONLY
        keywords = []
        for name, (default, about) in cls.ROWS.items():
            keywords.append(inspect.Parameter(name, kind, default=default))
            setattr(cls, name, Param(Params._dummy(), name, about))
            camel = "".join(word.title() for word in name.split("_"))
            setattr(cls, f"get{camel}", _getter(name))
            setattr(cls, f"set{camel}", _setter(name))
        cls.__signature__ = inspect.Signature(keywords)

    def __init__(self, **given: Any) -> None:
        unknown = sorted(given.keys() - self.ROWS.keys())
        if unknown:
            raise TypeError(f"{type(self).__name__}() has no parameter {', '.join(unknown)}")
        super().__init__()
        self._setDefault(**{name: default for name, (default, _) in self.ROWS.items()})
        self._set(**{name: value for name, value in given.items() if value is not None})

    def of(self, name: str) -> Any:
        """Returns the value of a parameter."""
        return self.getOrDefault(name)

    def listed(self, name: str) -> list[Any]:
        """Returns the value as a list: one value may be given without one."""
        found = self.of(name)
        if found is None:
            return []
        return list(found) if isinstance(found, (list, tuple)) else [found]


def _getter(name: str) -> Any:
    def get(self: Params) -> Any:
        return self.getOrDefault(name)

    return get


def _setter(name: str) -> Any:
    def put(self: Params, value: Any) -> Params:
        return self._set(**{name: value})  # type: ignore[no-any-return]

    return put


class EstimatorParams(Tabular):
    """All parameters that every Estimator has."""

    ROWS = COMMON


class ModelParams(Tabular):
    """What a trained model knows besides its weights."""

    ROWS = MODEL


class Saved(MLReadable[Any], MLWritable):
    """write(), save(), read() and load(): one file of metadata, as for each part of a Pipeline, in
    which the parameters are pickled. A pickle can run any code: load only what you trust."""

    def write(self) -> MLWriter:
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader[Any]:
        return _Reader(cls)


class _Writer(MLWriter):
    def __init__(self, instance: Any) -> None:
        super().__init__()
        self._instance = instance

    def saveImpl(self, path: str) -> None:
        values = {param.name: value for param, value in self._instance._paramMap.items()}
        pickled = base64.b64encode(cloudpickle.dumps(values)).decode()
        bare = type(self._instance)()
        bare._resetUid(self._instance.uid)
        bare._defaultParamMap = {}
        DefaultParamsWriter.saveMetadata(
            bare, path, self.sparkSession, extraMetadata={_PARAMETERS: pickled}, paramMap={}
        )


class _Reader(MLReader[Any]):
    def __init__(self, kind: type[Any]) -> None:
        super().__init__()
        self._kind = kind

    def load(self, path: str) -> Any:
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        if _PARAMETERS not in metadata:
            raise ValueError(f"{path} has no Estimator or model of hvdlite")
        instance = self._kind()
        instance._resetUid(metadata["uid"])
        instance._set(**cloudpickle.loads(base64.b64decode(metadata[_PARAMETERS])))
        return instance
