"""The nets of the benchmark as winogen asks for them: the entry point ``winogen.nets``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from winogen.tuning.layers import BenchLayer
from winogen_lab import nets

NAMES, TRAINED = tuple(nets.NETS), nets.TRAINED


def layers(name: str) -> list[BenchLayer]:
    """Return the convolutions of a net; raises NotInstalled for what it needs."""
    from winogen_lab.nets.layers import layers_called

    return layers_called(name)


def quality(name: str, progress: Callable[[int, int, str], None]) -> dict[str, Any]:
    """Measure what number formats do to the output of a trained net."""
    from winogen_lab.nets import quality

    return quality.measure_quality(name, progress=progress)
