"""Tables and figures of the thesis' chapter 6 by the model, beside what is printed there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from winogen.hardware.engine import Engine
from winogen.hardware.events import fill_and_drain
from winogen.hardware.mapping import Mapping
from winogen.hardware.nets import layers
from winogen.hardware.schedules import SCHEDULES
from winogen.hardware.traffic import SRAMS, seconds, traffic

# Those of Table 6.3.
SMALL, MEDIUM, LARGE = Engine(8, 4, 8, 2), Engine(16, 4, 16, 2), Engine(16, 4, 32, 2)
ENGINES = {"S": SMALL, "M": MEDIUM, "L": LARGE}
# Hold buffers by the formulas of Table 6.1.
BUFFERED = tuple(Engine(f_i, 4, f_o, L) for f_i in (8, 16) for f_o in (8, 16) for L in (1, 2))
CLOCK = 1e9
NETS = ("alexnet", "googlenet", "resnet50", "squeezenet")
SRAM, BANDWIDTH = 512 << 10, 16e9  # of the figure by schedule; the source says neither


class Printed(NamedTuple):
    """A row of Table 6.2: milliseconds of NVDLA and of the engine, as the source simulates them."""

    net: str
    engine: str
    nvdla: float | None
    ms: float


TABLE_6_2 = (
    Printed("alexnet", "M", 0.9, 0.8),
    Printed("alexnet", "L", None, 0.65),
    Printed("googlenet", "M", 1.22, 0.96),
    Printed("resnet50", "M", 7.11, 5.41),
)
TABLE_6_3 = {"S": 1, "M": 4, "L": 8}  # TOP/s at 1 GHz


def mappings(net: str, engine: Engine, layout: str = "pieces") -> list[Mapping]:
    """Return the convolutions of a net on an engine."""
    return [engine.mapping(one, layout=layout) for one in layers(net)]


def milliseconds(net: str, engine: Engine, layout: str = "pieces") -> float:
    """Return the time of the cycles alone, at 1 GHz: with nothing to wait for.

    >>> round(milliseconds("resnet50", MEDIUM), 2)
    1.97
    """
    return 1e3 * sum(one.seconds(CLOCK) for one in mappings(net, engine, layout))


class Utilisation(NamedTuple):
    """A layer, or equal ones of a net: how many, their shape, and what is busy."""

    times: int
    name: str
    cycles: int  # of each
    busy: float


def utilisations(net: str, engine: Engine, layout: str = "pieces") -> list[Utilisation]:
    """Return the utilisation layer by layer, equal layers once, in the order of the net."""
    counts: dict[Mapping, int] = {}
    for one in mappings(net, engine, layout):
        counts[one] = counts.get(one, 0) + 1
    return [
        Utilisation(count, _name(one), one.cycles, one.utilisation) for one, count in counts.items()
    ]


def _name(mapping: Mapping) -> str:
    layer = mapping.problem.layer
    kernel, size = ("x".join(map(str, some)) for some in (layer.kernel, mapping.problem.size))
    stride = f"/{layer.stride[0]}" if max(layer.stride) > 1 else ""
    return f"{size}, {layer.channels} to {layer.filters}, {kernel}{stride}"


class Means(NamedTuple):
    """Utilisation of a net: the mean over its layers, and of all cycles."""

    layers: float
    cycles: float


def means(some: Sequence[Mapping]) -> Means:
    """Return both means of a net's layers.

    >>> [round(one, 2) for one in means(mappings("resnet50", MEDIUM))]
    [0.96, 0.89]
    """
    products, cycles = sum(one.products for one in some), sum(one.cycles for one in some)
    return Means(
        sum(one.utilisation for one in some) / len(some),
        products / (cycles * some[0].engine.multipliers),
    )


def by_schedule(
    net: str, engine: Engine = MEDIUM, sram: int = SRAM, bandwidth: float = BANDWIDTH
) -> dict[str, float]:
    """Return the utilisation of a net by each schedule, waiting for memory included.

    Without limits all schedules are alike, as they have the same cycles. ``sram`` in bytes,
    ``bandwidth`` in bytes a second.

    >>> {name: round(busy, 2) for name, busy in by_schedule("resnet50").items()}
    {'OS': 0.35, 'IS': 0.32, 'WS': 0.35}
    """
    some = mappings(net, engine)
    products = sum(one.products for one in some)
    return {
        name: products / engine.multipliers / CLOCK
        / sum(seconds(one, traffic(one, name, sram), CLOCK, bandwidth) for one in some)
        for name in SCHEDULES
    }  # fmt: skip


def by_sram(net: str, engine: Engine = LARGE, bandwidth: float = BANDWIDTH) -> dict[str, float]:
    """Return the utilisation of a net with outputs stationary, for the source's three SRAMs."""
    return {name: by_schedule(net, engine, sram, bandwidth)["OS"] for name, sram in SRAMS.items()}


def overhead(some: Sequence[Mapping]) -> float:
    """Return the share of fill and drain in the cycles of a net whose layers run one by one."""
    around = sum(sum(fill_and_drain(one)) for one in some)
    return around / (around + sum(one.cycles for one in some))
