"""The numbers that fit a kernel to a machine, and where each set of them comes from."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

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

# What the product may fetch ahead of its use, as bits of `Tuning.prefetch_streams`: A, read as
# single numbers; B, read as vectors; the outputs; or the next block of B, evenly while the present
# one is multiplied. The last takes the place of B, and its distance.
STREAMS = {"none": 0, "A": 1, "B": 2, "both": 3, "output": 4, "next": 8}


Sizes = tuple[tuple[str, int], ...]  # fields of a `Tuning` by name


@dataclass(frozen=True)
class Tuning:
    """Sizes of one variant's blocks for one target and precision.

    The first fields are compiled in; the C of a kernel lists the fields it uses, in the words of
    `MEANS`. The others are read when a call is planned.
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
    prefetch: int = 8192  # bytes ahead of the operands of the product that are read
    prefetch_streams: int = STREAMS["B"] | STREAMS["output"]
    prefetch_level: int = 2  # of the caches: where operands are fetched to
    prefetch_output: int = 0  # bytes ahead of the outputs that are made
    output_level: int = 1  # of the caches: where outputs are fetched to
    # At run time.
    depth: int = (
        512  # terms (of Winograd: channels) summed in registers before they join other sums
    )
    many_channels: int = 1 << 40  # up to which sums have half the depth
    # Bytes of outputs from which stores go past the caches.
    non_temporal: int = 3 << 20

    def with_sizes(self, sizes: Sizes) -> Tuning:
        """Return the same but for ``sizes``, which replace its own for one layer.

        The provenance names the compiled-in fields.

        >>> tuned = Tuning("by hand", rows=6, vectors=2).with_sizes((("rows", 4), ("depth", 64)))
        >>> tuned.rows, tuned.vectors, tuned.depth, tuned.provenance
        (4, 2, 64, 'tuned: rows; else by hand')
        """
        if not sizes:
            return self
        compiled = ", ".join(name for name, _ in sizes if name not in AT_RUN_TIME)
        origin = f"tuned: {compiled}; else {self.provenance}" if compiled else self.provenance
        numbers: dict[str, Any] = dict(sizes)
        return replace(self, provenance=origin, **numbers)

    def fetches(self, stream: str) -> bool:
        """Whether all of a stream is fetched ahead of its use.

        >>> Tuning("by hand").fetches("B"), Tuning("by hand").fetches("both")
        (True, False)
        """
        return self.prefetch_streams & STREAMS[stream] == STREAMS[stream]

    @property
    def compiled(self) -> Tuning:
        """The same without the fields that are read at run time: they make no other kernel."""
        defaults: dict[str, Any] = {name: _DEFAULTS[name] for name in AT_RUN_TIME}
        return replace(self, **defaults)


_DEFAULTS = {field.name: field.default for field in fields(Tuning)}
# The names of all sizes, and of the sizes among them that no kernel has compiled in.
SIZES = tuple(name for name in _DEFAULTS if name != "provenance")
PREFETCHING = (
    "prefetch",
    "prefetch_streams",
    "prefetch_level",
    "prefetch_output",
    "output_level",
)
AT_RUN_TIME = ("depth", "many_channels", "non_temporal")
