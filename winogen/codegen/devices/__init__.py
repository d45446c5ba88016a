"""Kernels of devices: records of statements, and printers that spell them in OpenCL C, CUDA, WGSL
and C.
"""
