"""The API of `import hvdlite` on numpy arrays and every object with DLPack, and on Python objects.

    ops         START HERE: the operations
    framework   what numpy says to hvdlite/core/collectives.py
    objects     sends pickled objects by the collectives of arrays

Nothing here imports a framework.
"""
