"""The layer that tests of the benchmark use, too."""

from laboratory.conftest import tiny

__all__ = ["tiny"]
