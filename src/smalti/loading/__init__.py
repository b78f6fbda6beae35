"""Batches for training: rows in a new order every epoch, shared out among processes, resumed exactly.

No framework is imported here; PyTorch, JAX and others are handed NumPy arrays or Arrow tables.
"""
