"""The driver of an elastic job: which processes are in which generation.

START HERE: `events` lists what the driver hears and what it is told to do; `membership` decides.
"""
