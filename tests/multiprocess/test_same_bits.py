"""Two jobs of as many ranks on the same hosts have the same bits."""

from __future__ import annotations

from pathlib import Path

from bare_ranks import Ranks

# SEED chooses in which order a rank asks for what, and so what is fused with what.
SUMS = """
import hashlib
hvd.init()
data = np.random.default_rng(RANK)
tensors = [data.standard_normal(count).astype(kind) for kind in (np.float32, np.float16)
           for count in (1, 7, 500, 9000, 65_537, 300_001)]
found = hashlib.sha256()
order = np.random.default_rng([SEED, RANK])
for step in range(3):
    handles = {i: hvd.allreduce_async(tensors[i], op=hvd.Sum, name=f"{step}.{i}")
               for i in order.permutation(len(tensors))}
    for i in range(len(tensors)):
        found.update(hvd.synchronize(handles[i]).tobytes())
tell(bits=found.hexdigest())
"""


HOSTS = "aabbc"


def test_the_sums_of_two_jobs_have_the_same_bits(tmp_path: Path) -> None:
    bits = set()
    for seed in range(2):
        directory = tmp_path / str(seed)
        directory.mkdir()
        with Ranks(directory, len(HOSTS), HOSTS) as ranks:
            ranks.all_end_well(f"SEED = {seed}\n" + SUMS, seconds=60)
            bits |= {ranks.last(rank)["bits"] for rank in range(len(HOSTS))}
    assert len(bits) == 1
