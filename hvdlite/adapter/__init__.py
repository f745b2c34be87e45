"""What all adapters share: every operation, gradient rule and policy, once, over a Framework of
primitives. `hvdlite/torch`, `tensorflow`, `jax` and `keras` bring the primitives and the
signatures.

Two roads lead from a rank's gradients to those of all ranks. torch computes gradients one by one
and takes `hooks`; TensorFlow, Keras and JAX have all gradients of a step and take `at_once`.

    step         START HERE: what a program asks for, checked; then hooks or at_once
    hooks        a gradient is reduced as soon as autograd has computed it
    at_once      all gradients of a step are reduced together, also in a compiled program
    compression  what is sent instead of a gradient, on both roads
    agreement    which gradients the ranks have, and whether their parameters differ
    strategy     hvd.Strategy: all choices in one object
    local        training that sends weights instead of gradients, and sufficient factors
    names        the names of an optimizer's gradients
    elastic      whether the job is elastic
    announcing   prints a line on one rank
    containers   maps the tensors of a state_dict
    failures     an error that a framework's runtime has made a text
    interrupts   Ctrl-C inside a graph or a compiled program
    pool         gradients in memory that the ranks of a host share
    xla          collectives in programs that XLA compiles
"""
