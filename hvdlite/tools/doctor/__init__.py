"""`hvdlite doctor train.py`: what differs with hvdlite for a program that was written for Horovod.

    reading (what the program says) ──► checks (against surface, settings, advice) ──► report

The doctor parses programs and never runs them. It imports neither the programs nor hvdlite's
adapters, so no framework has to be installed.
"""
