"""The lowest layer: the knobs, and the numbers of operations and reductions."""
