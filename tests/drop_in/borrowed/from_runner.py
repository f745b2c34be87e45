"""What schedulers and programs borrow of Horovod's launcher."""

import os
import sys
import tempfile
import threading

from horovod.runner.common.util import config_parser, env, host_hash, hosts, secret, timeout
from horovod.runner.elastic import constants
from horovod.runner.elastic.discovery import FixedHosts, HostDiscovery, HostDiscoveryScript
from horovod.runner.launch import parse_args, run_controller
from horovod.runner.util import network, streams, threads


def raises(kind, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind}")


# Hosts and ranks.
four = hosts.parse_hosts("a:2,b:1,c:4")
assert four[0] == hosts.HostInfo("a", 2) and hosts.parse_hosts_and_slots("a:2,b:1") == (
    ["a", "b"],
    {"a": 2, "b": 1},
)
slots = hosts.get_host_assignments(four, 2, 4)
assert [(s.hostname, s.rank, s.local_rank, s.cross_rank) for s in slots] == [
    ("a", 0, 0, 0), ("a", 1, 1, 0), ("b", 2, 0, 1), ("c", 3, 0, 2),
]  # fmt: skip
assert {(s.size, s.local_size, s.cross_size) for s in slots[1:3]} == {(4, 2, 1), (4, 1, 3)}
assert len(hosts.get_host_assignments(four, 2)) == 7
back = hosts.SlotInfo.from_response_string(slots[1].to_response_string())
assert (back.rank, back.size, back.local_rank, back.local_size) == (1, 4, 1, 2)
assert "8 processes are more than the 7 slots" in raises(
    ValueError, hosts.get_host_assignments, four, 8
)
assert "Invalid host input" in raises(ValueError, hosts.parse_hosts, "a:x")
with tempfile.NamedTemporaryFile("w") as file:
    file.write("a slots=2\n\n# no host\nb slots=3\n")
    file.flush()
    assert hosts.parse_host_files(file.name) == "a:2,b:3"

# Threads.
done, stop, never = threading.Event(), threading.Event(), threading.Event()
threads.in_thread(done.set).join()
assert done.is_set()
told = []
waits = threads.on_event(done, told.append, args=("done",), stop=stop)
waits.join()
waits = threads.on_event(never, told.append, args=("never",), stop=stop, check_stop_interval_s=0.01)
stop.set()
waits.join()
assert told == ["done"]
assert "tuple" in raises(ValueError, threads.in_thread, print, ["x"])
assert threads.execute_function_multithreaded(
    pow, [(2, n) for n in range(5)], max_concurrent_executions=2
) == {n: 2**n for n in range(5)}

# A pipe, limits, keys.
pipe = streams.Pipe()
writer = threads.in_thread(lambda: (pipe.write("abc"), pipe.write("de"), pipe.close()))
assert [pipe.read(2), pipe.read(), pipe.read(), pipe.read()] == ["ab", "c", "de", None]
writer.join()
assert streams.Pipe().read(timeout=0) is None and raises(RuntimeError, pipe.write, "x")
over = timeout.Timeout(0, "{activity} took longer than {timeout}")
assert (
    over.timed_out()
    and raises(timeout.TimeoutException, over.check_time_out_for, "it") == "it took longer than 0"
)
timeout.Timeout(1000, "").check_time_out_for("it")
key = secret.make_secret_key()
digest = secret.compute_digest(key, b"message")
assert secret.check_digest(key, b"message", digest) and not secret.check_digest(
    key, b"another", digest
)
assert len(digest) == secret.DIGEST_LENGTH_BYTES

# This machine, and this process.
assert host_hash.host_hash() == host_hash.host_hash() != host_hash.host_hash("salt")
assert network.filter_local_addresses(["localhost", "nowhere.invalid"]) == ["nowhere.invalid"]
assert (
    "127.0.0.1" in network.get_local_host_addresses()
    and network.resolve_host_address("nowhere.invalid") is None
)
assert network.get_driver_ip(None) and "lo" in network.get_local_host_intfs()
assert env.get_env_rank_and_size() == (0, 1)
os.environ |= {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"}
assert env.get_env_rank_and_size() == (1, 3)
assert env.is_exportable("PATH") and not env.is_exportable("OLDPWD")


# Where hosts come from.
class Own(HostDiscovery):
    def find_available_hosts_and_slots(self):
        return {"node1": 2}


assert Own().find_available_hosts_and_slots() == {"node1": 2}
raises(TypeError, HostDiscovery)
fixed = FixedHosts({"a": 1})
fixed.set({"a": 2, "b": 1})
assert fixed.find_available_hosts_and_slots() == {"a": 2, "b": 1}
script = HostDiscoveryScript("printf 'a:4\\n\\nb\\n'", 2)
assert isinstance(script, HostDiscovery)
assert script.find_available_hosts_and_slots() == {"a": 4, "b": 2}
assert HostDiscoveryScript("true", 1).find_available_hosts_and_slots() == {}
failing = HostDiscoveryScript("exit 3", 1)
assert "status 3" in raises(RuntimeError, failing.find_available_hosts_and_slots)
assert constants.RESET_LIMIT_EXCEEDED_MESSAGE.format(1).endswith("exceeded limit: 1")

# The command line.
flags = (
    "-np 2 -H a:2 --fusion-threshold-mb 32 --cycle-time-ms 20 --no-stall-check --log-level "
    "INFO --max-np 4 --gloo"
)
sys.argv = ["horovodrun", *flags.split(), "python", "x.py", "-v"]
args = parse_args()
assert (args.num_proc, args.hosts, args.command, args.use_gloo, args.use_mpi) == (
    2, "a:2", ["python", "x.py", "-v"], True, False,
)  # fmt: skip
assert (args.fusion_threshold_mb, args.cycle_time_ms, args.no_stall_check, args.max_num_proc) == (
    32,
    20.0,
    True,
    4,
)
assert args.cache_capacity is None and args.nics is None and args.run_func is None
assert config_parser.set_env_from_args({"OTHER": "x"}, args) == {
    "OTHER": "x",
    config_parser.HOROVOD_FUSION_THRESHOLD: str(32 << 20),
    config_parser.HOROVOD_CYCLE_TIME: "20.0",
    config_parser.HOROVOD_STALL_CHECK_DISABLE: "1",
    config_parser.HOROVOD_LOG_LEVEL: "info",
}
assert run_controller(False, lambda: "ours", False, None, False, None, 0) == "ours"
assert "LSF job" in raises(ValueError, run_controller, False, None, False, None, True, None, 0)
print("the runner is done")
