"""Operations and their gradients, once for all frameworks.

A framework's adapter implements the primitives of `framework`, and calls `collectives`.

    collectives   START HERE: runs and starts operations on a framework's tensors
    framework     the primitives of a framework, as a protocol
    operations    a call of an operation, and what its row decides
    gradients     decides the gradients of operations
    engine        the adapters' only door to the native core
    plans         a group of the same tensors again and again
    handles       results that are not there yet: poll() and synchronize()
    process_sets  subsets of the ranks
    arrays        the API on numpy and DLPack arrays, and on objects
    by_ctypes     the native core for Pythons without a compiled module, for ../_core.py
"""
