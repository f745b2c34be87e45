"""Predicts the step time and the efficiency of a job that does not exist yet.

    hvdlite simulate --model resnet50 --step 0.25s --ranks 8 64 --bandwidth 10Gbit

No file here measures anything but `calibrate`, and nothing here imports a framework.

    units       texts such as 10Gbit and 25us
    models      the table of models: their layers, tensors and arithmetic
    schedule    gradients: bytes, and when each is ready       timeline reads a recorded one
    cluster     what connects the ranks
    algorithms  the time of an allreduce by each algorithm     choice: which one runs
    fusion      which gradients travel together
    step        one step: gradients, batches and the network against the clock
    jitter      how late the slowest of many ranks is
    predict     all of it for one question                     report, cli

docs/guides/planning.md explains the questions and the answers.
"""
