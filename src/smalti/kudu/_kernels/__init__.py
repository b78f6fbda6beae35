"""Kudu's compiled kernels: each owns one encoding's loop, takes buffers and gives bytes, and knows no file."""
