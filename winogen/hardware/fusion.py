"""Two layers in a row: outputs of tiles go to the next input transform without leaving the chip.

A tile of the next layer sees r - 1 rows and columns of its neighbours' outputs, the halo. The
thesis fuses both transforms and leaves the halo open. Here it is kept, not computed again: a tile
of the next layer is transformed as soon as the last tile that it sees is done, and rows of outputs
stay until no tile needs them any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winogen.errors import Unsupported

if TYPE_CHECKING:
    from winogen.hardware.mapping import Mapping


@dataclass(frozen=True)
class Fusion:
    """When tiles of the next layer are transformed, and what is held until then."""

    lag: tuple[int, int]  # rows and columns of tiles that have to be done beyond the tile itself
    rows: int  # of outputs of each channel, in a ring
    width: int  # of a row
    channels: int
    last: tuple[int, int]  # tile of the first layer

    @property
    def words(self) -> int:
        """What the ring holds."""
        return self.channels * self.rows * self.width

    def after(self, row: int, column: int) -> tuple[int, int]:
        """Return the tile of the first layer after which a tile of the next is transformed."""
        down, right = self.lag
        return min(row + down, self.last[0]), min(column + right, self.last[1])


def fused(first: Mapping, second: Mapping) -> Fusion:
    """Return how the outputs of a layer meet the input transform of the next one.

    Tiles are computed row by row, all channels of one before the next, by the schedule "OS". Raises
    Unsupported unless both layers are transformed along both axes, the second in one piece, and the
    outputs of the first are the inputs of the second.

    >>> from winogen.hardware import Engine
    >>> layer = Engine(16, 4, 16, 2).mapping((1, 64, 56, 56), (64, 64, 3, 3), padding=1)
    >>> fusion = fused(layer, layer)
    >>> fusion.lag, fusion.rows, fusion.words, fusion.after(0, 0)
    ((1, 1), 5, 17920, (1, 1))
    """
    if first.engine != second.engine:
        raise Unsupported(f"second: got {second.engine}; allowed: the engine of the first layer")
    for name, one in (("first", first), ("second", second)):
        if min(part.taps for part in one.parts) == 1:
            raise Unsupported(
                f"{name}: got a layer of {one.problem.layer.weight_shape} that is not transformed "
                "along both axes; allowed: one that is"
            )
    layer, out = second.problem.layer, first.problem
    if second.pieces > 1 or max(*layer.stride, *layer.dilation) > 1:
        raise Unsupported(
            f"second: got {second.pieces} pieces of {layer.weight_shape}; allowed: one, of stride "
            "and dilation 1"
        )
    seen = (second.problem.batch, layer.channels, *second.problem.size)
    outputs = (out.batch, out.layer.filters, *first.map)
    if seen != outputs:
        raise Unsupported(f"second: got inputs {seen}; allowed: the outputs {outputs} of the first")
    if max(out.layer.dilation) > 1:
        raise Unsupported(f"first: got dilation {out.layer.dilation}; allowed: 1")
    m = first.engine.m
    reach = first.engine.m + first.engine.r - 2  # from the first to the last input of a tile
    down, right = ((reach - axis.before) // m for axis in layer.plane)
    tall, wide = first.parts
    return Fusion(
        lag=(down, right),
        rows=(down + 1) * m + layer.plane[0].before,
        width=first.map[1],
        channels=layer.channels,
        last=(tall.tiles - 1, wide.tiles - 1),
    )
