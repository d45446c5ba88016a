"""The numbers that fit a kernel to a machine, and where each set of them comes from."""

from __future__ import annotations

from dataclasses import dataclass

# What each number of a `Tuning` is, as the C says it.
MEANS = {
    "rows": "rows of the register block",
    "vectors": "vectors of a row of the register block",
    "chains": "chains of additions of every sum",
    "band": "vectors of filters that one position goes through before the next",
    "pixels": "outputs of a row in the register block",
    "tiles": "tiles in the register block",
    "pair": "filters that share what is loaded of V",
    "few": "channels, at most",
}


@dataclass(frozen=True)
class Tuning:
    """Sizes of one variant's blocks for one target and precision.

    The first fields are compiled in; the C of a kernel lists those that it uses, in the words of
    `MEANS`.
    The others are read when a call is planned.
    """

    provenance: str  # who chose them, on which machine
    rows: int = 0
    vectors: int = 0
    chains: int = 1
    band: int = 16
    pixels: int = 0
    tiles: int = 2
    pair: int = 2
    few: int = 8
    prefetch: int = 8192  # bytes ahead of the packed filters that are read
    # At run time.
    depth: int = (
        512  # terms (of Winograd: channels) summed in registers before they join other sums
    )
    many_channels: int = 1 << 40  # up to which the chains share the depth
    # Bytes of outputs from which stores go past the caches.
    non_temporal: int = 3 << 20
