"""`winogen lab work` and `winogen lab engine`: what nets ask for, and what engines make of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from winogen.cli.options import AS_JSON, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from winogen.conv.problem import Problem

WORK = "Example: winogen lab work alexnet,vgg16,mobilenet-v2"
ENGINE = "Example: winogen lab engine googlenet"


def work(
    nets: str = typer.Argument(
        None,
        metavar="[NETS]",
        help="Names with commas between, as for engine; default: the six that it names first.",
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Count what nets ask of any machine: products, weights, words, kernels; energy by a model.

    Energies are those published for 45 nm, times what is counted; nothing is measured.
    """
    from winogen_lab.engine_tables import known_nets, net_work, render_work

    known = known_nets()
    chosen = (
        known if nets is None else {name: known.get(name) or _read(name) for name in _names(nets)}
    )
    document = net_work(chosen)
    if as_json:
        print_json(document)
    else:
        typer.echo(render_work(document))


def _names(nets: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in nets.split(",")))


def _read(net: str) -> Sequence[Problem]:
    from winogen.cli.engine import read_layers

    return read_layers(net)


def engine_figures(
    net: str = typer.Argument(
        None,
        metavar="[NET]",
        help="alexnet, googlenet, inception-v3, resnet50, squeezenet or vgg16: layer by layer.",
    ),
    plot: Path = typer.Option(
        None, "--plot", "-o", help="Draw utilisation layer by layer and by schedule (.png, .svg)."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Compute the tables and figures of Maji's thesis, chapter 6, beside what it prints: a model.

    Hold buffers, peaks, buses, times, utilisation of four nets on engines S, M and L, and by
    schedule, and of six with pools and sums. With a NET the cycles and the utilisation of each of
    its layers, and the cycles of its pools and sums.
    """
    from winogen.cli.outputs import check_outputs
    from winogen_lab import engine_tables

    check_outputs(None, plot)
    if net is not None:
        rows, others = engine_tables.layer_table(net), engine_tables.other_table(net)
        document = {"kind": "model", "net": net, "layers": rows, "others": others}
        text = engine_tables.render_layers(net, rows) + "\n\n" + engine_tables.render_others(others)
    else:
        document = engine_tables.engine_figures()
        text = engine_tables.render_figures(document)
    if plot is not None:
        from winogen_lab.engine_plot import save_utilisation

        save_utilisation(plot, net)
    if as_json:
        print_json(document)
    else:
        typer.echo(text)
