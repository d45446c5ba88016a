"""The layer that tests of the benchmark use, too."""

from lab.conftest import tiny

__all__ = ["tiny"]
