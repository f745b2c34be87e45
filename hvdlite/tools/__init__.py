"""Commands for people. Nothing in hvdlite imports them.

commands    START HERE: the command `hvdlite`; its part `top` shows a running job
doctor      reads programs written for Horovod and says what differs
simulate    predicts the steps of jobs that do not exist yet
"""
