"""`hvdlite.run(fn)` as a notebook meets it. Called in this very process where that is possible."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import signal
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from launched import MARK, ROOT, Job
from machine import within
from waiting import wait_until

import hvdlite
from hvdlite.launch import delivery


@pytest.fixture(autouse=True)
def marked(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks carry the job's mark, so that one that remains is found."""
    for name in list(os.environ):
        if name.startswith(("HVDLITE_", "HOROVOD_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv(MARK, job.mark)
    # A checkout that is not installed is found by its ranks as by this process.
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
    )


def _rank() -> int:
    return int(os.environ["HVDLITE_RANK"])


def _fails(*arguments: Any, **options: Any) -> RuntimeError:
    with pytest.raises(RuntimeError) as caught:
        hvdlite.run(*arguments, **options)
    return caught.value


# --- what comes back


def test_results_come_in_the_order_of_ranks_and_init_is_not_needed(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(job.directory)

    def scale(x: int, factor: int = 1) -> tuple[int, int, bool]:
        import time

        while _rank() < 2 and not os.path.exists(f"returned.{_rank() + 1}"):
            time.sleep(0.01)  # poll
        open(f"returned.{_rank()}", "w").close()
        return _rank(), x * factor, hvdlite.is_initialized()

    assert hvdlite.run(scale, (7,), {"factor": 3}, num_proc=3) == [(r, 21, False) for r in range(3)]


def test_ranks_are_one_job() -> None:
    def train(start: float) -> float:
        import numpy as np

        import hvdlite as hvd

        hvd.init()
        return float(hvd.allreduce(np.full(4, start + hvd.rank()), op=hvd.Sum)[0])

    assert hvdlite.run(train, (10.0,), num_proc=2) == [21.0, 21.0]


def test_one_process_is_the_default_and_a_new_one() -> None:
    assert hvdlite.run(lambda: (os.getpid(), os.environ["HVDLITE_SIZE"]))[0] != (os.getpid(), "1")


def test_what_is_larger_than_a_value_of_the_store_travels_too() -> None:
    data = os.urandom(1 << 20) * 70
    assert hvdlite.run(lambda given: given + b"!", (data,)) == [data + b"!"]


def test_classes_of_the_main_program_stay_the_same(job: Job) -> None:
    script = job.script(
        "import hvdlite\n"
        "class Model:\n    def __init__(self, x): self.x = x\n"
        "def double(model):\n    assert type(model) is Model\n    return Model(2 * model.x)\n"
        "models = hvdlite.run(double, (Model(4),), num_proc=2)\n"
        "assert all(type(m) is Model and m.x == 8 for m in models)\n"
    )
    done = job.command(sys.executable, script)
    assert done.returncode == 0, done.stderr


def test_modules_are_found_where_the_caller_finds_them(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job.directory / "helper_of_the_notebook.py").write_text("def answer(): return 42\n")
    monkeypatch.syspath_prepend(str(job.directory))
    import helper_of_the_notebook

    assert hvdlite.run(helper_of_the_notebook.answer, num_proc=2) == [42, 42]


def test_a_file_in_the_working_directory_hides_no_module(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job.directory / "colorsys.py").write_text("raise SystemExit('the wrong one')\n")
    monkeypatch.chdir(job.directory)
    assert hvdlite.run(lambda: __import__("colorsys").__file__) != [
        str(job.directory / "colorsys.py")
    ]


# --- what goes wrong in a rank


class Refused(Exception):
    pass


def test_a_rank_that_raises_is_named_with_its_traceback_and_ends_the_others() -> None:
    def divide() -> None:
        if _rank() == 1:
            raise Refused("the learning rate is negative")
        signal.pause()

    error = _fails(divide, num_proc=3)
    assert re.match(
        r"rank 1 on localhost raised .*Refused: the learning rate is negative\n", str(error)
    )
    assert "On rank 1:\nTraceback (most recent call last):\n" in str(error)
    assert 'raise Refused("the learning rate is negative")' in str(error)
    assert "task.py" not in str(error)
    assert isinstance(error.__cause__, Refused)


def test_the_cause_is_told_and_not_its_consequence() -> None:
    def train() -> None:
        import numpy as np

        import hvdlite as hvd

        hvd.init()
        if hvd.rank() == 1:
            raise Refused("no data")
        hvd.allreduce(np.ones(2), name="x")

    assert "rank 1 on localhost raised" in str(
        error := _fails(train, num_proc=2)
    ) and "no data" in str(error)


@pytest.mark.costly
def test_the_cause_is_told_though_its_process_ends_last() -> None:
    def train() -> None:
        import atexit

        import numpy as np

        import hvdlite as hvd

        hvd.init()
        if hvd.rank() == 1:
            atexit.register(signal.pause)  # until the launcher has judged by what it knows
            raise Refused("no data")
        hvd.allreduce(np.ones(2), name="x")

    error = _fails(train, num_proc=2)
    assert str(error).startswith("rank 1 on localhost raised") and isinstance(
        error.__cause__, Refused
    )


def test_an_exception_that_cannot_be_made_again_is_told_as_text() -> None:
    class Strange(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__("odd")

    def fail() -> None:
        raise Strange(1, 2)

    error = _fails(fail)
    assert "Strange: odd" in str(error) and error.__cause__ is None


def test_a_rank_that_is_killed_is_told_as_the_launcher_tells_it() -> None:
    def die() -> None:
        if _rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()

    assert str(_fails(die, num_proc=2)).startswith("rank 1 on localhost was killed by SIGKILL")


def test_a_function_that_ends_its_process() -> None:
    assert "rank 0 on localhost ended without a result" in str(_fails(lambda: sys.exit(0)))
    assert "rank 0 on localhost exited with code 3" in str(_fails(lambda: os._exit(3)))
    assert "exited with code 1: out of data" in str(_fails(lambda: sys.exit("out of data")))


def test_a_result_that_cannot_be_pickled() -> None:
    error = _fails(lambda: threading.Lock())
    assert "TypeError: the result, a _thread.lock, cannot be pickled" in str(error)
    assert isinstance(error.__cause__, TypeError)


def _made_in_a_rank() -> str:
    return f"rank {os.environ['HVDLITE_RANK']}"


class OnlyInARank:
    def __reduce__(self) -> tuple[Any, ...]:
        return _made_in_a_rank, ()


def test_a_result_that_cannot_be_unpickled_here() -> None:
    error = _fails(lambda: OnlyInARank(), num_proc=2)
    assert "the result of rank 0 on localhost cannot be unpickled here: KeyError" in str(error)


def test_a_function_that_cannot_be_loaded_there() -> None:
    class Here:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.listdir, (f"/proc/{here}/no-such-place",)

    here = os.getpid()
    assert "the function cannot be loaded here: FileNotFoundError" in str(
        _fails(lambda x: x, (Here(),))
    )


def test_another_version_of_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "program", lambda: b'{"python": [3, 1], "path": []}')
    assert "pickled by Python 3.1, but this rank runs Python 3." in str(_fails(lambda: 1))


# --- what goes wrong before


def test_what_cannot_be_pickled_starts_nothing(job: Job) -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError, match="cannot be pickled for the ranks.*within the function"):
        hvdlite.run(lambda: lock, num_proc=2)
    with pytest.raises(TypeError, match="needs a function to call, not str"):
        hvdlite.run("python train.py")  # type: ignore[arg-type]
    assert job.pids() == []


def test_no_such_interpreter() -> None:
    assert "cannot start '/no/such/python': No such file or directory" in str(
        _fails(lambda: 1, executable="/no/such/python")
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"num_proc": "2"}, r"num_proc='2'\): expected a whole number"),
        ({"num_proc": 1.5}, r"num_proc=1.5\): expected a whole number"),
        ({"num_proc": True}, r"num_proc=True\): expected a whole number"),
        ({"args": 3}, r"args=3\): expected the function's arguments in a tuple"),
        ({"args": "abc"}, r"args='abc'\): expected the function's arguments in a tuple"),
        ({"hosts": ["a:1"]}, r"hosts=\['a:1'\]\): expected a text"),
        ({"network_interfaces": 1}, r"interfaces=1\): expected names, as in .*'eth0', 'eth1'"),
    ],
)
def test_arguments_of_another_kind_are_told(given: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        hvdlite.run(print, **given)


@pytest.mark.parametrize(
    "names", [["lo", "eth9"], {"lo", "eth9"}, "lo,eth9"], ids=["list", "set", "text"]
)
def test_network_interfaces_are_a_list_a_set_or_a_text(names: Any) -> None:
    [given] = hvdlite.run(
        lambda: os.environ["HVDLITE_NETWORK_INTERFACES"], network_interfaces=names
    )
    assert set(given.split(",")) == {"lo", "eth9"}


def test_arguments_of_horovod() -> None:
    with pytest.warns(DeprecationWarning, match="np=.* is deprecated, use num_proc"):
        assert hvdlite.run(_rank, np=2) == [0, 1]
    with pytest.raises(ValueError, match="hosts and hostfile exclude one another"):
        hvdlite.run(_rank, hosts="localhost:1", hostfile="x")
    with pytest.raises(ValueError, match="use_gloo and use_mpi"):
        hvdlite.run(_rank, use_gloo=True, use_mpi=True)
    with pytest.warns(UserWarning, match="--reset-limit has no effect: the job is not elastic"):
        assert hvdlite.run(_rank, reset_limit=3) == [0]
    with pytest.raises(ValueError, match="slots of the hosts"):
        hvdlite.run(_rank, num_proc=3, hosts="localhost:2")
    with pytest.raises(ValueError, match="-np 0"):
        hvdlite.run(_rank, num_proc=0)
    told = hvdlite.run(
        lambda: os.environ["HOROVOD_START_TIMEOUT"],
        hosts="localhost:2",
        use_gloo=True,
        disable_cache=True,
        start_timeout=7,
    )
    assert told == ["7"]


# --- output


def test_output_appears_in_sys_stdout_and_not_in_descriptor_1(job: Job) -> None:
    def speak() -> None:
        print("grüße", flush=True)
        os.write(1, b"\xff half a line")
        print("to stderr", file=sys.stderr)

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        hvdlite.run(speak, num_proc=2, output_filename=str(job.directory / "logs"))
    for rank in range(2):
        assert f"[{rank}]<stdout>:grüße\n" in out.getvalue()
        assert f"[{rank}]<stdout>:\\xff half a line" in out.getvalue()
        assert f"[{rank}]<stderr>:to stderr\n" in err.getvalue()
        assert (
            job.directory / f"logs/rank.{rank}/stdout"
        ).read_bytes() == "grüße\n".encode() + b"\xff half a line"


def test_much_output_is_all_there_before_run_returns() -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        hvdlite.run(lambda: print("\n".join(f"line {i} ü" for i in range(20000))))
    assert out.getvalue().splitlines() == [f"[0]<stdout>:line {i} ü" for i in range(20000)]


def test_a_closed_stdout_stops_nothing() -> None:
    out = io.StringIO()
    out.close()
    with contextlib.redirect_stdout(out):
        assert hvdlite.run(lambda: print("x" * 100000) or 5) == [5]


# --- interrupts


SLEEPERS = """
import hvdlite, os, signal, sys, threading, time
def sleep():
    import os, signal, subprocess
    subprocess.Popen(["setsid", "sleep", "600"])
    open("ready." + os.environ["HVDLITE_RANK"], "w").close()
    signal.pause()
"""


def _start(job: Job, text: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, job.script(SLEEPERS + text)],
        cwd=job.directory,
        env=job.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    job.started.append(process)
    job.wait_for_files(["ready.0", "ready.1"])
    return process


def test_ctrl_c_ends_all_ranks_and_the_program_goes_on(job: Job) -> None:
    process = _start(
        job,
        "try:\n    hvdlite.run(sleep, num_proc=2)\nexcept KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n    signal.pause()\n",
    )
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None and process.stdout.readline() == b"interrupted\n"
    assert job.pids() == [process.pid]
    process.kill()


def test_a_signal_with_a_handler_of_the_program_is_handed_on_when_the_ranks_have_ended(
    job: Job,
) -> None:
    process = _start(
        job,
        "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(9)))\n"
        "hvdlite.run(sleep, num_proc=2)\n",
    )
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate()
    assert (out, process.returncode) == (b"saved\n", 9)
    assert job.pids() == []


def test_a_signal_that_the_program_only_notes_is_an_error_of_run(job: Job) -> None:
    process = _start(
        job,
        "signal.signal(signal.SIGTERM, lambda *_: print('noted', flush=True))\n"
        "try:\n    hvdlite.run(sleep, num_proc=2)\nexcept RuntimeError as error:\n    "
        "print(error)\n",
    )
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate()
    assert (out, process.returncode) == (b"noted\nended by SIGTERM; all ranks were ended.\n", 0)


def test_kill_9_of_the_caller_leaves_nothing(job: Job) -> None:
    process = _start(job, "hvdlite.run(sleep, num_proc=2)\n")
    process.kill()
    assert job.wait_until_gone(3.0) == []


def test_a_thread_may_run_functions_and_its_process_may_end_before(job: Job) -> None:
    process = _start(
        job,
        "threading.Thread(target=hvdlite.run, args=(sleep,), kwargs={'num_proc': 2}, "
        "daemon=True).start()\n"
        # poll
        "while not (os.path.exists('ready.0') and os.path.exists('ready.1')): time.sleep(0.01)\n",
    )
    process.communicate()
    assert job.wait_until_gone(3.0) == []


def test_an_exception_sent_to_a_thread_ends_its_ranks(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ctypes

    monkeypatch.chdir(job.directory)
    caught: list[BaseException] = []

    def call() -> None:
        try:
            hvdlite.run(lambda: (open(f"ready.{_rank()}", "w").close(), signal.pause()), num_proc=2)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    job.wait_for_files(["ready.0", "ready.1"])
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt)
    )
    thread.join(within(10))
    assert [type(error) for error in caught] == [KeyboardInterrupt]
    assert job.pids() == []


def test_hosts_that_cannot_be_reached_leave_nothing_open(job: Job) -> None:
    def call() -> None:
        with pytest.raises(ConnectionError):
            hvdlite.run(
                _rank,
                hosts="nowhere.invalid:2",
                num_proc=2,
                output_filename=str(job.directory),
                start_timeout=5,
            )

    call()
    gc.collect()  # what earlier tests have left
    before = _resources()
    for _ in range(3):
        call()
    _expect_no_more_than(before)


# --- a real notebook


def test_a_notebook_sees_output_results_and_errors_and_can_interrupt(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ipykernel", reason="needs a notebook's kernel: pip install ipykernel")
    from jupyter_client.manager import start_new_kernel

    for name in ("RUNTIME", "DATA", "CONFIG"):
        # nothing into the home directory
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(job.directory))
    monkeypatch.setenv("IPYTHONDIR", str(job.directory))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(job.directory))

    def cell(code: str, interrupt_when: list[str] | None = None) -> tuple[str, str]:
        """What it prints, and its value or error."""
        printed, value = "", ""
        request = client.execute(code)
        while True:
            message = client.get_iopub_msg(timeout=within(30))
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != request:
                continue
            if kind == "stream":
                printed += content["text"]
            elif kind == "error":
                value = f"{content['ename']}: {content['evalue']}"
            elif kind == "execute_result":
                value = content["data"]["text/plain"]
            elif kind == "status" and content["execution_state"] == "idle":
                return printed, value
            if interrupt_when and all(line in printed for line in interrupt_when):
                interrupt_when = None
                manager.interrupt_kernel()

    try:
        code = "import hvdlite\nclass Model: x = 5\ndef f(m): print('hello'); return type(m)\n"
        printed, value = cell(code + "[r is Model for r in hvdlite.run(f, (Model(),), num_proc=2)]")
        about_threads, *lines = sorted(printed.splitlines(), key=lambda line: line.startswith("["))
        assert about_threads.startswith("hvdliterun: OMP_NUM_THREADS is not set: ")  # once
        assert sorted(lines) == ["[0]<stdout>:hello", "[1]<stdout>:hello"]
        assert value == "[True, True]"
        _, value = cell("def f(): raise ValueError('in a cell')\nhvdlite.run(f)")
        assert value.startswith("RuntimeError: rank 0 on localhost raised ValueError: in a cell")
        sleep = (
            "def f():\n    import signal\n    print('asleep', flush=True)\n    "
            "signal.pause()\nhvdlite.run(f, num_proc=2)"
        )
        _, value = cell(sleep, interrupt_when=["[0]<stdout>:asleep", "[1]<stdout>:asleep"])
        assert value.startswith("KeyboardInterrupt")
        assert len(job.pids()) == 1  # the kernel
        assert cell("hvdlite.run(lambda: 7, num_proc=2)") == ("", "[7, 7]")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


# --- again and again


def _resources() -> tuple[int, int, int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return len(os.listdir("/proc/self/fd")), threading.active_count(), len(children)


def _expect_no_more_than(before: tuple[int, int, int]) -> None:
    """Less may be what an earlier test has left until then. A thread, a writer's say, ends a moment
    after it was told to."""
    wait_until(
        lambda: all(now <= then for now, then in zip(_resources(), before, strict=True)),
        5,
        lambda: (before, _resources()),
    )


def test_runs_leave_no_descriptor_no_thread_no_process_no_memory() -> None:
    data = os.urandom(8 << 20)

    def fail() -> None:
        raise Refused

    def once() -> None:
        assert len(hvdlite.run(lambda given: given, (data,))) == 1
        assert isinstance(_fails(fail).__cause__, Refused)

    once()
    gc.collect()
    before = _resources()
    tracemalloc.start()
    try:
        memory = tracemalloc.get_traced_memory()[0]
        for _ in range(3):
            once()
        _expect_no_more_than(before)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - memory < len(data)  # not even of one run
    finally:
        tracemalloc.stop()


def test_the_task_by_itself_says_what_it_is_for(job: Job) -> None:
    done = job.command(sys.executable, "-m", "hvdlite.launch.task")
    assert done.returncode == 2 and "does nothing by itself" in done.stderr
