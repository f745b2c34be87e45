"""The API of `import hvdlite` on numpy arrays and every object with DLPack, and on Python objects:
START HERE with `ops`. `framework` is what it says to hvdlite/core/collectives.py, and `objects`
sends pickled objects by the collectives of arrays."""
