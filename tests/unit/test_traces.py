"""Where an exception was raised, as the launcher reads it in a rank's output."""

from __future__ import annotations

import pytest

from hvdlite.launch import last_words

_BEGIN = "Traceback (most recent call last):\n"
_MAIN = '  File "/home/me/train.py", line 61, in <module>\n    step()\n    ^^^^^^\n'
_LOAD = '  File "/home/me/data/load.py", line 7, in load\n    return x["a"]\n'
_TORCH = '  File "/v/lib/python3.11/site-packages/torch/nn.py", line 9, in forward\n    y()\n'
_QUEUE = '  File "/usr/lib/python3.11/queue.py", line 171, in get\n'
_FAR = '  File "/srv/lib.py", line 1, in f\n'


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ""),
        ("epoch 3\n" + _MAIN, ""),
        (_BEGIN + _MAIN + "KeyError: 'a'\n", "train.py:61"),
        (_BEGIN + _MAIN + _LOAD + "KeyError: 'a'\n", "data/load.py:7 (load)"),
        (_BEGIN + _MAIN + _TORCH + "ValueError: bad\n", "train.py:61"),
        (_BEGIN + _LOAD + _QUEUE + "queue.Empty\n", "data/load.py:7 (load)"),
        (_BEGIN + _FAR + "ValueError\n", "lib.py:1 (f)"),
        (_BEGIN + '  File "<string>", line 1, in <module>\nValueError: bad\n', ""),
        (_BEGIN + '  File "<frozen runpy>", line 198, in _run\n' + _TORCH + "OSError\n", ""),
        (_BEGIN + _MAIN + "KeyError: 'a'\n\nDuring handling of the above exception, another "
         "exception occurred:\n\n" + _BEGIN + _LOAD + "ValueError: b\n", "data/load.py:7 (load)"),
        # torch's DataLoader raises a worker's exception again.
        (_BEGIN + _MAIN + _TORCH + "KeyError: Caught KeyError in DataLoader worker process 0.\n"
         "Original " + _BEGIN + _TORCH + _LOAD + "KeyError: 'a'\n\n", "data/load.py:7 (load)"),
        (_BEGIN + '  File "train.py", line 3\n    x = = 1\nSyntaxError: bad\n', "train.py:3"),
    ],
)  # fmt: skip
def test_the_innermost_frame_of_the_users_code_is_found(text: str, place: str) -> None:
    lines = text.encode().splitlines(keepends=True)
    assert last_words.raised_at(lines, "/home/me").decode() == place
