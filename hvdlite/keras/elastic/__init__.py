"""Elastic training with Keras: the place of KerasState, its callbacks and run, which are still to come."""

__all__: list[str] = []
