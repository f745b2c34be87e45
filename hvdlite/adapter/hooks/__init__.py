"""Reduces gradients one by one, as autograd completes them (torch).

A hook per parameter submits its gradient during the backward pass, and step() waits for all.

    reducer      START HERE: the hooks, synchronize(), and what an optimizer has of it
    aggregation  counts backward passes and the members of groups
    momenta      momentum of gradients that a compressor leaves dense
    primitives   what a framework brings
"""
