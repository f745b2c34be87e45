"""`hvdlite doctor train.py`: what differs with hvdlite for a program that was written for Horovod.

    examination  START HERE: files in, findings out; `--fix` changes imports
    reading      what a program says about Horovod: imports, names, calls, variables
    checks       says what each of them means with hvdlite
    surface      which of Horovod's names hvdlite has, by its sources
    advice       tables: what Horovod has, what differs, which variables have no effect
    variables    says what an environment variable of Horovod means
    libraries    Horovod inside other libraries, such as Lightning's strategy; torch-ccl
    training     hints about a whole program, such as data that are the same on each rank
    findings     a finding, as text and as JSON

The doctor parses programs and never runs them. It imports neither the programs nor hvdlite's
adapters, so no framework has to be installed.
"""
