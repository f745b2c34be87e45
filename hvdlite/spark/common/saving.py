"""save() and load() of Estimators and models: one file of metadata, as for every part of a
Pipeline, with the parameters pickled. A pickle can run any code: load only what you trust."""

from __future__ import annotations

import base64
from typing import Any

import cloudpickle
from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)

_PARAMETERS = "hvdlite"


class Saved(MLReadable[Any], MLWritable):
    """write(), save(), read() and load()."""

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
        if not DefaultParamsReader.isPythonParamsInstance(metadata) and "hvdlite" not in metadata:
            raise ValueError(f"{path} has no Estimator or model of hvdlite")
        instance = self._kind()
        instance._resetUid(metadata["uid"])
        instance._set(**cloudpickle.loads(base64.b64decode(metadata[_PARAMETERS])))
        return instance
