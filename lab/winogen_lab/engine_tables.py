"""Chapters 2 and 6 of Maji's thesis as tables: what nets ask for, and what engines make of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from winogen.columns import aligned
from winogen.hardware import figures
from winogen.hardware.nets import NETS, layers
from winogen.hardware.work import (
    DATAFLOWS,
    ENERGY,
    KINDS,
    intensities,
    reuse,
    watts,
    work,
)

if TYPE_CHECKING:
    from winogen.conv.problem import Problem
    from winogen.hardware.engine import Engine

_REUSED = (1, 64, 56, 56), (64, 64, 3, 3)


def net_work(nets: Mapping[str, Sequence[Problem]]) -> dict[str, Any]:
    """Return chapter 2's tables for nets: name -> layers, each as often as the net has it."""
    rows = []
    for name, some in nets.items():
        one = work(some)
        energy = {numbers: one.millijoules(numbers) for numbers in ("float32", "int8")}
        rows.append({"net": name, **vars(one), "mJ": {**energy, "DRAM": one.dram_millijoules}})
    every = [one for some in nets.values() for one in some]
    layer = figures.MEDIUM.mapping(*_REUSED, padding=1).problem
    return {
        "kind": "model",
        "nets": rows,
        "operations_per_word": intensities(every),
        "reuse": {name: reuse(layer, name)._asdict() for name in DATAFLOWS},
        "energy_pJ": ENERGY,
        "watts_of_1e9_words_30_times_a_second": watts(1e9, 30),
    }


def render_work(document: dict[str, Any]) -> str:
    """Return the document of `net_work` as tables."""
    return "\n".join(_work_lines(document))


def _work_lines(document: dict[str, Any]) -> Iterator[str]:
    yield "Nets: layers, 10^9 multiplications, 10^6 weights and outputs (Table 2.1)"
    head = ["net", "convolutions", "connected", "products", "weights", "outputs"]
    yield from aligned([head, *(
        [row["net"], str(row["convolutions"]), str(row["connected"]),
         f"{row['products'] / 1e9:.2f}", f"{row['weights'] / 1e6:.2f}",
         f"{row['activations'] / 1e6:.2f}"]
        for row in document["nets"]
    )], left=1)  # fmt: skip
    kinds = [name for name in KINDS if any(name in row["shares"] for row in document["nets"])]
    yield "\nShares of convolutions, of their products in brackets (Table 2.3); small: at most 3x3"
    yield from aligned([["net", "small", *kinds], *(
        [row["net"], f"{row['small']:.0%}", *(_share(row, name) for name in kinds)]
        for row in document["nets"]
    )], left=1)  # fmt: skip
    yield "\nMultiplications and additions per word, each word moved once (Table 2.4)"
    yield from aligned([["layers", "least", "mean", "most"], *(
        [name, *(f"{value:.1f}" for value in values)]
        for name, values in document["operations_per_word"].items()
    )], left=1)  # fmt: skip
    size = "x".join(map(str, _REUSED[0][2:]))
    yield f"\nProducts per word at a processing element, {size}, 64 to 64, 3x3 (section 2.6)"
    yield from aligned([["stationary", "inputs", "weights", "sums"], *(
        [name, *(f"{value:g}" for value in row.values())] for name, row in document["reuse"].items()
    )], left=1)  # fmt: skip
    yield "\nPicojoules in 45 nm, of a word of 32 bits where it is moved (Table 2.2)"
    yield ", ".join(f"{name} {value:g}" for name, value in document["energy_pJ"].items())
    power = document["watts_of_1e9_words_30_times_a_second"]
    yield f"10^9 words from DRAM 30 times a second take {power:.1f} W"
    yield "\nMillijoules of an image by these: products with sums; weights and outputs to DRAM once"
    yield from aligned([["net", "float32", "int8", "DRAM"], *(
        [row["net"], *(f"{value:.2f}" for value in row["mJ"].values())] for row in document["nets"]
    )], left=1)  # fmt: skip


def _share(row: dict[str, Any], name: str) -> str:
    if name not in row["shares"]:
        return ""
    return f"{row['shares'][name]:.0%} ({row['product_shares'][name]:.0%})"


def engine_figures() -> dict[str, Any]:
    """Return chapter 6's tables and figures by the model, beside what the thesis prints."""
    nets = {
        net: {
            name: {
                **figures.means(figures.mappings(net, engine))._asdict(),
                "ms": figures.milliseconds(net, engine),
                "best_layout_ms": figures.milliseconds(net, engine, "auto"),
                "by_schedule": figures.by_schedule(net, engine),
                "by_sram": figures.by_sram(net, engine),
            }
            for name, engine in figures.ENGINES.items()
        }
        for net in figures.NETS
    }
    return {
        "kind": "model",
        "hold_buffers": [_of_engine(one) for one in figures.BUFFERED],
        "engines": {
            name: {**_of_engine(engine), "TOPs": engine.peak(figures.CLOCK) / 1e12,
                   "printed_TOPs": figures.TABLE_6_3[name]}
            for name, engine in figures.ENGINES.items()
        },
        "table_6_2": [
            {**row._asdict(), "ideal_ms": nets[row.net][row.engine]["ms"]}
            for row in figures.TABLE_6_2
        ],
        "nets": nets,
        "whole_nets": {
            net: {
                name: {way: one._asdict() for way, one in figures.whole_net(net, engine).items()}
                for name, engine in figures.ENGINES.items()
            }
            for net in NETS
        },
        "sram": figures.SRAM,
        "bandwidth": figures.BANDWIDTH,
    }  # fmt: skip


def _of_engine(engine: Engine) -> dict[str, Any]:
    return {
        "engine": str(engine),
        "multipliers": engine.multipliers,
        "input_buffer": engine.input_buffer,
        "filter_buffer": engine.filter_buffer,
        "window_sums": engine.partial_sums(9),
        "ports": engine.ports,
    }


def render_figures(document: dict[str, Any]) -> str:
    """Return the document of `engine_figures` as tables."""
    return "\n".join(_figure_lines(document))


def _figure_lines(document: dict[str, Any]) -> Iterator[str]:
    yield "A model: figures are computed, and those printed in the thesis are its simulations."
    yield "\nHold buffers, bytes, by Table 6.1's formulas; words of sums of a window of 8x8"
    yield from aligned([["engine", "inputs", "filters", "sums"], *(
        [row["engine"], str(row["input_buffer"]), str(row["filter_buffer"]),
         str(row["window_sums"])]
        for row in document["hold_buffers"]
    )], left=1)  # fmt: skip
    yield "\nPeak at 1 GHz (Table 6.3); buses of activations and weights (NVDLA: 1+1)"
    yield from aligned([["", "engine", "multipliers", "TOP/s", "printed", "buses"], *(
        [name, row["engine"], str(row["multipliers"]), f"{row['TOPs']:.3f}",
         str(row["printed_TOPs"]), "+".join(map(str, row["ports"]))]
        for name, row in document["engines"].items()
    )], left=2)  # fmt: skip
    yield "\nMilliseconds at 1 GHz if nothing waits, a bound below those printed (Table 6.2)"
    yield from aligned([["net", "engine", "ideal", "printed", "NVDLA, printed"], *(
        [row["net"], row["engine"], f"{row['ideal_ms']:.2f}", f"{row['ms']:g}",
         "" if row["nvdla"] is None else f"{row['nvdla']:g}"]
        for row in document["table_6_2"]
    )], left=2)  # fmt: skip
    yield "\nUtilisation: mean over layers, over cycles; ms as they are, and by the best layouts"
    yield from aligned([["net", "engine", "layers", "cycles", "ms", "best"], *(
        [net, name, *(f"{row[key]:.2f}" for key in ("layers", "cycles", "ms", "best_layout_ms"))]
        for net, rows in document["nets"].items() for name, row in rows.items()
    )], left=2)  # fmt: skip
    sram, bandwidth = document["sram"] >> 10, document["bandwidth"] / 1e9
    memory = f"{sram} KB of SRAM and {bandwidth:g} GB/s"
    yield f"\nUtilisation with {memory} (Figure 6.20); OS with 1 and 2 MB"
    yield from aligned([["net", "engine", "OS", "IS", "WS", "1 MB", "2 MB"], *(
        [net, name, *(f"{busy:.2f}" for busy in row["by_schedule"].values()),
         *(f"{row['by_sram'][size]:.2f}" for size in "ML")]
        for net, rows in document["nets"].items() for name, row in rows.items()
    )], left=2)  # fmt: skip
    yield "\nUtilisation with pools and sums: if nothing waits; with the same memory, OS (7.1.4)"
    ways = ("convolutions", "apart", "fused")
    yield from aligned([["net", "engine", *ways, *ways], *(
        [net, name, *(f"{row[way][key]:.2f}" for key in ("busy", "busy_with_memory")
                      for way in ways)]
        for net, rows in document["whole_nets"].items() for name, row in rows.items()
    )], left=2)  # fmt: skip


def layer_table(net: str) -> list[dict[str, Any]]:
    """Return the utilisation of each different layer of a net, on all engines and by layouts."""
    columns = [
        figures.utilisations(net, engine, layout)
        for engine in figures.ENGINES.values()
        for layout in ("pieces", "auto")
    ]
    return [
        {
            "layer": first.name,
            "times": first.times,
            **{
                f"{name} {layout}": {"cycles": one.cycles, "utilisation": one.busy}
                for one, (name, layout) in zip(
                    (first, *rest),
                    ((name, layout) for name in figures.ENGINES for layout in ("pieces", "auto")),
                )
            },
        }
        for first, *rest in zip(*columns)
    ]


def other_table(net: str) -> list[dict[str, Any]]:
    """Return the cycles of each different pool and sum of a net on all engines."""
    columns = [figures.others(net, engine) for engine in figures.ENGINES.values()]
    return [
        {
            "layer": first.name,
            "times": first.times,
            "fused": first.fused,
            **{
                name: {"cycles": one.cycles, "longer": one.longer}
                for name, one in zip(figures.ENGINES, (first, *rest))
            },
        }
        for first, *rest in zip(*columns)
    ]


def render_others(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows of `other_table` as a table."""
    head = ["pool or sum", "times", "runs", *(f"{name} {what}" for name in figures.ENGINES
                                              for what in ("cycles", "longer"))]  # fmt: skip
    return "\n".join(aligned([head, *(
        [row["layer"], str(row["times"]), "fused" if row["fused"] else "apart",
         *(str(row[name][what]) for name in figures.ENGINES for what in ("cycles", "longer"))]
        for row in rows
    )], left=1))  # fmt: skip


def render_layers(net: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows of `layer_table` as a table."""
    columns = [name for name in rows[0] if name not in ("layer", "times")]
    head = ["layer", "times", *(f"{name} {what}" for name in figures.ENGINES
                                for what in ("cycles", "busy", "best"))]  # fmt: skip
    lines = [head]
    for row in rows:
        cells = [row["layer"], str(row["times"])]
        for plain, best in zip(columns[::2], columns[1::2]):
            cells += [str(row[plain]["cycles"]), f"{row[plain]['utilisation']:.2f}",
                      str(row[best]["cycles"])]  # fmt: skip
        lines.append(cells)
    engines = ", ".join(f"{name} {engine}" for name, engine in figures.ENGINES.items())
    return "\n".join([f"{net} on {engines}: a model", "", *aligned(lines, left=1)])


def known_nets() -> dict[str, Sequence[Problem]]:
    """Return the nets of the hardware room, with their connected layers."""
    return {name: layers(name, connected=True) for name in NETS}
