"""bench: layer sets, the limits of the machine, rivals, and a report of who is how fast."""

from winogen.bench.layers import BenchLayer, layer_sets, load_layers
from winogen.bench.runner import Settings, run
from winogen.toolchain.limits import Limits, measure_limits

__all__ = [
    "BenchLayer",
    "Limits",
    "Settings",
    "layer_sets",
    "load_layers",
    "measure_limits",
    "run",
]
