"""hvdlite's functions on numpy arrays and on every object with DLPack."""
