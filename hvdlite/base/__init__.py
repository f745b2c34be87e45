"""What everything stands on: the knobs, and the numbers of operations and reductions."""
