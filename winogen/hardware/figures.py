"""Tables and figures of the thesis' chapter 6 by the model, beside what is printed there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from winogen.errors import Unsupported
from winogen.hardware.engine import Engine
from winogen.hardware.events import fill_and_drain
from winogen.hardware.mapping import Mapping
from winogen.hardware.nets import all_layers, layers
from winogen.hardware.others import OtherMapping, bytes_together, cycles_together
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


class WholeNet(NamedTuple):
    """A net with pools and sums or without: cycles, what is busy of them, and at a bandwidth."""

    cycles: int
    busy: float
    bytes: int
    busy_with_memory: float


def whole_net(
    net: str, engine: Engine, sram: int = SRAM, bandwidth: float = BANDWIDTH
) -> dict[str, WholeNet]:
    """Return a net's "convolutions" alone; with all others as phases of their own, "apart"; and
    "fused" where that is possible, and faster. Outputs are stationary.

    >>> {name: round(one.busy, 2) for name, one in whole_net("resnet50", MEDIUM).items()}
    {'convolutions': 0.89, 'apart': 0.84, 'fused': 0.89}
    """
    phases: dict[str, list[EnginePhase]] = {"convolutions": [], "apart": [], "fused": []}
    products = 0
    for problem, others in all_layers(net):
        some = [OtherMapping(engine, one) for one in others]
        apart = [_phase(one.cycles, one.inputs + one.outputs, bandwidth) for one in some]
        best = apart
        if problem is not None:
            layer = engine.mapping(problem)
            products += layer.products
            around = sum(fill_and_drain(layer))
            moved = traffic(layer, "OS", sram)
            alone = _phase(layer.cycles, moved.bytes, bandwidth, around)
            phases["convolutions"].append(alone)
            best = apart = [alone, *apart]
            with suppress(Unsupported):  # where no block fits beside the ring
                fused = [OtherMapping(engine, one, layer) for one in others]
                moved = traffic(layer, "OS", sram, held=sum(one.buffer for one in fused))
                cycles, bytes_ = cycles_together(layer, fused), bytes_together(moved, fused)
                both = [_phase(cycles, bytes_, bandwidth, around)]
                best = min(both, apart, key=lambda some: sum(one.seconds for one in some))
        phases["apart"] += apart
        phases["fused"] += best
    found = {}
    for name, every in phases.items():
        cycles, moved_bytes, seconds = map(sum, zip(*every))
        time = engine.multipliers * CLOCK * seconds
        busy = products / (engine.multipliers * cycles)
        found[name] = WholeNet(cycles, busy, moved_bytes, products / time)
    return found


class EnginePhase(NamedTuple):
    """What an engine does at a time: a layer, with all that is fused."""

    cycles: int
    bytes: int
    seconds: float


def _phase(cycles: int, moved: int, bandwidth: float, around: int = 0) -> EnginePhase:
    """``around``: cycles of fill and drain."""
    return EnginePhase(cycles, moved, max((cycles + around) / CLOCK, moved / bandwidth))


class Behind(NamedTuple):
    """A layer without weights, or equal ones of a net."""

    times: int
    name: str
    fused: bool
    cycles: int  # of each
    longer: int  # what the net takes more for it


def others(net: str, engine: Engine) -> list[Behind]:
    """Return the pools and sums of a net, equal ones once, in its order.

    >>> [(one.name, one.cycles, one.longer) for one in others("alexnet", MEDIUM)][:1]
    [('55x55, 96, max 3x3/2', 4968, 0)]
    """
    counts: Counter[tuple[str, bool, int, int]] = Counter()
    for problem, some in all_layers(net):
        layer = None if problem is None else engine.mapping(problem)
        for one in some:
            on = OtherMapping(engine, one, layer)
            longer = on.cycles if layer is None else cycles_together(layer, [on]) - layer.cycles
            counts[str(one), layer is not None, on.cycles, longer] += 1
    return [Behind(times, *row) for row, times in counts.items()]


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
