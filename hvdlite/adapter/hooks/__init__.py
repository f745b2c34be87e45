"""Reduces gradients one by one, as autograd completes them (torch).

reducer           START HERE: a hook per parameter submits, synchronize() waits
shared            an optimizer's options and its reducer
sharers           optimizers that have parameters in common
pending_gradient  a gradient and its operation
aggregation       counts backward passes and the members of groups
momenta           momentum of gradients that a compressor leaves dense
primitives        what a framework brings
"""
