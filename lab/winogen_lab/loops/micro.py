"""The micro-kernels: what happens to a register block of outputs, as statements.

Each reads inputs and packed filters where `Places` says, and adds to sums in registers. Names: v
counts rows, j pixels (or vectors of them), i filters (or vectors of them), l lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from winogen_lab.loops.nest import (
    Add,
    Affine,
    Body,
    Fma,
    For,
    Guard,
    HAdd,
    Inside,
    Let,
    Load,
    Node,
    Permute,
    Reg,
    Store,
    Symbol,
    Unscramble,
    substituted,
)
from winogen_lab.loops.parameters import Pair, Strategy, meetings

ROW, PIXEL, FILTER, LANE = map(Affine.of, "vjil")


@dataclass(frozen=True)
class Places:
    """Where the operands of a register block lie."""

    kind: Strategy
    rows: int
    pixels: int
    filters: int
    lanes: int
    block: int  # lanes in 16 bytes
    filters_left: Affine | None  # M - m, where blocks of filters may be cut short
    rows_left: Affine | None  # the same of output rows
    columns_left: Affine | None  # and columns
    channels_left: Affine | None  # the same of the last vector of channels
    position: Affine  # the first pixel's column in the input
    steps: Pair  # from one row and pixel to the next, in rows and columns of the input
    spread: Pair  # the same from one tap to the next
    taps: Pair  # taps whose filters stay in registers, down and across
    width: int  # columns of the input
    image: Callable[[Affine, Affine], tuple[str, Affine]]  # (pixel, channel) -> array, address
    pitch: Pair  # from one row and column of the input to the next in memory
    pixel_stride: int  # from one pixel to the next
    kernel: Callable[[Affine, Affine], tuple[str, Affine]]  # (filter, channel) -> array, address
    output: Callable[[Affine, Affine], tuple[str, Affine]]  # (filter, pixel) -> array, address
    output_row: int  # from one row of the sums to the next in memory
    writes: bool  # whether sums are complete, so that outputs need not be read
    by_pixel: bool  # whether neighbours in the memory of the sums are filters

    def sum(self, row: Affine, pixel: Affine) -> Reg:
        """The sum of a filter for a pixel of a row."""
        return Reg("sum", (row * self.pixels + pixel, FILTER))

    def each_row(self, *body: Node) -> Body:
        """Return statements for the rows of the register block that there are."""
        return register_loop("v", self.rows, *_guarded(self.rows_left, ROW, *body))


def register_loop(index: str, count: int, *body: Node) -> Body:
    """Return a loop over registers; none if there is one."""
    if count == 1:
        return tuple(_first(node, index) for node in body)
    return (For(index, Affine(), (Affine(count),), 1, body, "register"),)


def _first(node: Node, index: str) -> Node:
    result: Node = substituted(node, {index: 0}, {})
    return result


def _guarded(left: Affine | None, index: Affine, *body: Node) -> Body:
    """Statements for pixel or filter `index`, unless that is one too many."""
    return body if left is None else (Guard((left - index - 1,), body),)


def _lanes_left(left: Affine | None, first: Affine) -> Affine | None:
    return None if left is None else left - first


def start(p: Places) -> Body:
    """Return the declaration of the sums and what they begin with."""
    kind, shape = p.kind, (p.pixels, p.filters)
    if kind.meet == "dot":
        return (Let(Symbol("sum", "vector", shape), zero=True),)
    if kind.meet == "permuted":
        return (Let(Symbol("sum", "vector", (*shape, p.lanes)), zero=True),)
    if kind.lanes == "W":
        lanes = p.lanes
        address = p.output(FILTER, PIXEL * lanes)
        load = Load(
            Reg("sum", (PIXEL, FILTER)), *address, some=_lanes_left(p.columns_left, PIXEL * lanes)
        )
        bias = _bias(p, Reg("sum", (PIXEL, FILTER)), FILTER, "broadcast")
        first = _guarded(p.filters_left, FILTER, bias if p.writes else load)
        return (
            Let(Symbol("sum", "vector", shape), zero=p.filters_left is not None),
            *register_loop("i", p.filters, *register_loop("j", p.pixels, *first)),
        )
    pixels = _pixels(p)
    filter_, left = FILTER * p.lanes, _lanes_left(p.filters_left, FILTER * p.lanes)
    to = p.sum(ROW, PIXEL)
    sums = Symbol("sum", "vector", (p.rows * pixels, p.filters))
    if p.writes:
        first = (_bias(p, to, filter_, "vector"),)
        each = register_loop("j", pixels, *register_loop("i", p.filters, *first))
        return (Let(sums), *register_loop("v", p.rows, *each))
    array, first_row = p.output(filter_, PIXEL)
    load = Load(to, array, first_row + ROW * p.output_row, some=left)
    first = _guarded(p.columns_left, PIXEL, load)
    ragged = p.columns_left is not None or p.rows_left is not None
    each = register_loop("j", pixels, *register_loop("i", p.filters, *first))
    return (Let(sums, zero=ragged), *p.each_row(*each))


def _pixels(p: Places) -> int:
    """Rows of sums: one for each pixel."""
    return p.pixels * (p.lanes if p.kind.along == "W" else 1)


def _bias(p: Places, to: Reg, filter_: Affine, kind: str) -> Load:
    some = _lanes_left(p.filters_left, filter_) if kind == "vector" else None
    return Load(to, "bias", Affine.of("m") + filter_, kind, some=some)


def update(p: Places, masked: bool) -> Body:
    """Return the statements of one tap and one step of channels."""
    if p.kind.resident:
        return _resident(p, masked)
    return _UPDATES[p.kind.meet if p.kind.lanes != "W" else "pixels"](p, masked)


def _inside(p: Places, masked: bool, pixel: Affine) -> Inside | None:
    step = p.steps[1]
    return Inside(p.position + pixel * step, step, p.width) if masked else None


def _dot(p: Places, masked: bool) -> Body:
    zero, one = Affine(), Reg("filter", (FILTER,))
    return (
        Let(Symbol("filter", "vector", (p.filters,))),
        *register_loop("i", p.filters, Load(one, *p.kernel(FILTER, zero))),
        *register_loop(
            "j",
            p.pixels,
            Let(Symbol("pixel", "vector")),
            # One run of neighbours: all of it inside, or none.
            Load(Reg("pixel"), *p.image(PIXEL, zero), inside=_inside(p, masked, PIXEL),
                 some=p.channels_left),
            *register_loop(
                "i", p.filters, Fma(Reg("sum", (PIXEL, FILTER)), Reg("pixel"), one)
            ),
        ),
    )  # fmt: skip


def _filter_vectors(p: Places, channel: Affine) -> Body:
    return (
        Let(Symbol("filter", "vector", (p.filters,))),
        *register_loop(
            "i",
            p.filters,
            Load(Reg("filter", (FILTER,)), *p.kernel(FILTER * p.lanes, channel)),
        ),
    )


def _broadcast(p: Places, masked: bool) -> Body:
    array, address = p.image(PIXEL, Affine())
    address += ROW * (p.steps[0] * p.pitch[0])
    each = register_loop(
        "j",
        p.pixels,
        Let(Symbol("pixel", "vector")),
        Load(Reg("pixel"), array, address, "broadcast", inside=_inside(p, masked, PIXEL)),
        *register_loop(
            "i", p.filters, Fma(p.sum(ROW, PIXEL), Reg("filter", (FILTER,)), Reg("pixel"))
        ),
    )
    return *_filter_vectors(p, Affine()), *register_loop("v", p.rows, *each)


def _resident(p: Places, masked: bool) -> Body:
    """Filters of all taps, then each number of the input once, for all that see it."""
    zero, (down, across) = Affine(), p.taps
    body: list[Node] = [
        Let(Symbol("filter", "vector", (down * across, p.filters))),
        Let(Symbol("pixel", "vector")),
    ]
    filters, address = p.kernel(FILTER * p.lanes, zero)
    for y, x in product(range(down), range(across)):
        tap = {dim: at for dim, at in zip("yx", (y, x)) if dim.upper() in p.kind.resident}
        load = Load(Reg("filter", (Affine(y * across + x), FILTER)), filters, address.at(tap))
        body += register_loop("i", p.filters, load)
    array, first = p.image(zero, zero)
    rows, columns = map(meetings, (p.rows, p.pixels), p.taps, p.steps, p.spread)
    for (r, high), (q, wide) in product(rows.items(), columns.items()):
        inside = Inside(p.position + q, 1, p.width) if masked else None
        place = first + r * p.pitch[0] + q * p.pitch[1]
        body.append(Load(Reg("pixel"), array, place, "broadcast", inside=inside))
        for (v, y), (j, x) in product(high, wide):
            filter_ = Reg("filter", (Affine(y * across + x), FILTER))
            fma = Fma(p.sum(Affine(v), Affine(j)), filter_, Reg("pixel"))
            body += register_loop("i", p.filters, fma)
    return tuple(body)


def _pixel_vectors(p: Places, masked: bool) -> Body:
    address = p.image(PIXEL * p.lanes, Affine())
    load = Load(Reg("pixel", (PIXEL,)), *address, run=1, stride=p.pixel_stride,
                inside=_inside(p, masked, PIXEL * p.lanes))  # fmt: skip
    return (
        Let(Symbol("pixel", "vector", (p.pixels,))),
        *register_loop("j", p.pixels, load),
    )


def _over_pixels(p: Places, masked: bool) -> Body:
    return (
        *_pixel_vectors(p, masked),
        *register_loop(
            "i",
            p.filters,
            Let(Symbol("filter", "vector")),
            Load(Reg("filter"), *p.kernel(FILTER, Affine()), "broadcast"),
            *register_loop(
                "j",
                p.pixels,
                Fma(Reg("sum", (PIXEL, FILTER)), Reg("pixel", (PIXEL,)), Reg("filter")),
            ),
        ),
    )


def _by_lane(p: Places, masked: bool) -> Body:
    """Vectors of inputs run along channels (C), pixels (W), or pairs of channels (WC)."""
    lanes, along = p.lanes, p.kind.along
    if along == "W":
        fma = Fma(
            Reg("sum", (PIXEL * lanes + LANE, FILTER)),
            Reg("filter", (FILTER,)),
            Reg("pixel", (PIXEL,)),
            LANE,
        )
        return (
            *_pixel_vectors(p, masked),
            *_filter_vectors(p, Affine()),
            *register_loop(
                "j",
                p.pixels,
                *register_loop("l", lanes, *register_loop("i", p.filters, fma)),
            ),
        )
    of_channels = lanes if along == "C" else 2  # channels in a vector
    pixels = lanes // of_channels  # and pixels
    loads = p.pixels // pixels
    load = Load(Reg("pixel", (PIXEL,)), *p.image(PIXEL * pixels, Affine()),
                run=0 if pixels == 1 else of_channels, stride=0 if pixels == 1 else p.pixel_stride,
                inside=_inside(p, masked, PIXEL * pixels), some=p.channels_left)  # fmt: skip
    channel = Affine.of("k")
    place = Affine.of("q")
    fma = Fma(Reg("sum", (PIXEL * pixels + place, FILTER)), Reg("filter", (FILTER,)),
              Reg("pixel", (PIXEL,)), place * of_channels + channel)  # fmt: skip
    return (
        Let(Symbol("pixel", "vector", (loads,))),
        *register_loop("j", loads, load),
        *register_loop(
            "k",
            of_channels,
            *_filter_vectors(p, channel),
            *register_loop(
                "j", loads, *register_loop("q", pixels, *register_loop("i", p.filters, fma))
            ),
        ),
    )


def _permuted(p: Places, masked: bool) -> Body:
    """All rotations of the pixels' blocks of 16 bytes meet all rotations within the filters'."""
    lanes, block = p.lanes, p.block
    rotated = tuple(
        Permute(Reg("turned", (Affine(t),)), Reg("filter"),
                tuple(lane // block * block + (lane + t) % block for lane in range(lanes)))
        for t in range(block)
    )  # fmt: skip
    meetings: list[Node] = []
    for s in range(lanes // block):
        moved = tuple((lane + s * block) % lanes for lane in range(lanes))
        meetings.append(Permute(Reg("moved"), Reg("pixel", (PIXEL,)), moved))
        meetings.append(
            For("t", Affine(), (Affine(block),), 1,
                (Fma(Reg("sum", (PIXEL, FILTER, Affine.of("t") + s * block)),
                     Reg("turned", (Affine.of("t"),)), Reg("moved")),), "register")
        )  # fmt: skip
    return (
        *_pixel_vectors(p, masked),
        *register_loop(
            "i",
            p.filters,
            Let(Symbol("filter", "vector")),
            Let(Symbol("turned", "vector", (block,))),
            Load(Reg("filter"), *p.kernel(FILTER * lanes, Affine())),
            *rotated,
            *register_loop("j", p.pixels, Let(Symbol("moved", "vector")), *meetings),
        ),
    )


_UPDATES = {
    "dot": _dot,
    "broadcast": _broadcast,
    "pixels": _over_pixels,
    "lane": _by_lane,
    "permuted": _permuted,
}


def stop(p: Places) -> Body:
    """Return the statements that write the sums."""
    kind = p.kind
    if kind.meet == "dot":
        return _stop_dot(p)
    if kind.meet == "permuted":
        return _stop_permuted(p)
    if kind.lanes == "W":
        array, address = p.output(FILTER, PIXEL * p.lanes)
        left = _lanes_left(p.columns_left, PIXEL * p.lanes)
        store = Store(array, address, Reg("sum", (PIXEL, FILTER)), some=left)
        return register_loop(
            "i", p.filters, *_guarded(p.filters_left, FILTER, *register_loop("j", p.pixels, store))
        )
    array, address = p.output(FILTER * p.lanes, PIXEL)
    left = _lanes_left(p.filters_left, FILTER * p.lanes)
    store = Store(array, address + ROW * p.output_row, p.sum(ROW, PIXEL), some=left)
    each = register_loop(
        "j", _pixels(p), *_guarded(p.columns_left, PIXEL, *register_loop("i", p.filters, store))
    )
    return p.each_row(*each)


def _stop_dot(p: Places) -> Body:
    array, address = p.output(FILTER, PIXEL)
    total = Reg("total")
    first = _bias(p, total, FILTER, "scalar") if p.writes else Load(total, array, address, "scalar")
    one: Body = (
        Let(Symbol("total", "scalar")),
        first,
        HAdd(total, Reg("sum", (PIXEL, FILTER))),
        Store(array, address, total, scalar=True),
    )
    one = _guarded(p.filters_left, FILTER, *one)
    return register_loop(
        "j", p.pixels, *_guarded(p.columns_left, PIXEL, *register_loop("i", p.filters, *one))
    )


def _stop_permuted(p: Places) -> Body:
    lanes, pixel, filter_ = p.lanes, PIXEL * p.lanes, FILTER * p.lanes
    if p.by_pixel:
        array, address = p.output(filter_, pixel + LANE)
        left, many = _lanes_left(p.filters_left, filter_), _lanes_left(p.columns_left, pixel)
        bias = _bias(p, Reg("total"), filter_, "vector")
    else:
        array, address = p.output(filter_ + LANE, pixel)
        left, many = _lanes_left(p.columns_left, pixel), _lanes_left(p.filters_left, filter_)
        bias = _bias(p, Reg("total"), filter_ + LANE, "broadcast")
    total = Reg("total")
    first = bias if p.writes else Load(total, array, address, some=left)
    one = (
        Let(Symbol("total", "vector")),
        first,
        Add(total, Reg("out", (LANE,))),
        Store(array, address, total, some=left),
    )
    return register_loop(
        "j",
        p.pixels,
        *register_loop(
            "i",
            p.filters,
            Let(Symbol("out", "vector", (lanes,))),
            Unscramble("out", Reg("sum", (PIXEL, FILTER)), "W" if p.by_pixel else "M", p.block),
            *register_loop("l", lanes, *_guarded(many, LANE, *one)),
        ),
    )
