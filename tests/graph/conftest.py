"""Kernels of these tests are compiled as those of the convolution tests are."""

from conv.conftest import quick_kernels, shipped_kernels

__all__ = ["quick_kernels", "shipped_kernels"]
