"""Those who are measured, one module each. A module has

start()                     joins the job; returns (rank, size)
buffer(dtype, count)        a tensor of zeros; Unsupported where the peer has no such type
fill(tensor, value)         and first(tensor): to see that it adds up
allreduce(tensor, name)     blocking Sum, in place
step(tensors)               Sum of the {name: tensor}s, in the way a program would ask this
                            peer for it
stop()

A peer is only imported in its own processes.
"""


class Unsupported(Exception):
    """The reason why a peer cannot take part in a measurement."""
