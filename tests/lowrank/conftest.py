"""Kernels compiled quickly, for layers of low rank."""

from conv.conftest import quick_kernels

__all__ = ["quick_kernels"]
