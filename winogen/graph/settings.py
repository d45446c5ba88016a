"""What all steps of a segment have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace

from winogen.kernels.spec import KernelSpec
from winogen.records import Machine, Target


@dataclass(frozen=True)
class Settings:
    """What all steps of a segment have in common."""

    layout: str
    dtype: str
    threads: int
    tolerance: float | None
    algorithm: str
    target: Target
    machine: Machine
    most_error: float | None = None  # predicted, of any step, where there is a way
    # Kernels preferred to faster ones that might have to be compiled; None for no such.
    familiar: frozenset[KernelSpec] | None = None
    workspace_limit: int | None = None  # bytes that each layer computes in
    filter_dtype: str | None = None  # what packed filters are stored in, where kernels have it
    strips: bool = True  # whether steps may run strip by strip, see `winogen.graph.chains`
    # Whether maps are pieces of signals, whose numbers have the bits of the whole: see `streaming`.
    pieces: bool = False
    tolerances: tuple[tuple[str, float], ...] = ()  # of single layers, by what they make

    def of(self, layer: str) -> Settings:
        """Return the settings of the layer that makes this."""
        if not self.tolerances:
            return self
        tolerance = dict(self.tolerances).get(layer, self.tolerance)
        return replace(self, tolerance=tolerance, tolerances=())
