"""What a user may do about the failure of a program that hvdlite can explain better than the
library in which it has happened. Pure."""

from __future__ import annotations

import difflib
import re

# What an exception says, and what hvdliterun's last line adds.
_HINTS = (
    (
        r"ModuleNotFoundError: No module named 'horovod(\.[\w.]+)?'",
        "This program was written for Horovod: hvdliterun --horovod-compat runs it unchanged.",
    ),
    (
        r"module 'torch\._C' has no attribute '_cuda_\w+'|Torch not compiled with CUDA enabled",
        "This torch was built without CUDA: use the GPU only `if torch.cuda.is_available()`, or "
        "install a torch with CUDA.",
    ),
)
_COMMANDS = ("python", "python3", "bash")


def added_to(sentence: str) -> str:
    """Returns the launcher's last line with the hint that there is for it."""
    found = [hint for pattern, hint in _HINTS if re.search(pattern, sentence)]
    return " ".join([sentence, *found[:1]])


def command_meant(word: str) -> str:
    """Returns the command that a misspelt one is similar to; empty: there is none."""
    others = [each for each in _COMMANDS if each != word]
    return next(iter(difflib.get_close_matches(word, others, 1, 0.75)), "")
