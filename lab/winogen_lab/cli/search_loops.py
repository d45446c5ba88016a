"""`winogen lab search-loops`: fast loop nests for a layer, compiled and measured."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from winogen.cli.convolution import INPUT, WEIGHT, read, takes
from winogen.cli.options import ISA, integers
from winogen_lab.cli.config import take

if TYPE_CHECKING:
    from winogen_lab.loops.search import Measured

EXAMPLE = (
    "Example: winogen lab search-loops --input 1,64,56,56 --weight 12,64,3,3 --padding 1 "
    "--layout NHWC --seconds 60\n\n"
    "Example: winogen lab search-loops --input 1,64,56,56 --weight 64,64,3,3 "
    "--traversal narrowing --jobs 2 --range strategy=filters-yxc,outer-yxc --range prefetch= "
    "--results nests.jsonl\n\n"
    "Example: winogen lab search-loops --config vgg.toml --seconds 600"
)


@takes("stride padding dilation groups layout", panels=True)
def search_loops(
    input: str = INPUT,
    weight: str = WEIGHT,
    isa: str = ISA,
    cost: str = typer.Option(
        "seconds",
        metavar="NAME",
        help="What is made least: seconds; or, by cachegrind, instructions, references, D1 or LL, "
        "misses of the first and of the last cache.",
    ),
    traversal: str = typer.Option(
        "elite", metavar="NAME", help="random, elite, narrowing or descent."
    ),
    draws: int = typer.Option(24, help="Nests drawn at first; of elite and random in each round."),
    best: int = typer.Option(4, help="The best, that elite and narrowing go on from."),
    rounds: int = typer.Option(8, help="Rounds at most."),
    near: int = typer.Option(4, help="Of narrowing: nests drawn near each of the best."),
    shared: int = typer.Option(18, help="Of narrowing: parameters that these share, at least."),
    range_: list[str] = typer.Option(
        [], "--range", metavar="NAME=A,B", help="Values that a parameter may have; repeatable."
    ),
    all_layouts: bool = typer.Option(
        False, "--all-layouts", help="Also nests that convert the layout of input or output."
    ),
    seed: int = typer.Option(0, help="Of all random numbers."),
    seconds: float = typer.Option(None, min=0, help="Begin nothing new after this time."),
    jobs: str = typer.Option(
        "1",
        metavar="N|ADDRESS",
        help="Processes that compile, -1 for all CPUs, while one measures; or the address of a "
        "Dask scheduler, whose workers do both.",
    ),
    results: Path = typer.Option(
        None, "--results", "-o", help="File for results: run the same again to go on after a stop."
    ),
    top: int = typer.Option(5, min=1, help="How many are compared with direct and printed."),
    config: Path = typer.Option(
        None,
        metavar="FILE",
        is_eager=True,
        callback=take,
        help="Options from a TOML file; those that are typed count more.",
    ),
    count: bool = typer.Option(False, "--count", help="Only say how many nests there are."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
    **options: Any,
) -> None:
    """Search for a fast loop nest of direct convolution by compiling and measuring, one thread.

    Every nest is checked against direct convolution first. One that cannot be compiled, crashes,
    hangs or is wrong counts as failed and is not tried again.
    """
    from winogen.cli.options import finite
    from winogen.cli.search import progress_bar
    from winogen.conv import arguments
    from winogen.records import TARGETS
    from winogen.toolchain import host_target
    from winogen.tuning.layers import BenchLayer
    from winogen_lab.loops.search import NestSearch, compare, search, workers

    asked = read(options)
    layout = asked.pop("layout", "NCHW")
    layer = {
        "name": "layer",
        "input": list(integers("input", input, 4)),
        "weight": list(integers("weight", weight, 4)),
        **{name: list(one) if isinstance(one, tuple) else one for name, one in asked.items()},
    }
    wanted = NestSearch(
        BenchLayer.from_dict(layer),
        layout,
        host_target() if isa is None else TARGETS[arguments.choice("isa", isa, tuple(TARGETS))],
        traversal,
        draws,
        best,
        rounds,
        near,
        shared,
        seed,
        in_place=not all_layouts,
        ranges=_ranges(range_),
        cost=cost,
    )
    space = wanted.space()
    if count:
        nests = space.count()
        typer.echo(json.dumps({"nests": nests}) if as_json else f"{nests:,} nests")
        return
    limit = math.inf if seconds is None else finite("seconds", seconds)
    with progress_bar() as progress, workers(results, jobs, progress) as (compile, measure):
        found = search(wanted, compile, measure, limit)
        able = [one for one in found if not one.error]
        times = compare(wanted, [one.nest for one in able[:top]]) if able else []
    if as_json:
        rows = [
            {"seconds": t, "counts": dict(one.counts), "nest": one.nest.to_dict()}
            for t, one in zip(times[1:], able)
        ]
        failed = [{"error": one.error, "nest": one.nest.to_dict()} for one in found if one.error]
        direct = times[0] if times else None
        typer.echo(json.dumps({"direct_s": direct, "nests": rows, "failed": failed}, indent=2))
    else:
        _print(found, able, times)
        if cost != "seconds" and able:
            _print_counts(able[:top])


def _ranges(texts: Sequence[str]) -> dict[str, set]:
    """Return the values of parameters as a space has them.

    >>> _ranges(["block_H=None,14", "order=H.o-M-H.i-W"])["order"]
    {('H.o', 'M', 'H.i', 'W')}
    """
    from winogen.errors import InvalidValue

    ranges: dict[str, set] = {}
    for text in texts:
        name, given, values = text.partition("=")
        if not given:
            raise InvalidValue(f"range: got {text!r}; allowed: NAME=VALUE,VALUE,...")
        ranges.setdefault(name, set()).update(_value(name, one) for one in values.split(","))
    return ranges


def _value(name: str, text: str) -> object:
    if name == "order":
        return tuple(text.split("-"))
    if text == "None":
        return None
    return int(text) if text.isdigit() else text


def _print(found: Sequence[Measured], able: Sequence[Measured], times: Sequence[float]) -> None:
    typer.echo(f"{len(able)} nests measured, {len(found) - len(able)} failed")
    for error in sorted({one.error.splitlines()[0] for one in found if one.error}):
        typer.echo(f"  failed: {error}")
    if not times:
        return
    typer.echo(f"\n{'ms':>9} {'direct / it':>12}  nest")
    typer.echo(f"{1e3 * times[0]:>9.4f} {1.0:>12.3f}  direct convolution, for comparison")
    for seconds, one in sorted(zip(times[1:], able), key=lambda row: row[0]):
        typer.echo(f"{1e3 * seconds:>9.4f} {times[0] / seconds:>12.3f}  {one.nest.text}")


def _print_counts(best: Sequence[Measured]) -> None:
    """The leaves with their counts and miss rates, in the order of the cost."""
    from winogen.columns import aligned

    names = ("instructions", "references", "D1", "LL")
    rows = [[*names, "D1, %", "LL, %"]]
    for one in best:
        counts = one.counts
        rates = (f"{100 * counts[cache] / counts['references']:.2f}" for cache in ("D1", "LL"))
        rows.append([*(f"{counts[name]:,}" for name in names), *rates])
    nests = ["nest", *(one.nest.text for one in best)]
    lines = (f"{line}  {nest}" for line, nest in zip(aligned(rows, left=0), nests))
    typer.echo("\n" + "\n".join(lines))
