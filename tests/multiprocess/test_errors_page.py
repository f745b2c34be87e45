"""docs/reference/errors.md against the code: each message is provoked, and compared with what a
user is told."""

from __future__ import annotations

import ast
import builtins
import contextlib
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from bare_ranks import Ranks
from launched import ROOT, Job
from machine import within

import hvdlite as hvd


@dataclass(frozen=True)
class Row:
    message: str
    kind: str

    @property
    def pieces(self) -> list[str]:
        """The words between the placeholders."""
        return [piece for piece in self.message.split("…") if piece.strip()]

    def matches(self, kind: str, text: str) -> bool:
        pattern = ".+?".join(re.escape(piece) for piece in self.message.split("…"))
        return (kind == self.kind or self.kind.startswith("(")) and re.match(
            pattern, text, re.S
        ) is not None


def _rows() -> list[Row]:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    return [
        Row(message, kind)
        for message, kind in re.findall(r"^`(.+)`\n:   \*\*(.+?)\.\*\*$", page, re.M)
    ]


ROWS = _rows()

# What no test can provoke here; that the words are in the code is checked for these as for all.
NOT_PROVOKED = {
    "hvd.…() would run while the function is …, not when it runs: call it outside …": "see "
    "a_barrier_waits_outside_of_functions_only and what_runs_while_tracing_is_refused",
    "…variables without a gradient (numbers behind the 0)…": "see test_tensorflow_programs",
    "hvdlite's native core is missing: …": "see test_native_core",
    "… cannot give the ranks a secret, so hvdlite derives the job's secret from values that "
    "others can look up.": "see test_launchers",
    "… cannot give the ranks a secret, and … is a public address: …": "see "
    "test_a_public_address_needs_a_secret_or_the_users_word",
    "the store has refused a connection: … is a public address, …": "see "
    "test_a_rank_that_comes_from_a_public_address_is_refused",
    "… did not answer; … ranks may still run.": "see test_ssh",
    "… did not answer: hvdliterun itself has killed the ranks that were left.": "see "
    "test_a_guardian_that_stays_frozen_holds_nothing_up",
    "This rank's part of the bundle cannot be written to …": "see test_bundle",
    "there is no report, or an old one: …": "see test_reports",
    "another job writes …, too: give each --report a file of its own.": "see "
    "test_another_job_with_the_same_file_is_told_once",
    "hvdliterun: … has taken … for its file: …": "see test_launch_plan",
    **dict.fromkeys(
        [
            "tf.data's service asks for no password, and … has …: …",
            "tf.data's service asks for no password: …",
        ],
        "see test_a_service_is_open_to_strangers_only_if_the_user_says_so",
    ),
    "… is set, but hvdlite knows no such variable: …": "see "
    "test_a_misspelt_variable_is_told_once_with_the_right_name",
    "… has failed, and the job goes on: …": "see "
    "test_an_exception_of_an_observer_is_said_once_and_the_job_goes_on",
    "no line in it is one of --metrics-file": "see test_report_command",
    'hvdlite.ray needs Ray, which is not installed: pip install ".[ray]" in a clone of '
    "hvdlite": "see test_a_missing_ray_is_one_sentence",
    "Ray cannot place …: … is free in the cluster, and its … …": "see "
    "test_what_cannot_be_placed_is_named_and_given_up",
    "rank … on … died: …": "see test_an_actor_that_dies_is_named_and_nothing_is_left",
    "no rank runs: …": "see test_executables_single_ranks_references_and_callbacks",
    "the ranks run already: call shutdown() before start().": "see "
    "test_executables_single_ranks_references_and_callbacks",
    "host … was lost: …": "see test_ssh and test_elastic_networks",
    "host … is put out of the job: …": "see test_elastic_networks",
    "generation … has ended: …": "see test_elastic_ranks",
    "hvdlite: the job goes on without this process (member …): generation … does not name "
    "it.": "see test_elastic_ranks",
    "hvdlite: this process leaves the job, as it was asked to….": "see test_elastic",
    "This process has joined a job that trains already, and the other ranks take part in no "
    "operation before the function under @hvd.elastic.run.": "see test_elastic_ranks",
    "init(comm=..., rank=..., size=...) is not allowed in an elastic job": "see "
    "test_elastic_horovods_names",
    "process set …: this process has joined a job that trains already, and its rank is not known "
    "yet.": "see test_named_sets",
    "… All members must name the same ranks; sets of different ranks that share a rank need "
    "different names.": "see tests/conformance/checks/named_sets.py",
    "output: a result cannot be written into a …": "see tests/conformance/checks/torch_outputs.py",
    "this job is not elastic, and ends with its first rank that fails: …": "see "
    "test_elastic_horovods_names",
    "the next generation waits for ….": "see test_elastic_horovods_names",
    "the job waits for hvd.init() of ….": "see test_elastic_horovods_names",
    "member … on … is refused: …": "see test_elastic_unfit",
    "… in the job's store is refused: …": "see test_elastic_strangers",
    "the host discovery script has failed: …": "see test_elastic_discovery",
    "there is no copy of member …'s …: cannot write to …": "see test_scarcity",
    "hvdliterun: … No member is left that has the state of the training.": "see test_elastic",
    "hvdliterun: … That is the program's fault, or its data's: members have ended so … times in a "
    "row at one position.": "see test_elastic",
    "Horovod was shutdown because number of resets during elastic job exceeded limit: …": "see "
    "test_elastic",
    "for … s there were only … of the … processes that the job needs; its hosts have … "
    "slots.": "see test_elastic",
    "the function has returned on … ranks, and … results are wanted (min_num_proc)": "see "
    "test_elastic_horovods_names",
    "some settings have to be equal on all ranks, but rank … has … and rank … "
    "has …": "see test_settings_that_must_be_equal_are_compared",
    "the ranks run different releases of hvdlite: …": "see "
    "test_ranks_of_different_releases_are_told_which_runs_what",
    "rank … of this host ended during start-up": "see "
    "test_a_rank_that_dies_during_init_is_named_without_a_launcher",
    "… has started this process as rank … of …, but MPI says that it is rank "
    "… of …": "see test_launchers",
    "MPI says that there are … processes, but hvdlite knows none of their launcher's variables": (
        "see test_launchers"
    ),
    "rank … has no usable address of rank …": "takes two hosts without a network in common",
    "… another result than the other … ranks": "see test_result_watch",
    "Parameter '…'… … (found in step … of this optimizer…).": "see "
    "tests/conformance/checks/torch_drift.py",
    "Parameter '…'… is not finite on all ranks since step …, … (found in step … of this "
    "optimizer).": "see tests/conformance/checks/torch_drift.py",
    "this … is inside a LossScaleOptimizer, where each rank would decide by itself whether to "
    "take a step, and the others would wait for ever. …": "see "
    "tests/conformance/checks/keras_matrix.py",
    "this optimizer was built for … trainable variables and was given …. On JAX, when "
    "`trainable` of a layer has changed, call compile() with a new optimizer on all ranks "
    "(behind sync(), if it has local steps)": "see tests/conformance/checks/keras_matrix.py",
    "LocalStepsCallback: the model was compiled with a plain …, so nothing would average its "
    "weights. Compile it with hvd.LocalSGD(...) or hvd.DiLoCo(...)": "see "
    "tests/conformance/checks/keras_matrix.py",
    "sync() of averages by time was called in a function that is being compiled (jax.jit), where "
    "it cannot wait for slower ranks: call it outside": "see "
    "tests/conformance/checks/jax_matrix.py",
    "cannot reserve … of shared memory": "takes a host without memory",
    "hvdlite communicates tensors in host memory and on CUDA GPUs": "takes another kind of device",
    "…: inside a graph or a compiled program hvdlite takes tensors in host "
    "memory only": "takes a GPU",
    "this rank uses the GPU cuda:… and was given a tensor on cuda:…": "see "
    "tests/cpp/engine/engine_gpu_test.cc",
    "HVDLITE_GPU_OPERATIONS=nccl, but … has no NCCL: …": "see tests/cpp/comm/gpu_choice_test.cc",
    "HVDLITE_GPU_OPERATIONS=nccl, but … has an NCCL for CUDA … and an NVIDIA driver of "
    "CUDA …": "see tests/cpp/comm/gpu_choice_test.cc",
    "HVDLITE_GPU_OPERATIONS=nccl, but … use the same GPU": "see tests/cpp/comm/gpu_choice_test.cc",
    "HVDLITE_GPU_OPERATIONS=nccl, but … has NCCL … and … has NCCL …": "see "
    "tests/cpp/comm/gpu_choice_test.cc",
    "rank … cannot take part: … The operation has failed on all ranks; nothing "
    "else has": "see tests/cpp/engine/engine_gpu_test.cc",
    "rank … could not connect … to rank … in time: …": "see test_network_interfaces",
    "rank … did not connect to rank … through … in time": "see test_network_interfaces",
    "cannot bind a connection to the network interface …": "takes Linux 5.6 or older",
    "the connection of … with … failed: …": "takes a network that breaks",
    "the connection of … with … is interrupted: bytes are sent, but nothing has been acknowledged "
    "for … s.": "see test_network",
    "the connection of … with … changes what it carries: …": "see test_damage",
    "… called hvd.init(), but did not say within … s where other hosts can connect "
    "to it.": "see test_network",
    "rank … has no memory left for what it and its peers agreed to do": "see "
    "tests/cpp/engine/engine_memory_test.cc",
    "no memory on rank … for the result of …": "see tests/cpp/engine/engine_completion_test.cc",
    "lost the job's store while …": "see "
    "test_a_store_that_ends_is_noticed_at_once_by_those_who_join",
    "rank … died during hvd.init(): its process ended, or its connection with the job's store "
    "broke.": "see test_joining",
    "rank … could not join the job: …": "see "
    "test_an_error_inside_init_of_one_rank_reaches_the_others_with_its_text",
    "rank … on … …. hvd.init() needs all ranks.": "see test_faults",
    "rank … died during hvd.init(): …, which it served, is gone.": "see "
    "test_a_rank_that_serves_the_store_and_dies_is_named",
    "some ranks did not finish hvd.init() in time": "see tests/unit/test_rendezvous_wills.py",
    "another process is rank … of this job already: were two started with that "
    "number?": "see test_rendezvous_attempts",
    "rank … expects a job of … ranks, the others one of …": "see "
    "test_ranks_that_disagree_about_the_size_are_told",
    "… has started this process as rank … of …, which another MPI cannot join.": "see "
    "test_launchers",
    **dict.fromkeys(
        [
            "rank 0 was given a secret and this rank … was not: …",
            "this rank … was given a secret and rank 0 was not: …",
            "this rank … was given another secret than rank 0: …",
            "another user listens in place of rank 0: …",
            "rank 0 refuses this process: …",
            "on …, … listens where the ranks of this job look for rank 0",
            "no word from rank 0 within … s at the job's socket on …",
        ],
        "see tests/unit/test_bootstrap.py",
    ),
    **dict.fromkeys(
        [
            "Rank … trains … parameters, but rank … …. On rank … '…' is trained, on rank … it is "
            "missing or frozen",
            "requires_grad of parameter … is False on … and True on …",
            "The gradient of parameter … is dense on … and sparse on … in this step.",
            "Ranks have different numbers of parameters in this optimizer",
            "optimizer.zero_grad() between backward() and step() would clear gradients that are "
            "being reduced",
            "backward() has computed more gradients than backward_passes_per_step announces for "
            "one step().",
            "The gradient of '…' was replaced between backward() and step().",
            "… This optimizer shares … with an earlier hvd.DistributedOptimizer.",
            "The gradient of … would be added up twice",
        ],
        "see the checks of tests/conformance/checks/torch_absent.py and torch_misuse.py",
    ),
    **dict.fromkeys(
        [
            "sufficient_factors is not possible with …: …",
            "sufficient_factors=True is not possible for '…': …",
            "backward() has computed the factors of '…' twice in one step().",
            "'…' is used outside its layer, or its layer is compiled: its factors are not all of "
            "its gradient.",
            "'…' had a gradient before backward(), which factors cannot be added to.",
            "'…' has got a hook after the first step, and its factors travel, which no hook sees.",
            "create_graph=True needs the gradient of each rank, and sufficient_factors sends its "
            "factors",
        ],
        "see tests/conformance/checks/torch_factors.py",
    ),
    **dict.fromkeys(
        [
            "… is in the strategy, and …= was passed as well: leave one of them out",
            "…=… is not possible with local=… of the strategy: …",
            "large_batch=… of the strategy takes the place of …, and the optimizer is …: pass …, "
            "or leave large_batch out",
        ],
        "see tests/conformance/checks/torch_by_strategy.py",
    ),
    "every=… is not possible in an elastic job: by time, ranks average after different "
    "steps": "see test_averages_by_time_are_refused_in_elastic_jobs",
    "hvd.OneBitAdam communicates by itself in step(): use it as it is": "see "
    "tests/conformance/checks/torch_optimizers.py",
    "… adds momentum to gradients, and not to the optimizer's weight_decay=…: weights decay … "
    "times more slowly than with SGD(momentum=…).": "see tests/conformance/checks/torch_methods.py",
    "… of the strategy is not possible in …: …": "see tests/conformance/checks/jax_by_strategy.py",
    "local=… is not possible with …: …": "see test_strategy",
    "hvd.Strategy.from_yaml needs PyYAML: pip install pyyaml": "see test_strategy",
    "compression=… is no compression: pass one, such as …": "see test_adapter",
    **dict.fromkeys(
        [
            "the process group has rank … of …, but hvdlite's job has rank … of …",
            'the backend "…" is not possible: with the backend hvdlite, torch would use it for all '
            "devices; torch 2.14 can.",
            "the backend hvdlite does not have the reduction … here, only SUM, AVG, MIN, MAX and "
            "PRODUCT …",
            "the reduction … takes integers and bool",
            "the backend hvdlite cannot move a tensor of type …",
            "an output is of type …, but the input is of type …",
            "the outputs have room for … elements, but … have arrived",
            "reduce_scatter: the input has … elements and the output …, but the group has … ranks",
            "all_to_all: … elements cannot be divided among … ranks",
            "an operation of the backend hvdlite has not ended within …",
            "hvdlite: this rank trains a model of its own.",
            "hvdlite: the program's default group is …: hvdlite carries nothing that is sent over "
            "it.",
            "all_gather_coalesced takes a list for each of the … ranks, each of … tensors",
            "hvdlite: torch.distributed has no backend hvdlite: …",
        ],
        "see test_torch_backend_programs",
    ),
    "hvdlite: …=… has no effect: expected replace or keep": "see test_training_alone",
    **dict.fromkeys(
        [
            "this process group was made with enable_reconfigure=True and has no members yet: call "
            "reconfigure first, …",
            "the members of this process group cannot change: …",
            "reconfigure: the uuid … was already used in this process: …",
            "reconfigure: … is not a handle of the backend hvdlite: …",
            "reconfigure: this process's own handle is not among the handles.",
            "reconfigure: not all of the … ranks have come to the meeting with uuid … within … s: "
            "…",
            "init_process_group(enable_reconfigure=True) is not possible in a job that hvdliterun "
            "--min-np or --host-discovery-script has started: …",
        ],
        "see test_torch_reconfigure",
    ),
    **dict.fromkeys(
        [
            "going_on: torch's default group is not hvdlite's.",
            "going_on: … is a …, …",
            "rank … was lost, whose tensor a broadcast between turns was about to send.",
        ],
        "see test_torch_in_place",
    ),
    **dict.fromkeys(
        [
            "elastic.fit: a … cannot be dealt to other ranks when these change: …",
            "elastic.fit: the model's optimizer is not distributed, so nothing adds the ranks' "
            "gradients: …",
            "elastic.fit: this process has the callbacks …, and those that train have …: …",
        ],
        "see test_keras_in_place",
    ),
    "… not come to … of torch's group …, for which … for … s: …": "see test_torch_arrivals",
    "the ranks' loops are at different places: …": "see test_elastic_turns",
    "hvdlite.transformers.elastic() needs a Trainer of transformers 5.20 or newer: …": "see "
    "test_hugging_face_in_place",
    "HvdliteStrategy(elastic=True) needs one DataLoader for training: …": "see "
    "test_lightning_in_place",
    **dict.fromkeys(
        [
            "hvdlite.torch.distributed.init(): this process has joined a job that trains already, "
            "and had no rank yet.",
            "hvdlite: hvdlite.torch.distributed.init() has been called before the function under "
            "@hvd.elastic.run",
        ],
        "see test_a_newcomer_that_calls_init_of_torch_distributed_too_early_is_told_so",
    ),
    **dict.fromkeys(
        [
            "hvdlite.lightning needs … or newer, and … is installed: pip install "
            '".[lightning]" in a clone of hvdlite',
            "make(…) is not possible: expected one of …",
            "local rank … has no device: Trainer() has … on this host. Start at most … ranks on "
            "it, or leave out devices=.",
        ],
        "see test_lightning_deciders",
    ),
    **dict.fromkeys(
        [
            "hvdlite.optuna needs Optuna … or newer, and … is installed: pip install "
            '".[optuna]" in a clone of hvdlite',
            "rank … has to pass a study, not …",
            "rank … has to pass its trial to hvdlite.optuna.Trial(), and the other ranks None, but "
            "ranks … have passed a trial",
            "the ranks of a trial have to make the same calls in the same order, but rank … is at "
            "…, and rank … is at …",
            "… cannot be sent to the other ranks: …",
            "reduce=… is not allowed: expected None or 'mean'",
            "rank … raised … in an objective of hvdlite.optuna, and other ranks have made no call "
            "of the trial for … s",
        ],
        "see test_optuna and test_optuna_agreement",
    ),
    "…Different operations are never matched with each other, even under one "
    "name: …": "see test_observation",
    **dict.fromkeys(
        [
            "HVDLITE_CPU_OPERATIONS=mpi, but … has no MPI",
            "mpi4py cannot be imported (…): ",
            "MPI was initialised with MPI_THREAD_…, but hvdlite calls it from a thread of its own",
            "MPI was finalised before init()",
            "rank 0 has … and rank … has …: all ranks need the same MPI.",
            "the ranks pass lists of different lengths to hvd.init(process_sets=...)",
            "MPI failed in …: …",
            "hvdlite: this process ends by MPI_Abort, because MPI_Finalize would wait for "
            "lost ranks: …",
        ],
        "see test_mpi_programs, and tests/cpp/comm for MPI's own failures",
    ),
}

# --- provoking. `trying` tells what a call raises.

TRYING = """
def trying(call):
    try:
        call()
    except BaseException as error:
        tell(kind=type(error).__name__, text=str(error))
    else:
        tell(kind="nothing", text="")
"""

ALONE = """
def init_with(**variables):
    os.environ.update(variables)
    trying(hvd.init)
    for name in variables:
        del os.environ[name]
for name in [name for name in os.environ if name.startswith("HVDLITE_")]:
    del os.environ[name]
trying(hvd.rank)
trying(lambda: hvd.allreduce(np.ones(3), process_set=hvd.ProcessSet([0])))
trying(lambda: hvd.init(comm=[0, 1]))
init_with(HVDLITE_CYCLE_TIME="soon")
init_with(HVDLITE_RANK="1")
init_with(HVDLITE_RENDEZVOUS="127.0.0.1:1")
init_with(PMIX_RANK="0")
init_with(PMI_RANK="0", PMI_SIZE="1", SLURM_STEP_ID="0", SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="4")
init_with(OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="4", PMI_RANK="0", PMI_SIZE="2")
init_with(RANK="1", WORLD_SIZE="2", MASTER_ADDR=os.uname().nodename, MASTER_PORT="9",
          HVDLITE_START_TIMEOUT="1")
trying(lambda: hvd.init(rank=0))
trying(lambda: hvd.init(rank=0, size=2))
trying(lambda: hvd.init(rank=0, size=2, rendezvous="127.0.0.1:1"))
place = {f"HVDLITE_{name}": "0" for name in ("RANK", "LOCAL_RANK", "CROSS_RANK")}
place |= {f"HVDLITE_{name}": "2" for name in ("SIZE", "LOCAL_SIZE")} | {"HVDLITE_CROSS_SIZE": "1"}
place |= {"HVDLITE_START_TIMEOUT": "2", "HVDLITE_RENDEZVOUS": "127.0.0.1:1"}
init_with(**place)
init_with(**place, HVDLITE_SECRET="abc")
init_with(**place, HVDLITE_SECRET_FD="9999")
init_with(**place, HVDLITE_SECRET_FILE="/nowhere")
open("secret", "w").write("cd" * 32); os.chmod("secret", 0o600)
init_with(**place, HVDLITE_SECRET_FILE="secret", HVDLITE_SECRET="ab" * 32)
os.chmod("secret", 0o644)
init_with(**place, HVDLITE_SECRET_FILE="secret")
init_with(**place, HVDLITE_SECRET_FILE=".")
open("short", "w").write("cd"); os.chmod("short", 0o600)
init_with(**place, HVDLITE_SECRET_FILE="short")
os.geteuid() or os.chown("short", 65534, -1)
init_with(**place, HVDLITE_SECRET_FILE="/etc/passwd" if os.geteuid() else "short")
init_with(**place, HVDLITE_SECRET="ab" * 32)
init_with(**place | {"HVDLITE_RENDEZVOUS": STORE, "HVDLITE_START_TIMEOUT": "60"},
          HVDLITE_SECRET="ab" * 32)
hvd.init()
trying(lambda: hvd.allreduce(1j * np.ones(3)))
trying(lambda: hvd.allreduce(object()))
trying(lambda: hvd.allreduce_(3.0))
fixed = np.ones(3); fixed.flags.writeable = False
trying(lambda: hvd.allreduce_(fixed))
trying(lambda: hvd.allreduce(np.ones(3), op=77))
trying(lambda: hvd.allreduce(np.ones(3), average=True, op=hvd.Sum))
trying(lambda: hvd.allreduce(np.ones(3, np.int32), op=hvd.Adasum))
trying(lambda: hvd.allreduce(np.ones(3, bool), op=hvd.Sum, prescale_factor=2.0))
trying(lambda: hvd.allgather(np.float32(1)))
trying(lambda: hvd.reducescatter(np.float32(1)))
trying(lambda: hvd.alltoall(np.ones(3), [5]))
trying(lambda: hvd.alltoall(np.ones(3), [1, 2]))
trying(lambda: hvd.broadcast(np.ones(3), 7))
trying(lambda: hvd.allreduce(np.ones(3), process_set=hvd.ProcessSet([0])))
gone = hvd.ProcessSet([0])
gone.process_set_id = 99
trying(lambda: hvd.allreduce(np.ones(3), process_set=gone))
trying(lambda: hvd.add_process_set([0]))
trying(lambda: hvd.add_process_set([0, 5]))
trying(lambda: hvd.data.Shard(7, 2).real(4))
from hvdlite.core.arrays.ops import OPS
from hvdlite.base.operations import ALLGATHER
def gather_into(output):
    OPS.run_one(np.ones(4), ALLGATHER, None, hvd.global_process_set, output=output)
trying(lambda: gather_into(np.ones(4, np.float32)))
trying(lambda: gather_into(np.ones(5)))
trying(lambda: gather_into(np.ones(8)[::2]))
trying(lambda: hvd.add_process_set([0], name=""))
hvd.add_process_set([0], name="mine")
trying(lambda: hvd.add_process_set([0], name="mine"))
handle = hvd.allreduce_async(np.ones(3)); hvd.synchronize(handle)
trying(lambda: hvd.poll(handle))
if os.fork() == 0:
    trying(lambda: hvd.allreduce(np.ones(3)))
    os._exit(0)
os.wait()
"""

TOGETHER = """
hvd.init()
odd = RANK == 1
trying(lambda: hvd.alltoall(np.ones(3)))
trying(lambda: hvd.allreduce(np.ones(2 + odd), name="shape"))
trying(lambda: hvd.allgather(np.ones((2, 2 + odd)), name="rows"))
trying(lambda: hvd.allreduce(np.ones(2, np.float64 if odd else np.float32), name="dtype"))
trying(lambda: hvd.allreduce(np.ones(2), op=hvd.Sum if odd else hvd.Max, name="op"))
trying(lambda: hvd.broadcast(np.ones(2), int(odd), name="root"))
trying(lambda: hvd.allreduce(np.ones(2), prescale_factor=1.0 + odd, name="scale"))
trying(lambda: hvd.grouped_allreduce([np.ones(2)] * (1 + odd), name="group"))
from hvdlite import _core
x, before, after = np.ones((3, 4), np.float32)
trying(lambda: _core.wait(
    _core.submit_sparse(hvd.Sum, 0, "sparse", x, x, 1.0, 1.0, 1 + odd, before, after)))
codec, _ = _core.codecs()["fp8" if odd else "int8"]
trying(lambda: _core.wait(
    _core.submit_encoded(hvd.Sum, 0, "codec", x, x, 1.0, 1.0, codec, 0.0, None, 0, 0, False)))
trying(lambda: hvd.add_process_set([0] if odd else [1]))
only = hvd.add_process_set([0])
if odd:
    trying(lambda: hvd.add_process_set([0], name="mine"))
    trying(lambda: hvd.allreduce(np.ones(2), process_set=only))
    first = hvd.allreduce_async(np.ones(2), name="twice")
    trying(lambda: hvd.allreduce_async(np.ones(2), name="twice"))
    flag("twice"); hvd.synchronize(first)
    waiting = threading.Thread(target=hvd.join); waiting.start()
    try:
        for number in range(10_000):
            hvd.allreduce_async(np.ones(2), name=f"not joined yet {number}")
            time.sleep(0.01)  # poll
    except ValueError:
        pass
    trying(lambda: hvd.allreduce(np.ones(2)))
    flag("joined")
    waiting.join()
    hvd.shutdown()
else:
    wait_flag("twice"); hvd.allreduce(np.ones(2), name="twice")
    wait_flag("joined")
    trying(lambda: hvd.broadcast(np.ones(2), 1, name="from nobody"))
    trying(lambda: hvd.alltoall(np.ones(2), name="to nobody"))
    hvd.join()
    trying(lambda: hvd.barrier())
    hvd.shutdown()
"""

APART = """
trying(lambda: hvd.init(comm=[1 - RANK]))
"""

MINE = """
hvd.init(); hvd.barrier()
if RANK == 0:
    waiting = threading.Thread(target=lambda: trying(lambda: hvd.allreduce(np.ones(2))))
    waiting.start()
    wait_until_inside(); hvd.shutdown(1); waiting.join(); flag("over")
else:
    wait_flag("over")
"""

LOST = """
hvd.init(); hvd.barrier()
if RANK == 1:
    {end}
trying(lambda: hvd.allreduce(np.ones(2)))
flag("told")
"""


@contextlib.contextmanager
def _job(
    directory: Path, name: str, size: int, hosts: tuple[str, ...] = ()
) -> Iterator[tuple[Ranks, list]]:
    (directory / name).mkdir()
    said: list[tuple[str, str]] = []
    with Ranks(directory / name, size, hosts) as ranks:
        yield ranks, said
        for rank in range(size):
            said += [(line["kind"], line["text"]) for line in ranks.told(rank)]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Everything that the scenarios were told: (class, message)."""
    base = tmp_path_factory.mktemp("errors")
    told: list[tuple[str, str]] = []
    with _job(base, "alone", 1) as (ranks, said):
        store = f"{ranks.server.address[0]}:{ranks.server.address[1]}"
        ranks.start(f"STORE = {store!r}\n" + TRYING + ALONE)
        assert ranks.wait(40) == {0: 0}, ranks.outputs()
    told += said
    with _job(base, "together", 2) as (ranks, said):
        ranks.start(TRYING + TOGETHER)
        assert set(ranks.wait(40).values()) == {0}, ranks.outputs()
    told += said
    with _job(base, "apart", 2) as (ranks, said):
        ranks.start(TRYING + APART)
        ranks.wait(40)
    told += said
    with _job(base, "mine", 2) as (ranks, said):
        ranks.start(TRYING + MINE)
        ranks.wait(40)
    told += said
    for name, hosts in (("shm", ()), ("net", ("a", "b"))):
        with _job(base, f"died-{name}", 2, hosts) as (ranks, said):
            ranks.start(TRYING + LOST.format(end="os._exit(1)"))
            ranks.wait(40)
        told += said
    with _job(base, "raised", 2) as (ranks, said):
        ranks.start(TRYING + LOST.format(end="raise KeyError('weights')"))
        ranks.wait(40)
    told += said
    with _job(base, "frozen", 2) as (ranks, said):
        ranks.start(
            TRYING + LOST.format(end="flag('here'); signal.pause()"),
            HVDLITE_HEARTBEAT_SECONDS="1.5",
        )
        ranks.wait_for_flags("here", seconds=40)
        ranks.kill(1, signal.SIGSTOP)
        ranks.processes[0].wait(within(40))
        ranks.kill(1)
        ranks.wait(40)
    told += said
    with _job(base, "stalled", 2) as (ranks, said):
        knobs = {
            "HVDLITE_STALL_CHECK_TIME_SECONDS": "0.5",
            "HVDLITE_STALL_SHUTDOWN_TIME_SECONDS": "2",
        }
        ranks.start(TRYING + LOST.format(end="wait_flag('told'); sys.exit()"), **knobs)
        ranks.wait(40)
        warning = re.search(r"warning: (Operations have waited.+)", ranks.outputs())
        assert warning, ranks.outputs()
    told += [*said, ("a warning", warning[1])]
    with _job(base, "late", 2) as (ranks, said):
        ranks.start(TRYING + "trying(hvd.init)\n", ranks=[0], HVDLITE_START_TIMEOUT="1")
        ranks.wait(40)
    told += said
    for knob in (
        {"HVDLITE_CPU_OPERATIONS": "shm"},
        {"HVDLITE_NETWORK_INTERFACES": "nowhere0"},
        {"HVDLITE_AUTOTUNE_KEEP": "speed", "HVDLITE_AUTOTUNE": "1"},
    ):
        with _job(base, next(iter(knob)), 2, ("a", "b")) as (ranks, said):
            ranks.start(TRYING + "trying(hvd.init)\n", **knob)
            ranks.wait(40)
        told += said
    return told + _launcher(base)


def _launcher(base: Path) -> list[tuple[str, str]]:
    job = Job(base)
    told = []
    for arguments in (
        ("-np", "2", "sh", "-c", "exit 3"),
        ("-np", "2", "sh", "-c", "kill -KILL $$"),
        ("-np", "2", "no-such-program"),
        ("-np", "2", "python", "-c", "pass"),
        ("-np", "3", "-H", "localhost:2", "true"),
        ("-np", "2", "-H", "elsewhere:2", "true"),
    ):
        done = job.run(*arguments)
        told.append(("the launcher", done.stderr.decode().strip().rsplit("\n", 1)[-1]))
    started = job.start("-np", "2", "sh", "-c", "touch up.$HVDLITE_RANK; sleep 600")
    job.wait_for_files(["up.0", "up.1"])
    started.terminate()
    told.append(("the launcher", started.communicate()[1].decode().strip().rsplit("\n", 1)[-1]))
    assert not job.wait_until_gone(5)
    return told


@pytest.mark.watchdog(240)
@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.message not in NOT_PROVOKED], ids=lambda row: row.message
)
def test_a_user_is_told_this(row: Row, said: list[tuple[str, str]]) -> None:
    close = [
        f"{kind}: {text}"
        for kind, text in said
        if any(piece.strip() in text for piece in row.pieces)
    ]
    assert any(row.matches(kind, text) for kind, text in said), (
        f"nobody was told so; similar: {close or said}"
    )


def _literals() -> str:
    """All texts of the code: string literals, adjacent ones joined, with a mark where a value goes
    in."""
    texts = []
    for path in [*(ROOT / "csrc").rglob("*.cc"), *(ROOT / "csrc").rglob("*.h")]:
        code = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.M)
        joined = re.sub(r'(?<!\\)"\s*\n\s*"', "", code)
        texts += [m.replace('\\"', '"') for m in re.findall(r'"((?:\\.|[^"\\\n])*)"', joined)]
    for path in (ROOT / "hvdlite").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [str(v.value) if isinstance(v, ast.Constant) else "\0" for v in node.values]
                texts.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\1".join(texts)


@pytest.mark.always
def test_what_is_not_provoked_is_in_the_code_word_by_word() -> None:
    known = {row.message for row in ROWS}
    literals = _literals()
    for message in NOT_PROVOKED:
        assert message in known, f"no line of the page says {message!r}"
        for piece in message.split("…"):
            assert piece in literals, f"no code says {piece!r}"


@pytest.mark.always
def test_what_is_not_provoked_names_tests_that_exist() -> None:
    files = {path.stem: path for path in (ROOT / "tests").rglob("*") if path.is_file()}
    functions = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    for message, where in NOT_PROVOKED.items():
        for path in re.findall(r"tests/[\w/.]+", where):
            assert (ROOT / path).exists(), f"{message!r} is said to be tested in {path}"
        for name in re.findall(r"\b(test_\w+|torch_\w+)", where):
            assert name in files or name in functions, f"{message!r} is said to be tested by {name}"


@pytest.mark.always
def test_the_page_names_classes_that_exist() -> None:
    assert len(ROWS) > 50
    for row in ROWS:
        if not row.kind.startswith("("):
            kind = getattr(hvd, row.kind, None) or getattr(builtins, row.kind, None)
            assert isinstance(kind, type) and issubclass(kind, Exception), row
