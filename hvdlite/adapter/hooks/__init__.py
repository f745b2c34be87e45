"""Reduces gradients one by one, as autograd completes them (torch).

A hook per parameter submits its gradient during the backward pass, and step() waits for all.

    reducer      START HERE: the hooks and synchronize()
    shared       an optimizer's options and its reducer
    aggregation  counts backward passes and the members of groups
    momenta      momentum of gradients that a compressor leaves dense
    primitives   what a framework brings
"""
