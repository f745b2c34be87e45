"""The ranks compare what they have: gradients, parameters, metrics.

What decides knows numbers and no tensors.

    presence_exchange  START HERE: which gradients the ranks have, in each step
    presence           DECIDES what follows from it
    divergence         parameters before the first step, names, metrics
    drift_guard        parameters while the ranks train
    drift              DECIDES what the guard compares, and when
    finite             DECIDES where NaN and Inf began
"""
