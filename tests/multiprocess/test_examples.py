"""Every example runs, and shows what a person wants to see. A commit's run takes one of each
framework."""

from __future__ import annotations

import re

import pytest
from installed import needs_installed
from launched import ROOT, Job

# What each must say, at two ranks.
TORCH = {
    "torch_amp_bf16.py": r"2 ranks, accuracy 0\.[89]\d*, parameters are torch\.float32",
    "torch_ddp_hook.py": r"hvdlite +loss [\d.]+ +\d+ samples/s",
    "torch_distributed.py": r"gloo +loss ([\d.]+) .*\n.*hvdlite +loss \1 ",
    "torch_tensor_parallel.py": r"gloo +2 .* writes as one process does\n.*hvdlite +2 .* "
    r"writes as one",
    "torch_compression.py": r"dgc: accuracy 0\.[89]\d*, [\d.]+ MB of gradients",
    "torch_communicating_less.py": r"(?s)each step .* MB .*DiLoCo in fragments .*accuracy 0\.9\d*",
    "torch_strategy.py": r"Strategy\(\): [\d.]+ MB, test accuracy 0\.9\d*\n.*Strategy\(compression="
    r"\{'name': 'dgc', .*\}\): [\d.]+ MB, test accuracy 0\.9\d*",
    "torch_digits_cnn.py": r"epoch 6  loss [\d.]+  test accuracy 0\.9\d*\n(.*\n)*.*2 ranks, \d+ "
    r"samples/s",
    "torch_process_sets.py": r"even +ranks \[0\] +width 16 +accuracy 0\.[89]\d*\n.*odd +ranks "
    r"\[1\] +width 64 +accuracy",
    "torch_sync_batch_norm.py": r"SyncBatchNorm +accuracy 0\.[6-9]\d* +statistics differ between "
    r"ranks by 0\.0000",
    "torch_synthetic_resnet.py": r"0\.32 million parameters.*\n.*2 ranks, [\d.]+ images/s",
}
TENSORFLOW = {
    "tensorflow2_custom_loop.py": r"epoch 8  loss [\d.]+  test accuracy 0\.[89](.*\n)*.*2 ranks, "
    r"weights equal",
    "tensorflow2_synthetic_benchmark.py": r"Img/sec per rank: [\d.]+ \+-[\d.]+\n.*Total img/sec on "
    r"2 rank\(s\): [\d.]+",
}
JAX = {
    "jax_digits.py": r"epoch 6  loss [\d.]+  test accuracy 0\.9\d*\n(.*\n)*.*2 ranks, \d+ "
    r"samples/s, parameters equal",
}

_CALLED_AGAIN = (
    "generation 1: 2 rank(s) go on at epoch 0",
    "generation 2: 1 rank(s) go on at epoch 1",
)
_NOT_LEFT = ("1 rank(s) go on, 2 before",)
ELASTIC = {
    "torch_elastic_digits.py": ("torch", {}, _CALLED_AGAIN),
    "torch_elastic_ddp.py": ("torch", {}, _NOT_LEFT),
    "jax_elastic_digits.py": ("jax", {}, _CALLED_AGAIN),
    "tensorflow_elastic_digits.py": ("tensorflow", {}, _CALLED_AGAIN),
    "keras_elastic_digits.py": ("torch", {"KERAS_BACKEND": "torch"}, _NOT_LEFT),
}

# Compiling takes XLA most of an example's time, and how fast its result is does not matter here.
HASTY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


# Run by tests/integrations, with the libraries that they need.
INTEGRATIONS = {
    "accelerate_digits.py", "lightning_digits.py", "optuna_digits.py", "ray_executor.py",
    "ray_train.py", "spark_digits.py", "spark_elastic_digits.py", "transformers_tiny_bert.py",
}  # fmt: skip


def test_every_example_is_tested_here() -> None:
    others = {"digits_mlp.py", "keras_digits.py", "torch_data.py", *ELASTIC, *INTEGRATIONS}
    readme = {"first.py"}  # test_tutorial.py
    assert {p.name for p in (ROOT / "examples").glob("*.py")} == {
        *others,
        *readme,
        *TORCH,
        *TENSORFLOW,
        *JAX,
    }


@pytest.mark.costly
@pytest.mark.parametrize("ranks", (1, 2, 3))
def test_digits_mlp_learns_and_the_ranks_stay_together(job: Job, ranks: int) -> None:
    needs_installed("sklearn")
    done = job.end_well(
        "-np", str(ranks), "python", str(ROOT / "examples" / "digits_mlp.py"), "--epochs", "6"
    )
    said = done.stdout.decode()
    assert f"{ranks} ranks" in said and "weights equal on all ranks" in said
    accuracy = [float(a) for a in re.findall(r"accuracy ([\d.]+)", said)]
    assert len(accuracy) == 6 and accuracy[-1] > 0.93


@pytest.mark.costly
@pytest.mark.watchdog(150)
@pytest.mark.parametrize("name", tuple(TORCH))
def test_torch_examples_show_what_they_promise(job: Job, name: str) -> None:
    needs_installed("torch")
    done = job.end_well("-np", "2", "python", str(ROOT / "examples" / name))
    said = done.stdout.decode()
    assert re.search(TORCH[name], said), said


@pytest.mark.costly
@pytest.mark.watchdog(150)
def test_the_example_of_data_trains_each_digit_once_with_two_numbers_of_ranks(job: Job) -> None:
    needs_installed("torch", "sklearn")
    program = str(ROOT / "examples" / "torch_data.py")
    done = job.end_well("-np", "3", "python", program, "--stop-after", "5")
    assert "480 of 1797 digits trained once, 0 more often" in done.stdout.decode()
    done = job.end_well("-np", "2", "python", program)
    assert "1797 of 1797 digits trained once, 0 more often, 27 repeats" in done.stdout.decode()


@pytest.mark.costly
@pytest.mark.watchdog(150)
@pytest.mark.parametrize("name", tuple(ELASTIC))
def test_elastic_examples_go_on_without_a_rank_and_learn(job: Job, name: str) -> None:
    framework, environment, expected = ELASTIC[name]
    needs_installed(framework, *["keras"] * name.startswith("keras"))
    program = str(ROOT / "examples" / name)
    done = job.end_well(
        "-np", "2", "--min-np", "1", "python", program, "--kill",
        TF_CPP_MIN_LOG_LEVEL="3", XLA_FLAGS=HASTY, **environment,
    )  # fmt: skip
    said = done.stdout.decode()
    assert all(line in said for line in expected), said
    assert (
        re.search(r"epoch 6  test accuracy 0\.9", said)
        and "weights equal on all ranks: True" in said
    )


def test_the_discovery_script_prints_hosts(job: Job) -> None:
    script = str(ROOT / "examples" / "elastic_discover_hosts.sh")
    (job.directory / "hosts").write_text("localhost:1\n")
    program = job.script("import os; print(os.environ['HVDLITE_SIZE'])")
    for extra, size in (({}, "2"), ({"HOSTS_FILE": str(job.directory / "hosts")}, "1")):
        arguments = ("-np", size, "--min-np", "1", "--host-discovery-script", script)
        done = job.end_well(*arguments, "python", program, **extra)
        assert done.stdout.decode().count(size) == int(size)


@pytest.mark.costly
@pytest.mark.watchdog(150)
@pytest.mark.parametrize("backend", ("torch", "jax", "tensorflow"))
def test_the_keras_example_learns_on_every_backend(job: Job, backend: str) -> None:
    needs_installed("keras", backend)
    done = job.end_well(
        "-np", "2", "python", str(ROOT / "examples" / "keras_digits.py"),
        KERAS_BACKEND=backend, TF_CPP_MIN_LOG_LEVEL="3", OMP_NUM_THREADS="1", XLA_FLAGS=HASTY,
    )  # fmt: skip
    said = done.stdout.decode()
    assert re.search(rf"{backend}, 2 ranks: test loss [\d.]+, accuracy 0\.9\d*", said), said


@pytest.mark.costly
@pytest.mark.watchdog(150)
@pytest.mark.parametrize("name", tuple(JAX))
def test_jax_examples_show_what_they_promise(job: Job, name: str) -> None:
    needs_installed("jax")
    done = job.end_well("-np", "2", "python", str(ROOT / "examples" / name), XLA_FLAGS=HASTY)
    said = done.stdout.decode()
    assert re.search(JAX[name], said), said


@pytest.mark.costly
@pytest.mark.watchdog(150)
@pytest.mark.parametrize("name", tuple(TENSORFLOW))
def test_tensorflow_examples_show_what_they_promise(job: Job, name: str) -> None:
    needs_installed("tensorflow")
    needs_installed("sklearn")
    path = str(ROOT / "examples" / name)
    done = job.end_well(
        "-np", "2", "python", path, TF_NUM_INTRAOP_THREADS="1", TF_CPP_MIN_LOG_LEVEL="2"
    )
    said = done.stdout.decode()
    assert re.search(TENSORFLOW[name], said), said
