"""bench: layer sets, the limits of the machine, rivals, and a report of who is how fast."""

from winogen.toolchain.limits import Limits, measure_limits

from .layers import BenchLayer, layer_sets, load_layers
from .runner import Settings, run

__all__ = [
    "BenchLayer",
    "Limits",
    "Settings",
    "layer_sets",
    "load_layers",
    "measure_limits",
    "run",
]
