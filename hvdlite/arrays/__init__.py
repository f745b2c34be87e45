"""hvdlite's functions on numpy arrays and on everything that speaks DLPack."""
