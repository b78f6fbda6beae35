"""The compiled kernels: they own memory and loops; names, arguments and docs are owned by the Python above.

Each module has a hand-written stub beside it, checked by stubtest. Nothing here does IO.
"""
