"""What libraries for torch borrow of Horovod, in the ways that they do: names to annotate with,
classes to make others of."""

import horovod.torch as hvd
import torch
from horovod.common.util import _cache
from horovod.torch import mpi_lib_v2
from horovod.torch.compression import FP16Compressor, NoneCompressor
from horovod.torch.mpi_ops import allreduce_async_
from horovod.torch.optimizer import _DistributedOptimizer

hvd.init()
rank, size = hvd.rank(), hvd.size()
average = (size - 1) / 2


def gradient_of(optimizer, parameter):
    """After a step in which each rank's gradient is its number."""
    optimizer.zero_grad()
    (parameter * rank).sum().backward()
    optimizer.step()
    return parameter.grad.tolist()


# An annotation, as in Ludwig.
def wait(optimizer: _DistributedOptimizer) -> None:
    optimizer.synchronize()


plain = torch.nn.Parameter(torch.zeros(2))
wait(hvd.DistributedOptimizer(torch.optim.SGD([plain], lr=1.0)))


# A class of the library's own, of which it makes that of the optimizer, as Horovod does itself.
class Counting(_DistributedOptimizer):
    def __init__(self, params, named_parameters=None, **options):
        _DistributedOptimizer.__init__(self, params, named_parameters, **options)
        self.steps = 0

    def step(self, closure=None):
        self.steps += 1
        return super(self.__class__, self).step(closure)


parameter = torch.nn.Parameter(torch.zeros(2))
base = torch.optim.SGD([{"params": [parameter], "lr": 0.5}], lr=1.0)
kind = type("SGD", (torch.optim.SGD,), dict(Counting.__dict__))
counting = kind(base.param_groups, [("weight", parameter)], compression=NoneCompressor)
assert isinstance(counting, torch.optim.SGD) and counting.param_groups[0]["lr"] == 0.5
assert gradient_of(counting, parameter) == [average] * 2 and counting.steps == 1
assert parameter.tolist() == [-0.5 * average] * 2
with counting.skip_synchronize():
    counting.synchronize()
    counting.step()
assert counting.steps == 2


# The same by inheritance.
class Both(_DistributedOptimizer, torch.optim.SGD):
    pass


parameter = torch.nn.Parameter(torch.zeros(3))
both = Both(
    [{"params": [parameter], "lr": 1.0}], [("weight", parameter)], FP16Compressor, op=hvd.Sum
)
assert (
    gradient_of(both, parameter) == [average * size] * 3
    and parameter.tolist() == [-average * size] * 3
)

# And Horovod's own class as it is.
kind = type("Adam", (torch.optim.Adam,), dict(_DistributedOptimizer.__dict__))
parameter = torch.nn.Parameter(torch.zeros(1))
assert gradient_of(kind([parameter], [("weight", parameter)]), parameter) == [average]

# Compressors are classes, whose functions need no object.
small, context = FP16Compressor.compress(torch.ones(2))
assert (
    small.dtype == torch.float16
    and FP16Compressor.decompress(small, context).dtype == torch.float32
)
assert (
    NoneCompressor.compress(plain)[0] is plain and NoneCompressor.decompress(plain, None) is plain
)
assert hvd.allreduce(torch.ones(2), compression=NoneCompressor, op=hvd.Sum).tolist() == [size] * 2

# The native module's functions.
handle = allreduce_async_(torch.ones(2), op=hvd.Sum)
while not mpi_lib_v2.horovod_torch_poll(handle):
    pass
mpi_lib_v2.horovod_torch_wait_and_clear(handle)

calls = []
once = _cache(lambda x: calls.append(x))
once(1), once(1)
assert calls == [1]
print(f"rank {rank} of {size} is done")
