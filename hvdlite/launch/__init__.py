"""Starts the processes of a job and watches over them; never sees a tensor.

    cli ──► plan (who is which rank) ──► spawn (start them) ──► watch (until the end)
                                                                  └─ output (their lines)

`environment` is the other side: from within a process it tells which rank this is. Nothing in here imports
the native core or a framework, so that `hvdliterun --help` works on a login node.
"""
