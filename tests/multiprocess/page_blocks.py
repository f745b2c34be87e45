"""What the blocks of code on the site's pages need to run: test_code_blocks.py runs them.

A block is found by its page and its first line. What a page takes for granted (a model, its data)
is in `before`; `after` uses what the block has made. `instead` shortens what would take long.
"""

from __future__ import annotations

from dataclasses import dataclass, field

BEFORE = {
    "torch": """
import torch, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import hvdlite.torch as hvd
hvd.init()
torch.manual_seed(0)
torch.set_num_threads(1)
make_model = lambda: torch.nn.Linear(4, 3)
model = make_model()
dataset = TensorDataset(torch.randn(8, 4), torch.randint(3, (8,)))
loader = my_part_of_the_data = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(2)]
x, y = loader[0]
loss_function = F.cross_entropy
epochs, step = 2, 0
evaluate = lambda model: None
""",
    "tensorflow": """
import tensorflow as tf
import hvdlite.tensorflow as hvd
hvd.init()
variables = [tf.Variable(tf.ones((4, 1)))]
model = lambda x: tf.matmul(x, variables[0])
loss_of = lambda out, y: tf.reduce_mean((out - y) ** 2)
optimizer = tf.keras.optimizers.SGD(0.1)
x, y = tf.ones((8, 4)), tf.ones((8, 1))
""",
    "keras": """
import numpy as np
import tensorflow as tf
import keras
import hvdlite.keras as hvd
hvd.init()
make_model = lambda: keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "softmax")])
model = make_model()
x = my_part_of_x = np.ones((64, 4), "float32")
y = my_part_of_y = np.zeros((64,), "int64")
""",
    "jax": """
import numpy as np
import jax, jax.numpy as jnp, optax
import hvdlite.jax as hvd
hvd.init()
params = {"w": jnp.ones((4, 1))}
loss_function = lambda params, x, y: jnp.mean((x @ params["w"] - y) ** 2)
x, y = jnp.ones((8, 4)), jnp.ones((8, 1))
my_part_of_the_data = [(x, y)] * 2
steps_per_epoch = 10
""",
    # Without a job: the block starts one, or needs none.
    "": "",
}

STEP = "\nF.cross_entropy(model(x), y).backward(); optimizer.step()"
OPTIMIZER = "\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
DISTRIBUTED = OPTIMIZER + (
    "\noptimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())"
)
TRAIN_STEP = """
optimizer = hvd.distributed(optax.sgd(0.1))
state = optimizer.init(params)
@jax.jit
def train_step(params, state, x, y):
    loss, gradients = jax.value_and_grad(loss_function)(params, x, y)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, hvd.allreduce(loss)
"""


@dataclass(frozen=True)
class Run:
    """In which job a block runs, and with what."""

    framework: str
    before: str = ""
    after: str = ""
    instead: dict[str, str] = field(default_factory=dict)


def torch(before: str = "", after: str = "", **instead: str) -> Run:
    return Run("torch", before, after, instead)


#: page and first line of a block of Python.
RUN: dict[tuple[str, str], Run] = {
    ("guides/communicating-less", "optimizer = hvd.DistributedOptimizer(\n"): torch(after=STEP),
    ("guides/communicating-less", "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, "): (
        torch()
    ),
    ("guides/communicating-less", "model.compile(optimizer=hvd.LocalSGD("): Run(
        "keras", "\ny = np.ones((64, 3), 'float32')"
    ),
    ("guides/communicating-less", "optimizer = hvd.LocalSGD(optax"): Run(
        "jax", after="\nparams, state = train_step(params, state, x, y)"
    ),
    ("guides/communicating-less", 'optimizer = hvd.LocalSGD(optimizer, every="10s"'): torch(
        OPTIMIZER
    ),
    ("guides/communicating-less", "optimizer = hvd.DiLoCo("): torch(after=STEP),
    ("guides/communicating-less", "optimizer = hvd.DistributedOptimizer(hvd.LARS("): Run(
        "torch", instead={"    ...\n": "    F.cross_entropy(model(x), y).backward()\n"}
    ),
    ("guides/communicating-less", "rate = 0.5 * hvd.size()"): Run("keras"),
    ("guides/communicating-less", "rate = hvd.linear_warm_up("): Run(
        "jax", after="\noptimizer.init(params)"
    ),
    ("guides/communicating-less", "loss.backward()"): torch(
        DISTRIBUTED + "\nloss = F.cross_entropy(model(x), y)"
    ),
    ("guides/compression", "import hvdlite.torch as hvd"): torch(after=STEP),
    ("guides/data", "import hvdlite.torch as hvd"): Run(
        "torch", instead={"range(90)": "range(2)", "num_workers=4": "num_workers=1"}
    ),
    ("guides/data", "for x, y in loader:"): torch(
        "\nloader = hvd.data.shard(DataLoader(dataset, batch_size=2))"
    ),
    ("guides/data", "torch.save("): torch(
        "\nimport os, tempfile; os.chdir(tempfile.mkdtemp())"
        "\nloader = hvd.data.shard(DataLoader(dataset, batch_size=2))"
    ),
    ("guides/data", "loader.load_state_dict("): Run(
        "torch",
        "\nloader = hvd.data.shard(DataLoader(dataset, batch_size=2))"
        "\ncheckpoint = {'data': loader.state_dict()}",
        instead={", 90)": ", 2)"},
    ),
    ("guides/data", "for batch in hvd.data.in_step("): torch(),
    ("guides/elastic", "hvd.init()\nmodel = Net()"): torch(
        "\nNet = make_model"
        "\ndef train_one_epoch(model, optimizer):"
        "\n    optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); optimizer.step()",
        **{"90": "2"},
    ),
    ("guides/elastic", "cursor = hvd.elastic.Cursor("): Run(
        "keras",
        "\nmodel.compile('sgd', loss='sparse_categorical_crossentropy')",
        instead={"90": "1"},
    ),
    ("guides/elastic", "model.compile(hvd.DistributedOptimizer("): Run(
        "keras",
        "\nimport os, tempfile; os.chdir(tempfile.mkdtemp())\ny = np.ones((64, 3), 'float32')",
        instead={"90": "1"},
    ),
    ("guides/elastic", "@hvd.elastic.run"): Run(
        "jax",
        TRAIN_STEP
        + """
x, y = np.ones((64, 4), "float32"), np.ones((64, 1), "float32")
step = lambda params, opt_state, x, y: train_step(params, opt_state, x, y)[:2]
cursor = hvd.elastic.Cursor(len(x), batch_size=32)
state = hvd.elastic.JaxState(params=params, opt_state=state, cursor=cursor)
""",
        "\ntrain(state)",
    ),
    ("guides/elastic", "batches = cursor.indices_dataset()"): Run(
        "tensorflow",
        """
load = lambda indices: (tf.ones((8, 4)), tf.ones((8, 1)))
step = lambda x, y: None
cursor = hvd.elastic.Cursor(32, batch_size=8)
state = hvd.elastic.TensorFlowState(variables, cursor=cursor)
""",
        "\ntrain(state)",
        {"epochs=90": "epochs=1"},
    ),
    ("guides/elastic", "def save(notice):"): torch("\nstate = hvd.elastic.TorchState(model)"),
    ("guides/jax", "import jax, optax"): Run("jax"),
    ("guides/jax", "try:"): Run("jax", TRAIN_STEP),
    ("guides/keras", "import keras"): Run("keras"),
    ("guides/keras", "callbacks = ["): Run(
        "keras", "\nkeras.callbacks.TensorBoard = lambda at: at"
    ),
    ("guides/monitoring", "for batch in hvd.progress("): torch(),
    ("guides/monitoring", "for name, value in hvd.metric_scalars()"): torch(
        "\nclass writer: add_scalar = staticmethod(lambda name, value, step: float(value))"
    ),
    ("guides/process-sets", "even = hvd.add_process_set("): torch("\nloss = torch.ones(1)"),
    ("guides/process-sets", "if hvd.rank() in (2, 3):"): Run(
        "torch", "\naccuracy = torch.ones(1)", instead={"2, 3": "0, 1"}
    ),
    ("guides/pytorch", "import torch"): torch(),
    ("guides/pytorch", "buffer = hvd.empty("): torch("\nvalues = torch.ones(1024, 4096)"),
    ("guides/pytorch", "class Mine("): torch(after="\nMine()"),
    ("guides/pytorch", "ddp_model.register_comm_hook("): torch(
        "\nimport hvdlite.torch.distributed\nhvdlite.torch.distributed.init()"
        "\nddp_model = torch.nn.parallel.DistributedDataParallel(model)",
        "\nF.cross_entropy(ddp_model(x), y).backward()",
    ),
    ("guides/running-functions", "import hvdlite"): Run(
        "", instead={"    ...\n": "    loss = rate * epochs\n", "num_proc=4": "num_proc=2"}
    ),
    ("guides/running-functions", "from hvdlite.launch import cli"): Run(
        "",
        "open('train.py', 'w').write('import hvdlite as hvd; hvd.init()')\n",
        "\nassert status == 0",
    ),
    ("guides/strategy", "import hvdlite.torch as hvd"): torch(after=STEP),
    ("guides/tensorflow", "import tensorflow as tf"): Run("tensorflow", after="\nstep(x, y)"),
    ("guides/troubleshooting", "guard = hvd.DriftGuard()"): Run(
        "jax",
        TRAIN_STEP
        + "\ndata = [(x, y)] * 2\nits = train_step"
        + "\ntrain_step = lambda params, state, batch: its(params, state, *batch)[:2]",
    ),
    ("questions", "if hvd.rank() == 0:"): torch(
        OPTIMIZER + "\nimport os, tempfile; os.chdir(tempfile.mkdtemp())"
    ),
    ("questions", "accuracy = hvd.allreduce("): torch("\ncorrect, count = 3.0, 4.0"),
    ("questions", "correct, count = hvd.allreduce("): torch("\ncorrect, count = 3.0, 4.0"),
    ("reference/api/hvdlite", "import hvdlite as hvd"): Run("torch"),
    ("reference/api/torch", "import hvdlite.torch as hvd"): Run("torch"),
    ("reference/api/tensorflow", "import hvdlite.tensorflow as hvd"): Run("tensorflow"),
    ("reference/api/keras", "import hvdlite.keras as hvd"): Run("keras"),
    ("reference/api/jax", "import hvdlite.jax as hvd"): Run("jax"),
}

#: Pages, or single blocks of Python, that other tests run or that cannot run here.
ELSEWHERE: dict[str | tuple[str, str], str] = {
    "guides/hugging-face": "tests/integrations/test_hugging_face.py: needs Accelerate",
    "guides/lightning": "tests/integrations/test_lightning.py: needs Lightning",
    "guides/optuna": "tests/integrations/test_optuna.py: needs Optuna",
    "guides/ray": "tests/integrations/test_ray.py: needs a Ray cluster",
    "guides/spark": "tests/integrations/test_spark_run.py: needs Spark",
    "guides/migrating": "tests/unit/test_migrating_page.py",
    "guides/roads": "test_roads.py",
    (
        "guides/elastic",
        "hvdlite.torch.distributed.init()",
    ): "test_torch_in_place.py: the group of a whole process",
    "guides/cpu-tensor-parallel": "test_examples.py: torch_tensor_parallel.py",
    "guides/mpi": "test_mpi_programs.py: needs mpirun",
    "guides/torch-distributed": "test_torch_backend_programs.py: the group of a whole process",
    (
        "guides/data",
        "from hvdlite.data.compute_service",
    ): "tests/integrations/test_data_service.py: two jobs",
    (
        "guides/data",
        "reader = fn.readers.file(",
    ): "tests/integrations/test_data_libraries.py: needs "
    "Grain, WebDataset, and DALI, which needs a GPU",
    ("guides/keras", "strategy = tf.distribute."): "two workers of TensorFlow's own",
    ("guides/launching", "hvd.init(rank=rank"): "test_launchers.py: addresses of a cluster",
    "index": "test_tutorial.py: README's program",
}

#: Commands of others: what they do cannot be tried here, or other tests do.
OTHERS = {
    "pip": "scripts/package and tests/integrations install",
    "mpirun": "test_mpi_programs.py",
    "torchrun": "test_launchers.py",
    "srun": "test_slurm.py",
    "salloc": "test_slurm.py",
    "kubectl": "needs a cluster; tests/integrations checks the manifests against the schema",
    "docker": "needs a registry of images",
    "openssl": "makes a secret",
    "spark-submit": "tests/integrations/test_spark_run.py",
    "python": "a program of the user's",
}
