"""Strings of loops: what blocks of a convolution lie in buffers, and how often these are read.

A string names loops from the innermost to the outermost, each with how much of its axis it covers
together with the loops inside it: ``Fw Fh X=8 Y=8 C=16 K=16 C K X Y``. A letter alone covers the
rest. It is the notation of Yang and others, "A systematic approach to blocking convolutional neural
networks" (2016), which lectures took over: Fw and Fh are the taps, X and Y the outputs of a row
and a column, C the channels, K the filters, N the images.

A loop that an operand does not depend on uses it again, and what the loops inside it touch is
worth a buffer: K one of inputs (IB), X, Y and N one of weights (KB), C, Fw and Fh one of outputs
(OB). The data come into it anew for each turn of a loop outside that changes them, with the rows
and columns that neighbouring blocks of inputs share. What is read of a buffer over what comes into
it is its *re-fetch rate*: how often a number is used while it is there. An output is read and
written, which counts twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from winogen.errors import InvalidValue
from winogen_lab.loops.caches import Cache, Step, walked
from winogen_lab.loops.registers import columns_below
from winogen_lab.loops.traffic import AXES, Sizes

OPERANDS = ("inputs", "weights", "outputs")
_BUFFERS = dict(zip(OPERANDS, ("IB", "KB", "OB")))
_REUSED_BY = {"inputs": {"K"}, "weights": {"X", "Y", "N"}, "outputs": {"C", "Fw", "Fh"}}
_WINDOW = ("Fw", "Fh", "X", "Y")  # axes whose turns share inputs
_PAGE = 4096  # operands begin at whole pages
_LOOP = re.compile(r"(Fw|Fh|[XYCKN])(?:_?[0-9]+)?(?:=([0-9]{1,9}))?")


@dataclass(frozen=True)
class Loop:
    """A loop of a string: it covers ``extent`` of an axis in steps of what is inside it."""

    axis: str
    step: int
    extent: int

    def __str__(self) -> str:
        return f"{self.axis}={self.extent}"


@dataclass(frozen=True)
class Buffer:
    """What the loops inside of ``loop`` touch of an operand."""

    name: str
    operand: str
    loop: Loop
    bytes: int
    words: int  # that come into it, all in all
    rate: float  # accesses for each of these


def parse(text: str, layer: Sizes) -> list[Loop]:
    """Return the loops of a string, without those of one turn.

    Raises InvalidValue for unknown letters, blocks that do not grow, and axes that are not covered.

    >>> layer = Sizes(1, 8, 4, (3, 3), (10, 10))
    >>> [str(loop) for loop in parse("Fw Fh X0=4 C K Y X1", layer)]
    ['Fw=3', 'Fh=3', 'X=4', 'C=8', 'K=4', 'Y=10', 'X=10']
    """
    covered, loops = dict.fromkeys(AXES, 1), []
    for word in text.split():
        found = _LOOP.fullmatch(word)
        if found is None:
            raise InvalidValue(
                f"string: got {word[:20]!r}; allowed: {', '.join(AXES)}, or one as X=8"
            )
        axis, size = found[1], found[2]
        inside, whole = covered[axis], layer.extents[axis]
        extent = whole if size is None else int(size)
        if not inside <= extent <= whole:
            raise InvalidValue(
                f"string: got {word!r}; allowed: from {inside}, what is inside, "
                f"to {whole}, the layer's"
            )
        if extent > inside:
            loops.append(Loop(axis, inside, extent))
        covered[axis] = extent
    for axis, whole in layer.extents.items():
        if covered[axis] < whole:
            raise InvalidValue(
                f"string: got {covered[axis]} of {whole} along {axis}; allowed: another {axis}, "
                "for the rest"
            )
    return loops


def buffers(loops: Sequence[Loop], layer: Sizes) -> list[Buffer]:
    """Return the buffers of a nest, the innermost first.

    >>> layer = Sizes(1, 8, 4, (1, 1), (10, 10))
    >>> for one in buffers(parse("X=5 C K X Y", layer), layer):
    ...     print(one.name, one.loop, one.bytes, one.words, one.rate)
    KB0 X=5 4 640 5.0
    OB0 C=8 20 400 16.0
    IB0 K=4 160 800 4.0
    KB1 X=10 128 32 20.0
    """
    found: list[Buffer] = []
    inner = dict.fromkeys(OPERANDS, layer.products)  # accesses of the buffer inside
    for place, loop in enumerate(loops):
        for operand, reused in _REUSED_BY.items():
            again = place > 0 and loops[place - 1].axis in reused
            if loop.axis not in reused or again:
                continue
            number = sum(one.operand == operand for one in found)
            words = _words(loops, place, layer, operand)
            accesses = inner[operand] * (2 if operand == "outputs" else 1)
            size = _block(loops[:place], layer, operand) * layer.itemsize
            name = f"{_BUFFERS[operand]}{number}"
            found.append(Buffer(name, operand, loop, size, words, accesses / words))
            inner[operand] = words
    return found


def behind(loops: Sequence[Loop], layer: Sizes, room: int) -> dict[str, int]:
    """Return the bytes that come from behind a cache that drops what was used longest ago.

    ``room``: its bytes. What the innermost loops touch stays as far as all of it fits, for the next
    turn of the loop around them, too: so do the rows or columns that this turn shares with the one
    before. Sums are counted once for each way into the cache.

    >>> layer = Sizes(1, 64, 64, (3, 3), (56, 56))
    >>> behind(parse("Fw Fh X=8 Y=8 C=16 K=16 C K X Y", layer), layer, 32 << 10)
    {'inputs': 5017600, 'weights': 7225344, 'outputs': 802816}
    """
    place = max(
        inside
        for inside in range(len(loops) + 1)
        if turn(loops[:inside], layer) <= room or not inside
    )
    return {name: _words(loops, place, layer, name, True) * layer.itemsize for name in OPERANDS}


def turn(inside: Sequence[Loop], layer: Sizes) -> int:
    """Return the bytes of all that some loops touch, which is one turn of the loop around them."""
    return sum(_block(inside, layer, name) for name in OPERANDS) * layer.itemsize


def simulated(
    loops: Sequence[Loop],
    layer: Sizes,
    caches: Sequence[Cache],
    layout: str = "packed",
    hilbert: bool = False,
) -> list[dict[str, int]]:
    """Return the bytes of the lines that miss each cache, by operand, product by product.

    A product uses one number of each. ``layout``: *packed*, as the loops walk, but for rows and
    columns of inputs, which blocks share and which lie around the innermost loop over channels; or
    NHWC or NCHW, and weights as taps, channels and filters, the last side by side. ``hilbert``: the
    two outermost loops, X and Y, follow Hilbert's curve. Raises InvalidValue where they are others.
    """
    numbers = _packed(loops, layer) if layout == "packed" else _plain(loops, layer, layout)
    first, starts = 0, []
    for moves in numbers:
        starts.append(first)
        most = sum(step * (turns - 1) for step, turns in zip(moves, _turns(loops)))
        first += -(-(most + 1) * layer.itemsize // _PAGE) * _PAGE
    steps = [
        Step(AXES.index(loop.axis), loop.step, (*(one * layer.itemsize for one in moves),))
        for loop, moves in zip(loops, zip(*numbers))
    ]
    whole = list(layer.extents.values())
    parts = [(whole, starts)]
    if hilbert:
        parts = _along_hilbert(loops, steps, whole, starts)
        steps = steps[:-2]
    found = walked(caches, steps[::-1], parts)
    return [
        {name: lines * cache.line for name, lines in zip(OPERANDS, row)}
        for cache, row in zip(caches, found)
    ]


def _along_hilbert(
    loops: Sequence[Loop], steps: Sequence[Step], whole: list[int], starts: list[int]
) -> list[tuple[list[int], list[int]]]:
    """Extents and first bytes of the tiles of the two outermost loops, as the curve has them."""
    if {loop.axis for loop in loops[-2:]} != {"X", "Y"}:
        axes = " ".join(loop.axis for loop in loops[-2:])
        raise InvalidValue(f"hilbert: got {axes}; allowed: X and Y as the two outermost loops")
    parts = []
    for tile in hilbert_curve(*_turns(loops[-2:])):
        extents, first = list(whole), list(starts)
        for at, loop, step in zip(tile, loops[-2:], steps[-2:]):
            extents[step.axis] = min(loop.step, loop.extent - at * loop.step)
            first = [byte + at * move for byte, move in zip(first, step.bytes)]
        parts.append((extents, first))
    return parts


def hilbert_curve(wide: int, high: int) -> list[tuple[int, int]]:
    """Return all places of a rectangle as Hilbert's curve through a square around it has them.

    >>> hilbert_curve(2, 2), len(hilbert_curve(7, 5))
    ([(0, 0), (0, 1), (1, 1), (1, 0)], 35)
    """
    side = 1
    while side < max(wide, high):
        side *= 2
    places = (_place(side, at) for at in range(side * side))
    return [(x, y) for x, y in places if x < wide and y < high]


def _place(side: int, at: int) -> tuple[int, int]:
    """Where a curve through side x side places is after so many steps."""
    x = y = 0
    size = 1
    while size < side:
        right = at // 2 & 1
        up = (at ^ right) & 1
        if not up:
            if right:
                x, y = size - 1 - x, size - 1 - y
            x, y = y, x
        x, y, at, size = x + size * right, y + size * up, at // 4, 2 * size
    return x, y


def _turns(loops: Sequence[Loop]) -> list[int]:
    """How often each loop turns, at most."""
    return [-(-loop.extent // loop.step) for loop in loops]


def _plain(loops: Sequence[Loop], layer: Sizes, layout: str) -> list[list[int]]:
    """How far each loop moves inputs, weights and outputs that lie as arrays."""
    image = _steps(layout, layer.channels, *layer.input)
    result = _steps(layout, layer.filters, *layer.output)
    taps = layer.channels * layer.filters
    axes: list[dict[str, int]] = [
        {"Fw": image["X"], "Fh": image["Y"], "X": image["X"] * layer.stride[1],
         "Y": image["Y"] * layer.stride[0], "C": image["C"], "N": image["N"]},
        {"Fw": taps, "Fh": taps * layer.kernel[1], "C": layer.filters, "K": 1},
        {"X": result["X"], "Y": result["Y"], "K": result["C"], "N": result["N"]},
    ]  # fmt: skip
    return [[one.get(loop.axis, 0) * loop.step for loop in loops] for one in axes]


def _packed(loops: Sequence[Loop], layer: Sizes) -> list[list[int]]:
    """The same for operands that lie as the loops walk."""
    turns = _turns(loops)
    inner = next((loop.extent for loop in loops if loop.axis == "C"), 1)
    high, wide = layer.input
    along = {"Fw": inner, "X": inner * layer.stride[1], "Fh": inner * wide,
             "Y": inner * wide * layer.stride[0]}  # fmt: skip
    images, plane = [], inner * wide * high
    for loop, count in zip(loops, turns):
        if loop.axis in along:
            images.append(along[loop.axis] * loop.step)
        elif loop.axis == "C" and loop.step == 1:
            images.append(1)
        else:
            images.append(plane if loop.axis in ("C", "N") else 0)
            plane *= count if loop.axis in ("C", "N") else 1
    others = []
    for operand in ("weights", "outputs"):
        moves, size = [], 1
        for loop, count in zip(loops, turns):
            used = loop.axis not in _REUSED_BY[operand]
            moves.append(size if used else 0)
            size *= count if used else 1
        others.append(moves)
    return [images, *others]


def _steps(layout: str, channels: int, high: int, wide: int) -> dict[str, int]:
    whole = channels * high * wide
    if layout == "NHWC":
        return {"X": channels, "Y": wide * channels, "C": 1, "N": whole}
    return {"X": 1, "Y": wide, "C": high * wide, "N": whole}


def _pieces(loops: Sequence[Loop], place: int, axis: str, layer: Sizes) -> list[int]:
    """How long the pieces of an axis are that loops outside of ``place`` make, in their order."""
    steps = [loop.step for loop in loops[place:] if loop.axis == axis]
    pieces = [layer.extents[axis]]
    for step in reversed(steps):
        pieces = [min(step, whole - at) for whole in pieces for at in range(0, whole, step)]
    return pieces


def _words(
    loops: Sequence[Loop], place: int, layer: Sizes, operand: str, shared: bool = False
) -> int:
    """How many numbers come into the buffer inside of loop ``place``.

    ``shared``: those are still there that a turn of this loop shares with the turn before.
    """
    reused, outside = _REUSED_BY[operand], place
    while outside < len(loops) and loops[outside].axis in reused:
        outside += 1  # loops that use what is there
    numbers = prod(len(_pieces(loops, outside, axis, layer)) for axis in reused)
    pieces = {axis: _pieces(loops, place, axis, layer) for axis in AXES}
    if shared and place < len(loops) and loops[place].axis in _WINDOW:
        axis = loops[place].axis
        pieces[axis] = _pieces(loops, place + 1, axis, layer)
    return numbers * _numbers(pieces, layer, operand)


def _block(inside: Sequence[Loop], layer: Sizes, operand: str) -> int:
    """How many numbers of an operand the loops touch."""
    covered = {axis: [1] for axis in AXES} | {loop.axis: [loop.extent] for loop in inside}
    return _numbers(covered, layer, operand)


def _numbers(pieces: dict[str, list[int]], layer: Sizes, operand: str) -> int:
    """How many numbers all blocks have that are made of one piece along each axis."""
    if operand == "weights":
        return prod(sum(pieces[axis]) for axis in ("Fw", "Fh", "C", "K"))
    if operand == "outputs":
        return prod(sum(pieces[axis]) for axis in ("X", "Y", "K", "N"))
    planes = sum(pieces["C"]) * sum(pieces["N"])
    for out, tap, stride in zip(("Y", "X"), ("Fh", "Fw"), layer.stride):
        planes *= sum(
            columns_below(pixels, taps, min(stride, taps))  # fewer taps leave columns out
            for pixels in pieces[out]
            for taps in pieces[tap]
        )
    return planes
