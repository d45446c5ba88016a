"""Examples compile kernels quickly, as the convolution tests do, into a cache that is kept."""

from conv.conftest import quick_kernels

__all__ = ["quick_kernels"]
