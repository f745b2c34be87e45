"""The lowest layer: the knobs, and the numbers of operations and reductions.

It imports the standard library only, and hvdliterun uses it on machines without a core.

    knobs         START HERE: the table of settings, and how their texts are read
    knobs_page    writes docs/reference/knobs.md
    variables     decides which other variables of the environment mean something
    operations    the rows of the operations
    ops           the reductions
    bundle        the files that ranks write about themselves, for `hvdlite explain`
    processors    decides whether other programs use the ranks' cores
    untrusted     reads files and texts that may be broken or hostile
    private_file  writes files that only their owner can read
    mailbox       items from one thread to another one that waits in select()
"""
