"""Elastic training with TensorFlow: the place of TensorFlowState, TensorFlowKerasState and run,
which are still to come."""

from hvdlite.adapter.elastic import not_yet as __getattr__  # noqa: F401

__all__: list[str] = []
