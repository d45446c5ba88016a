"""bench: who computes a layer how fast: rivals and winogen in turns, and reports of it."""

from winogen.lab.bench.runner import Settings, run

__all__ = ["Settings", "run"]
