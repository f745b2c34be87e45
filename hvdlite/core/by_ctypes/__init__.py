"""The native core through ctypes, for ../../_core.py.

interface     START HERE: the functions and structures of hvdlite.h, and its errors
tensors       borrows the memory of a Python object without knowing its framework
operations    submits operations and waits for them
device_array  a result on a GPU, for every framework's from_dlpack()
"""
