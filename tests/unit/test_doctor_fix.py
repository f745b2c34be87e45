"""`hvdlite doctor --fix`: which imports become hvdlite's, and that nothing else of a file
changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hvdlite.tools.commands.cli import main
from hvdlite.tools.doctor.examination import rewritten

CASES = {
    "with a name": ("import horovod.torch as hvd\n", "import hvdlite.torch as hvd\n"),
    "among others": (
        "import os, horovod.keras as hk, sys, horovod.tensorflow as ht\n",
        "import os, hvdlite.keras as hk, sys, hvdlite.tensorflow as ht\n",
    ),
    "names of a module": (
        "from horovod.torch import init, rank as r\nif r():\n    from  horovod.torch import size\n",
        "from hvdlite.torch import init, rank as r\nif r():\n    from  horovod.torch import size\n",
    ),
    "a star": ("from horovod.tensorflow import *\n", "from hvdlite.tensorflow import *\n"),
    "a module of the package": ("from horovod import torch as hvd\n", "from hvdlite import torch "
                                                                      "as hvd\n"),
    "under another name": (
        "from horovod.common.exceptions import HorovodInternalError\n",
        "from hvdlite.exceptions import HorovodInternalError\n",
    ),
    "import_module": (
        "hvd = importlib.import_module('horovod.torch')\nx = import_module(\"json\")\n",
        "hvd = importlib.import_module('hvdlite.torch')\nx = import_module(\"json\")\n",
    ),
    "without a name": (
        "import horovod.torch\nhorovod.torch.init(); print(horovod.torch.rank())\n",
        "import hvdlite.torch\nhvdlite.torch.init(); print(hvdlite.torch.rank())\n",
    ),
    "without a name, and one that has to stay": (
        "import horovod.torch, horovod.mxnet\nhorovod.torch.init()\n",
        "import horovod.torch, horovod.mxnet\nhorovod.torch.init()\n",
    ),
    "what hvdlite does not have": (
        "import horovod.mxnet as s\nfrom horovod.torch import init, nothing\nfrom horovod import "
        "run\n",
        "import horovod.mxnet as s\nfrom horovod.torch import init, nothing\nfrom horovod import "
        "run\n",
    ),
    "in words": ("# import horovod.torch as hvd\nx = 'import horovod.torch'\n", "# import "
                                                                                "horovod.torch as "
                                                                                "hvd\nx = 'import "
                                                                                "horovod.torch'\n"),
    "behind other letters": ("s = 'é'; import horovod.torch as hvd\n", "s = 'é'; import "
                                                                       "hvdlite.torch as hvd\n"),
    "lines of Windows": ("import os\r\nimport horovod.torch as hvd\r\n", "import os\r\nimport "
                                                                         "hvdlite.torch as "
                                                                         "hvd\r\n"),
    "no line feed at the end, and a form feed": ("\x0c\nimport horovod.torch "
                                                 "as hvd", "\x0c\nimport hvdlite.torch as hvd"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_imports_become_hvdlites(name: str) -> None:
    before, after = CASES[name]
    assert rewritten(before.encode())[0].decode() == after
    assert rewritten(after.encode()) == (after.encode(), [])  # nothing is left to do


def test_another_encoding_stays() -> None:
    before = "# -*- coding: latin-1 -*-\ns = 'é'; import horovod.torch as hvd\n".encode("latin-1")
    assert rewritten(before)[0] == before.replace(b"horovod", b"hvdlite")


def test_a_folder_is_fixed_and_then_examined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, broken = tmp_path / "train.py", tmp_path / "broken.py"
    train.write_text("import horovod.torch as hvd\nhvd.init()\nhvd.nothing\n")
    train.chmod(0o755)
    broken.write_text("print 'x'\n")
    assert main(["doctor", "--fix", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert (
        said.err
        == f"{train}:1: fixed: import horovod.torch as hvd -> import hvdlite.torch as hvd\n"
    )
    assert f"{train}:3: change: hvdlite.torch.nothing" in said.out
    assert (
        train.read_text().startswith("import hvdlite.torch as hvd\n")
        and train.stat().st_mode & 0o777 == 0o755
    )
    assert broken.read_text() == "print 'x'\n"
