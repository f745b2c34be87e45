"""`hvdlite doctor`: what it says about programs, line by line."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hvdlite.base import knobs
from hvdlite.tools.commands.cli import main
from hvdlite.tools.doctor import advice, libraries, surface
from hvdlite.tools.doctor.examination import examine
from hvdlite.tools.doctor.findings import Kind

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "drop_in" / "programs"

TORCH = "import horovod.torch as hvd\nhvd.init()\n"
KERAS = "import horovod.tensorflow.keras as hvd\nhvd.init()\n"

# A program; what is found besides what works: kind, line, name, and a part of the sentence.
SNIPPETS = {
    "all is well": (TORCH + "print(hvd.rank(), hvd.Average, hvd.mpi_ops.size)", []),
    "a name that nobody has": (TORCH + "hvd.allreduec(x)", ["change 3 horovod.torch.allreduec: "
                                                            "hvdlite does not have it: is "
                                                            "allreduce meant?"]),
    "a module that only Horovod has": ("import horovod.mxnet", ["change 1 horovod.mxnet: only "
                                                                "Horovod has it: MXNet is"]),
    "something inside of it": (
        "from horovod.mxnet import DistributedTrainer as T\nT()",
        ["change 1 horovod.mxnet.DistributedTrainer: only",
         "change 2 horovod.mxnet.DistributedTrainer: only"],
    ),
    "it is optional": (
        "try:\n    import horovod.mxnet as s\nexcept ImportError:\n    s = None\nif s:\n    "
        "s.run(f)",
        ["differs 2 horovod.mxnet: only Horovod has it: .*; the ImportError is caught"],
    ),
    "elastic with Keras": (
        "import horovod.keras as hvd\n@hvd.elastic.run\ndef f(state): pass", [],
    ),
    "elastic with TensorFlow": (
        "from horovod.tensorflow.elastic import TensorFlowKerasState, TensorFlowState, run", [],
    ),
    "elastic with torch": (TORCH + "@hvd.elastic.run\ndef f(state): pass", []),
    "elastic by import": (
        "from horovod.keras.elastic import KerasState, UpdateBatchStateCallback", [],
    ),
    "ray": ("from horovod.ray import RayExecutor", []),
    "mxnet": (
        "import horovod.mxnet as hvd\nhvd.init()",
        ["change 1 horovod.mxnet: only", "change 2 horovod.mxnet.init: only"],
    ),
    "an argument that is not there": (
        TORCH + "hvd.allreduce(x, nam='y')",
        ["change 3 horovod.torch.allreduce(nam=): allreduce() has no argument of this name; it has "
         "tensor, average, name"],
    ),
    "arguments of old": (
        TORCH + "hvd.allreduce(x, average=False)",
        ["differs 3 horovod.torch.allreduce(average=): works, with a DeprecationWarning"],
    ),
    "a communicator": ("import horovod.torch as "
                       "hvd\nhvd.init(comm=MPI.COMM_WORLD)\nhvd.init([0, 1])", []),
    "questions with other answers": (
        "from horovod.tensorflow import nccl_built, init\ninit()\nif nccl_built(): pass",
        ["differs 3 horovod.tensorflow.nccl_built: is the version of the NCCL"],
    ),
    "variables": (
        "import os, os as system\nos.environ['HOROVOD_CYCLE_TIME'] = "
        "'1'\nos.environ.setdefault('HOROVOD_CCL_CACHE', '1')\n"
        "system.putenv('HOROVOD_NONSENSE', '1')\nos.environ.update({'HOROVOD_RANK': '0'}, "
        "HOROVOD_CONTROLLER='mpi', OTHER='')\n"
        "x = os.environ['HOROVOD_LOCAL_RANK']",
        [
            "differs 3 HOROVOD_CCL_CACHE: has no effect: hvdlite has its own communication",
            "differs 4 HOROVOD_NONSENSE: has no effect: neither",
            "differs 5 HOROVOD_RANK: hvd.init() believes it",
            "differs 5 HOROVOD_CONTROLLER: has no effect",
        ],
    ),
    "import_module": (
        "import importlib\nhvd = "
        "importlib.import_module('horovod.torch')\nhvd.init()\nhvd.nothing()",
        ["change 4 horovod.torch.nothing: hvdlite does not have it: docs/guides/migrating.md"],
    ),
    "a second name": (TORCH + "other = hvd\nother.nothing", ["change 4 horovod.torch.nothing: "
                                                             "hvdlite does not have it: "
                                                             "docs/guides/migrating.md"]),
    "getattr": (
        TORCH + "getattr(hvd, 'nothing')\ngetattr(hvd, 'nothing', None)\ngetattr(hvd, 'rank')()",
        ["change 3 horovod.torch.nothing: hvdlite does not have it: docs/guides/migrating.md"],
    ),
    "a star": (
        "from horovod.torch import *\ninit()\nallreduce(x, nam=1)",
        ["change 3 horovod.torch.allreduce(nam=): "],
    ),
    "without a name of its own": (
        "import horovod.tensorflow\nhorovod.tensorflow.init()\nhorovod.tensorflow.poll()",
        ["change 3 horovod.tensorflow.poll: hvdlite does not have it"],
    ),
    "a program that has moved already": (
        "import hvdlite.keras as hvd\nfrom hvdlite import torch\nhvd.init()\ntorch.nothing",
        ["change 4 hvdlite.torch.nothing: hvdlite does not have it: docs/reference/api lists"],
    ),
    "private names of Horovod's": (
        "from horovod.torch.optimizer import _DistributedOptimizer\nfrom horovod.tensorflow import "
        "_LegacyOptimizer\n"
        "from horovod.tensorflow.compression import NoneCompressor\nfrom horovod.torch import "
        "mpi_lib_v2\n"
        "from horovod.tensorflow.mpi_ops import _grouped_allreduce\nfrom "
        "horovod.runner.common.util.hosts import parse_hosts\n"
        "from horovod.tensorflow.gradient_aggregation_eager import "
        "LocalGradientAggregationHelperEager\n"
        "from horovod.runner.http.http_server import RendezvousServer",
        ["change 8 horovod.runner.http.http_server.RendezvousServer: only Horovod has it: the "
         "ranks of hvdliterun meet"],
    ),
    "what every module has": ("import horovod\nprint(horovod.__file__, horovod.__name__)", []),
    "a module's name in a string": (
        "class Backend:\n    module = 'horovod.torch'\n    def load(self):\n        return "
        "import_module(self.module)",
        ["hint 2 horovod.torch: is in a string"],
    ),
    "strings that name no module": (
        "lock = FileLock('horovod.lock')\nopen(f'horovod.{rank}.log')\nx = 'horovod.torch.nothing'",
        [],
    ),
    "strings that name modules": (
        "patch('horovod.torch.rank')\nmodules = ['horovod.mxnet', 'horovod.runner.http']",
        ["hint 1 horovod.torch.rank: is", "hint 2 horovod.mxnet: is",
         "hint 2 horovod.runner.http: is"],
    ),
    "a module's name that is put together": (
        "import importlib\nhvd = importlib.import_module(f'horovod.{kind}')\n"
        "a = import_module('horovod.%s' % kind)\nb = __import__('horovod.' + kind)\n"
        "c = import_module('horovod.{}.mpi_ops'.format(kind))\nd = import_module(f'{x}.horovod')\n"
        "name = f'horovod.{kind}.elastic'\ne = import_module(name)",
        [f"hint {line} horovod.{rest}: begins a module's name: if the program imports"
         for line, rest in ((2, ""), (3, "%s"), (4, ""), (5, "{}.mpi_ops"), (7, ""))],
    ),
    "Lightning's strategy": (
        "from lightning.pytorch.strategies import DDPStrategy, HorovodStrategy\n"
        "import lightning.pytorch as pl\nt = pl.Trainer(strategy=HorovodStrategy())\n"
        "u = pl.Trainer(\n    strategy='horovod' if many else 'auto')\npl.Trainer(strategy='ddp')",
        ["change 1 lightning.pytorch.strategies.HorovodStrategy: Lightning has no Horovod since "
         "2.0: .*strategy=hvdlite.lightning.HvdliteStrategy()",
         "change 5 Trainer(strategy=\"horovod\"): Lightning has no"],
    ),
    "Lightning of old": (
        "import pytorch_lightning as pl\npl.Trainer(accelerator='horovod')\n"
        "pl.plugins.HorovodPlugin()",
        ["change 2 Trainer(accelerator=\"horovod\"): Lightning has",
         "change 3 pl.plugins.HorovodPlugin: Lightning has"],
    ),
    "a trainer of somebody else": ("from mine import Trainer\nTrainer(strategy='horovod')", []),
    "Databricks' runner": (
        "from sparkdl import HorovodRunner\nHorovodRunner(np=2).run(train)",
        ["change 1 sparkdl.HorovodRunner: .*hvdlite.spark.run(f, num_proc=np)"],
    ),
    "torch-ccl": (
        "import torch, oneccl_bindings_for_pytorch\nfrom torch_ccl import x\nimport oneccl",
        [f"change {line} {name}: torch-ccl ends with torch 2.8: .*init_process_group(\"hvdlite\")"
         for line, name in ((1, "oneccl_bindings_for_pytorch"), (2, "torch_ccl"))],
    ),
    "an argument of compile() that Keras 3 does not have": (
        KERAS + "model.compile('sgd', loss='mse', experimental_run_tf_function=False)",
        ["change 3 compile(experimental_run_tf_function=): Keras 3 has no such argument: leave "
         "it out"],
    ),
    "the same where the program refuses tf_keras": (
        "import os\nos.environ['TF_USE_LEGACY_KERAS'] = '0'\n"
        + KERAS + "model.compile('sgd', experimental_run_tf_function=False)",
        ["change 5 compile(experimental_run_tf_function=): Keras 3 has no such argument"],
    ),
    "wrapped by another name for hvd": (
        TORCH + "self.hvd = hvd\no = self.hvd.DistributedOptimizer(SGD(p, lr=0.1 * hvd.size()))\n"
        "self.hvd.broadcast_parameters(p)\nDistributedSampler(d)\nloss.backward()\no.step()",
        [],
    ),
    "nothing of Horovod": ("import torch, os\nos.environ['A'] = 'b'\nmodel.fit(x)", []),
    "no init": ("import horovod.torch as hvd\nprint(hvd.rank())", ["hint 1 hvd.init: is not called "
                                                                   "in these files"]),
    "every rank alone": (
        TORCH + "loss.backward()\noptimizer.step()",
        ["hint 1 hvd.DistributedOptimizer: no optimizer or tape is wrapped"],
    ),
    "reduced by hand": (TORCH + "loss.backward()\nhvd.allreduce_(p.grad)\noptimizer.step()", []),
    "keras, every rank alone": (KERAS + "model.fit(x)", ["hint 1 hvd.DistributedOptimizer: no "
                                                         "optimizer or tape"]),
    "different weights": (
        TORCH + "o = hvd.DistributedOptimizer(SGD(p, lr=0.1 * hvd.size()))\nDistributedSampler(d)",
        ["hint 1 hvd.broadcast_parameters: nothing is broadcast in these files"],
    ),
    "hints": (
        TORCH + "o = hvd.DistributedOptimizer(SGD(p, lr=0.1))\nhvd.broadcast_parameters(p, 0)\nif "
                "hvd.rank() == 0: print(hvd.rank())",
        ["hint 1 learning rate: is not multiplied", "hint 1 data: these files have no Distributed"],
    ),
    "soft hints for a library": (
        "import horovod.torch as hvd\ndef wrapped(o, p):\n    hvd.init()\n"
        "    hvd.broadcast_parameters(p, 0)\n    return hvd.DistributedOptimizer(o)",
        ["hint 1 learning rate: is not multiplied by hvd.size(): a library may leave that to its "
         "caller", "hint 1 data: .*a library may leave"],
    ),
    "no hints for a class": (
        TORCH + "class C:\n  def world_size(self):\n    return hvd.size()\nc.rank = hvd.rank()\n"
        "o = hvd.DistributedOptimizer(SGD(lr=0.1 * c.world_size()))\nhvd.broadcast_parameters(p, "
        "0)\nread(part=c.rank)",
        [],
    ),
    "no hints": (
        KERAS + "n = hvd.size()\nm = hvd.rank()\no = hvd.DistributedOptimizer(SGD(0.1 * n))\nx = "
                "x[m::n]\n"
        "model.fit(x, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])",
        [],
    ),
}  # fmt: skip


def _found(path: Path) -> list[str]:
    findings, unreadable = examine([str(path)])
    assert not unreadable
    return [
        f"{f.kind.value} {f.line} {f.name}: {f.sentence}"
        for f in findings
        if f.kind is not Kind.WORKS
    ]


@pytest.mark.parametrize("name", SNIPPETS)
def test_what_is_found(name: str, tmp_path: Path) -> None:
    program, expected = SNIPPETS[name]
    (tmp_path / "program.py").write_text(program)
    found = _found(tmp_path / "program.py")
    assert len(found) == len(expected), found
    for said, wanted in zip(found, expected, strict=True):
        parts = wanted.split(".*")
        assert said.startswith(parts[0]) and all(part in said for part in parts), (said, wanted)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("choice.py", "import os\nos.environ['TF_USE_LEGACY_KERAS'] = '1'\n"),
        ("choice.py", "import os\nos.environ.update(TF_USE_LEGACY_KERAS=wanted)\n"),
        ("choice.py", "import os\nos.environ.setdefault('TF_USE_LEGACY_KERAS', 'true')\n"),
        ("job.sh", "# the old Keras\nexport TF_USE_LEGACY_KERAS=1\n"),
        ("job.yaml", "env:\n  - name: TF_USE_LEGACY_KERAS\n    value: '1'\n"),
        ("Dockerfile", "FROM x\nENV TF_USE_LEGACY_KERAS 1\n"),
    ],
)
def test_a_program_that_chooses_tf_keras_has_its_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, text: str
) -> None:
    argument = "model.compile('sgd', experimental_run_tf_function=False)\n"
    (tmp_path / file).write_text(text)
    (tmp_path / "train.py").write_text(KERAS + argument)
    assert main(["doctor", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert (
        f"{tmp_path / file}:2: works: TF_USE_LEGACY_KERAS: tf.keras is tf_keras then (pip install "
        "tf_keras), for hvdlite as well\n"
    ) in said
    assert (
        f"{tmp_path / 'train.py'}:3: works: compile(experimental_run_tf_function=): tf_keras "
        "accepts it, and TF_USE_LEGACY_KERAS chooses tf_keras\n"
    ) in said


@pytest.mark.parametrize(
    "text", ["# TF_USE_LEGACY_KERAS=1\n", "export TF_USE_LEGACY_KERAS=0\n", "echo 1\n"]
)
def test_a_script_that_does_not_choose_tf_keras_does_not_help(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.sh").write_text(text)
    (tmp_path / "train.py").write_text(KERAS + "m.compile(experimental_run_tf_function=False)\n")
    assert main(["doctor", str(tmp_path)]) == 1


def test_hints_alone_are_no_failure(tmp_path: Path) -> None:
    program, expected = SNIPPETS["every rank alone"]
    assert [wanted.split()[0] for wanted in expected] == ["hint"]
    (tmp_path / "program.py").write_text(program)
    assert main(["doctor", str(tmp_path)]) == 0


def test_programs_that_run_unchanged_get_a_clean_bill(capsys: pytest.CaptureFixture[str]) -> None:
    for program in PROGRAMS.glob("*.py"):
        assert _found(program) == []
    assert main(["doctor", str(PROGRAMS)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith("0 to change, 0 that differ, 0 hints, ")
    assert any(
        line.endswith("keras_fit.py:8: works: horovod.tensorflow.keras: as in Horovod")
        for line in said
    )


def test_files_are_one_program(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import horovod.torch as hvd\nhvd.rank()\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.py").write_text("import horovod.torch as hvd\nhvd.init()\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "c.py").write_text("import horovod.mxnet\n")
    assert _found(tmp_path / "a.py") != [] and _found(tmp_path) == []


def _notebook(*cells: str) -> str:
    written = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return json.dumps(
        {
            "cells": [{"cell_type": "markdown", "source": "import horovod.mxnet"}, *written],
            "nbformat": 4,
        }
    )


def test_a_notebook_is_read_cell_by_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.ipynb"
    file.write_text(
        _notebook(
            "%pip install horovod\n!ls\nfiles = !ls\nhvd.init?\nif True:\n    %matplotlib inline\n",
            "%%bash\nthis is no Python (",
            "%%time\nimport horovod.torch as hvd\nhvd.init()",
            "\nhvd.allreduec(1)",
        )
    )
    assert main(["doctor", str(tmp_path)]) == 1
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(
        f"{file}:cell 5:2: change: horovod.torch.allreduec: hvdlite does not have it"
    )
    assert main(["doctor", "--json", str(file)]) == 1
    row, *_ = json.loads(capsys.readouterr().out)["findings"]
    assert (row["cell"], row["line"]) == (5, 2)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("no json", "not a notebook: "),
        ("{}", "not a notebook: it has no cells"),
        (_notebook("a = 1", "import horovod.torch\nprint 'x'"), "cell 3:2: not Python 3: Missing"),
    ],
)
def test_a_notebook_that_cannot_be_read(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "bad.ipynb").write_text(text)
    findings, unreadable = examine([str(tmp_path / "bad.ipynb")])
    assert not findings and len(unreadable) == 1 and sentence in unreadable[0], unreadable


def test_lines_of_a_shell_in_a_notebook(tmp_path: Path) -> None:
    file = tmp_path / "train.ipynb"
    file.write_text(
        _notebook(
            "!az group create \\\n  --name {group} \\\n  --of (x\nimport horovod.torch as hvd",
            "if True:\n    !azcopy copy 'a' \\\n      'c'\nelse:\n    x = !ls \\\n -l\nhvd.init()",
            "print('of %s'\n      % hvd.rank())\nhvd.allreduec(1)",
        )
    )
    (finding,) = [f for f in examine([str(file)])[0] if f.kind is Kind.CHANGE]
    assert (finding.cell, finding.line) == (4, 3) and examine([str(file)])[1] == []


def test_a_notebook_of_something_else_need_not_be_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = json.loads(_notebook("print 'Python 2'"))
    written["cells"][1]["outputs"] = [{"data": {"image/png": "iVBORhvdAAAA"}}]
    (tmp_path / "of others.ipynb").write_text(json.dumps(written))
    assert main(["doctor", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "Nothing of Horovod is used here.\n"
    (tmp_path / "databricks.ipynb").write_text(_notebook("HorovodRunner\nprint 'Python 2'"))
    assert main(["doctor", str(tmp_path)]) == 2


def test_scripts_and_yaml_are_read_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(
        "# horovodrun is what we use\npip install 'horovod[torch]'\nexport HOROVOD_CCL_CACHE=1 "
        "HOROVOD_CYCLE_TIME=2\n"
        "horovodrun -np 4 python train.py\ncat /opt/horovodrun.log\n"
    )
    (tmp_path / "job.yaml").write_text(
        'command: ["horovodrun", "-np", "2"]\nenv:\n  - name: HOROVOD_RANK\n'
    )
    (tmp_path / "Dockerfile.gpu").write_text(
        "RUN HOROVOD_WITH_MPI=1 pip install --no-cache-dir horovod==0.28.1\n"
    )
    (tmp_path / "lightning.yaml").write_text("trainer:\n  strategy: horovod\n  other: horovod\n")
    (tmp_path / "other.yaml").write_bytes(b"\xff: {")
    assert _found(tmp_path) == [
        "change 1 horovod: install hvdlite, and `hvdlite compat install` where programs import "
        "horovod",
        "differs 1 HOROVOD_WITH_MPI: has no effect: Horovod's build read it; hvdlite has nothing "
        "to choose when it is built",
        "change 2 horovod: install hvdlite, and `hvdlite compat install` where programs import "
        "horovod",
        "differs 3 HOROVOD_CCL_CACHE: has no effect: hvdlite has its own communication, to which "
        "this does not apply",
        "differs 4 horovodrun: is hvdliterun, with the same flags; `hvdlite compat install` gives "
        "it this name",
        "differs 1 horovodrun: is hvdliterun, with the same flags; `hvdlite compat install` gives "
        "it this name",
        "differs 3 HOROVOD_RANK: hvd.init() believes it, and needs all that a launcher sets; "
        "hvdliterun does that for you",
        f"change 2 strategy: horovod: {libraries.LIGHTNING}",
    ]


def test_exit_codes_and_what_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad, old = tmp_path / "good.py", tmp_path / "bad.py", tmp_path / "old.py"
    good.write_text("print()\n")
    bad.write_text("import horovod.mxnet\n")
    old.write_text("import horovod.torch\nprint 'x'\n")
    assert main(["doctor", str(good)]) == 0
    assert capsys.readouterr().out == "Nothing of Horovod is used here.\n"
    assert main(["doctor", str(bad), str(good)]) == 1
    assert capsys.readouterr().out.startswith(
        f"{bad}:1: change: horovod.mxnet: only Horovod has it: "
    )
    assert main(["doctor", str(old), str(bad), str(tmp_path / "none.py")]) == 2
    said = capsys.readouterr()
    assert "horovod.mxnet" in said.out
    assert (
        f"{old}:2: not Python 3: Missing parentheses" in said.err
        and "none.py: No such file or directory" in said.err
    )
    (tmp_path / "binary.py").write_bytes(b"\0\1")
    assert main(["doctor", str(tmp_path / "binary.py")]) == 2
    assert "not Python" in capsys.readouterr().err


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.py").write_text("import horovod.torch as hvd\nhvd.init()\nhvd.nothing\n")
    assert main(["doctor", "--json", str(tmp_path / "p.py"), "/nowhere.py"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["unreadable"] == ["/nowhere.py: No such file or directory"]
    assert [row["kind"] for row in told["findings"]] == ["change", "works", "works"]
    assert told["findings"][0] == {
        "kind": "change",
        "file": str(tmp_path / "p.py"),
        "line": 3,
        "name": "horovod.torch.nothing",
        "sentence": "hvdlite does not have it: docs/guides/migrating.md lists what there is",
    }


def test_a_reader_that_has_seen_enough() -> None:
    command = (
        f"{sys.executable} -m hvdlite.tools doctor {' '.join([str(PROGRAMS)] * 30)} | "
        "head -1; echo ${PIPESTATUS[0]}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.splitlines()[1:] == ["141"] and done.stderr == ""


def test_it_needs_no_framework_and_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(TORCH + "open('trace', 'w')\nhvd.allreduce(1)")
    program = (
        "import sys\nfrom hvdlite.tools.commands.cli import main\n"
        "assert main(['doctor', 'p.py']) == 0\n"
        "assert not {'torch', 'tensorflow', 'keras', 'numpy', 'hvdlite._core', 'hvdlite.torch'} & "
        "set(sys.modules)"
    )
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "trace").exists()


def test_the_tables_do_not_contradict_the_sources() -> None:
    read = {name for knob in knobs.KNOBS for name in knob.environment}
    assert not read & {*advice.NO_EFFECT, *advice.LAUNCHERS}, (
        "hvdlite reads these now: take them out of the table"
    )
    # Horovod's variables that are no build's, from its documentation.
    for name in """AUTOTUNE AUTOTUNE_LOG BATCH_D2D_MEMCOPIES CACHE_CAPACITY CONTROLLER
            CYCLE_TIME DISABLE_GROUP_FUSION DISABLE_NVTX_RANGES DYNAMIC_PROCESS_SETS ELASTIC
            ENABLE_ASYNC_COMPLETION ENABLE_XLA_OPS FUSION_THRESHOLD GLOO_IFACE
            GLOO_RENDEZVOUS_ADDR GLOO_TIMEOUT_SECONDS HIERARCHICAL_ALLGATHER
            HIERARCHICAL_ALLREDUCE HOSTNAME LOG_HIDE_TIME LOG_LEVEL MPI_THREADS_DISABLE
            NUM_NCCL_STREAMS RANK STALL_CHECK_DISABLE STALL_CHECK_TIME_SECONDS
            STALL_SHUTDOWN_TIME_SECONDS START_TIMEOUT THREAD_AFFINITY TIMELINE
            TIMELINE_MARK_CYCLES TORUS_ALLREDUCE""".split():
        assert f"HOROVOD_{name}" in {*read, *advice.NO_EFFECT, *advice.LAUNCHERS}, name
    for name in advice.DIFFERS:
        assert isinstance(surface.look_up(f"horovod.torch.{name}"), surface.KnownName)
    for module in advice.HOROVOD:
        found = surface.look_up(module)
        if isinstance(found, surface.MissingName):
            assert module.endswith("elastic"), module  # the table may name what is to come


def test_files_that_are_no_programs_are_named_or_passed_over(tmp_path: Path) -> None:
    (tmp_path / "deep.py").write_text("hvd = " + "-" * 200_000 + "1")
    (tmp_path / "long.py").write_text("hvd = a" + ".a" * 100_000)
    (tmp_path / "binary.py").write_bytes(b"hvd\0\1")
    (tmp_path / "of others.py").write_text("print 'nothing of ours'")
    os.mkfifo(tmp_path / "pipe.py")  # reading it would never end
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "around").symlink_to(tmp_path)
    _, unreadable = examine([str(tmp_path)])
    # Newer parsers go deeper, and word the binary's error otherwise.
    assert {sentence.split(": ")[0] for sentence in unreadable} <= {
        str(tmp_path / f"{n}.py") for n in ("binary", "deep", "long")
    }
    assert all("nested too deeply" in s or "not Python" in s for s in unreadable) and unreadable


def _classmethods() -> Iterator[tuple[str, list[str]]]:
    """Yields the full name and the arguments of each method that a class of Horovod's names has
    itself. Reads the sources beside the doctor, not through it."""
    for module in {*advice.HOROVOD, "horovod.spark.common.store"}:
        file = surface._file_of_horovods(module)
        for node in ast.parse(file.read_text()).body if file else ():
            for method in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(method, ast.FunctionDef) and any(
                    ast.unparse(each) == "classmethod" for each in method.decorator_list
                ):
                    assert isinstance(node, ast.ClassDef)
                    names = [a.arg for a in [*method.args.args, *method.args.kwonlyargs]]
                    yield f"{module}.{node.name}.{method.name}", names[1:]


def test_the_arguments_of_classmethods_are_their_own(tmp_path: Path) -> None:
    methods = dict(_classmethods())
    assert {
        "horovod.ray.runner.RayExecutor.create_settings",
        "horovod.ray.elastic.ElasticRayExecutor.create_settings",
    } <= {*methods}
    file = tmp_path / "program.py"
    lines = [f"import {name.rpartition('.')[0].rpartition('.')[0]}" for name in methods]
    lines += [f"{name}({', '.join(f'{each}=1' for each in of)})" for name, of in methods.items()]
    file.write_text("\n".join(lines))
    assert _found(file) == []
    file.write_text("import horovod.ray\nhorovod.ray.RayExecutor.create_settings(timeout=1)")
    (said,) = _found(file)
    assert "create_settings() has no argument of this name; it has timeout_s, ssh_" in said, said


FIRST = (ROOT / "examples" / "first.py").read_text()  # README's program


def test_a_program_that_was_never_horovods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("first.py").write_text(FIRST)
    assert main(["doctor", "first.py"]) == 0
    *works, total = capsys.readouterr().out.splitlines()
    assert works[0] == "first.py:3: works: hvdlite.torch: is in hvdlite"
    assert all(": works: hvdlite.torch" in line and "Horovod" not in line for line in works), works
    assert total == "0 to change, 0 that differ, 0 hints, 6 names that work as they are."


def test_the_examples_get_no_hint() -> None:
    for program in (ROOT / "examples").glob("*.py"):
        assert _found(program) == [], program


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = torch.randn(32, 10)", "x = data[step]"),
        ("hvd.init()", "hvd.init(); torch.manual_seed(0)"),  # the same numbers on each rank
    ],
)
def test_data_that_each_rank_may_share_is_a_hint(tmp_path: Path, before: str, after: str) -> None:
    (tmp_path / "first.py").write_text(FIRST.replace(before, after))
    (said,) = _found(tmp_path / "first.py")
    assert said.startswith("hint 3 data: "), said
