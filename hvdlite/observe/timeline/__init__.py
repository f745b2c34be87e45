"""`hvdlite timeline merge`: the timelines of all ranks, and profilers' traces, as one trace."""
