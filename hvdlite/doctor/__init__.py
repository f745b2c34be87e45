"""`hvdlite doctor train.py`: what a program that was written for Horovod will find different with hvdlite.

    reading (what the program says) ──► checks (against surface, settings, advice) ──► report

Programs are parsed, never run, and neither they nor hvdlite's adapters are imported: no framework has to be installed here.
"""
