"""Elastic training with TensorFlow: the place of TensorFlowState, TensorFlowKerasState and run, which are still to come."""

__all__: list[str] = []
