"""horovod.runner.elastic.constants: the sentence that programs look for in an error."""

from hvdlite.launch.elastic.outcome import RESET_LIMIT_EXCEEDED as RESET_LIMIT_EXCEEDED_MESSAGE

__all__ = ["RESET_LIMIT_EXCEEDED_MESSAGE"]
