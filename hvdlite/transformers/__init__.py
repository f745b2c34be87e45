"""The Hugging Face Trainer over hvdlite: ranks may die, leave and come while it trains.

    hvdlite.torch.distributed.init()
    trainer = hvdlite.transformers.elastic(Trainer(...))
    trainer.train()

docs/guides/hugging-face.md says how to train without that.

    in_place      START HERE: elastic()
"""

from hvdlite.transformers.in_place import elastic

__all__ = ["elastic"]
