"""Predicts the step time and the efficiency of a job that does not exist yet.

    hvdlite simulate --model resnet50 --step 0.25s --ranks 8 64 --bandwidth 10Gbit

    predict      START HERE: the answer to one question
    cli          the command: asks, prints a table or JSON; --calibrate measures a network
    options      its options
    units        texts such as 10Gbit and 25us
    models       the table of models: their layers, tensors and arithmetic
    schedule     gradients: bytes, when each is ready, and which travel together
    timeline     the schedule that a recorded timeline shows
    cluster      what connects the ranks
    algorithms   the time of an allreduce by each algorithm
    choice       which algorithm runs, as csrc/comm/choose.h decides

Nothing here imports a framework, and nothing but --calibrate measures.
docs/guides/planning.md explains the questions and the answers.
"""
