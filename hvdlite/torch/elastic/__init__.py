"""Elastic training with torch: the place of TorchState, ElasticSampler and run, which are still to come."""

__all__: list[str] = []
