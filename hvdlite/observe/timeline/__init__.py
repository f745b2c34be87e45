"""`hvdlite timeline merge`: the timelines of all ranks as one trace on one clock.

merging   START HERE: one trace from those of all ranks; compares their clocks
reading   a rank's timeline, from its file
cli       the command; adds what a framework's profiler has recorded
"""
