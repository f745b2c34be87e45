"""The ranks compare what they have: gradients, parameters, objects.

presence_exchange  START HERE: in each step, which gradients the ranks have
presence           DECIDES what follows from it
divergence         parameters, names and metrics before they are used
drift_guard        parameters while the ranks train
array_guard        the same for arrays, and for loops of the program's own
drift              DECIDES what the guard compares, and when
finite             DECIDES where NaN and Inf began
"""
