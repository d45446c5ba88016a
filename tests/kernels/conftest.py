"""Kernels that these tests run are compiled as those of the convolution tests are."""

from conv.conftest import quick_kernels

__all__ = ["quick_kernels"]
