"""`winogen search`: points, moduli, row scalings with a small error, few instructions, or both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from winogen.spelling import in_one_line

if TYPE_CHECKING:
    from rich.progress import TaskID

    from winogen.numerics.search import Search
    from winogen.numerics.search.candidate import Candidate
    from winogen.numerics.search.run import Found

EXAMPLE = (
    "Example: winogen search 4 3\n\n"
    "Example: winogen search 7 3 --families pairs,free --scalings --results f7_3.jsonl "
    "--seconds 600 --jobs -1\n\n"
    "Example: winogen search 6 3 --dtype float16 --scalings\n\n"
    "Example: winogen search 4 5 --families pairs,quadratic --objective pareto\n\n"
    "Example: winogen search 9 9 --families iterated,circle,fourier --dims 1"
)


class Objective(str, Enum):
    """What is sought."""

    error = "error"
    instructions = "instructions"
    pareto = "pareto"


def search(
    m: int = typer.Argument(help="Outputs of one tile."),
    r: int = typer.Argument(help="Taps of the filter."),
    families: str = typer.Option(
        "pairs",
        metavar="NAMES",
        help="Kinds of points: pairs (±a), reciprocal (±a, ±1/a), free, algebraic (±sqrt q), "
        "quadratic (one modulus of degree 2), quadratics (two or three); iterated (two short "
        "algorithms, one within the other), circle (from points to Fourier), fourier; several with "
        "commas.",
    ),
    objective: Objective = typer.Option(
        Objective.error,
        metavar="NAME",
        help="error, the least; instructions, the fewest; or pareto, the best trades of both.",
    ),
    scalings: bool = typer.Option(False, "--scalings", help="Search row scalings, too."),
    height: int = typer.Option(8, help="Largest numerator and denominator of a point."),
    starts: int = typer.Option(4, help="Random starts where there are too many sets to try all."),
    keep: int = typer.Option(64, help="Candidates to measure."),
    trials: int = typer.Option(
        20_000, max=1_000_000_000, help="Random tiles of the last measurement."
    ),
    dims: int = typer.Option(2, help="1 or 2 dimensions."),
    channels: int = typer.Option(1, max=1_000_000, help="Channels that are summed."),
    order: str = typer.Option(
        "huffman", metavar="NAME", help="Summation: huffman, naive, pairwise or program."
    ),
    distribution: str = typer.Option(
        "uniform", metavar="NAME", help="uniform, uniform-dense, normal or relu."
    ),
    filters: str = typer.Option(
        None, metavar="float64", help="float64 transforms filters so; default as everything else."
    ),
    dtype: str = typer.Option(
        "float32",
        metavar="NAME",
        help="Arithmetic and storage: float32, float64, float16, bfloat16. In float16 numbers "
        "underflow and overflow; --scalings scales rows against it.",
    ),
    fused: bool = typer.Option(False, "--fused", help="Multiply-adds round once."),
    seconds: float = typer.Option(
        None,
        min=0,
        help="Begin nothing new after this time, and print the best so far, as Ctrl-C does at any "
        "time; with --results the same command goes on from there.",
    ),
    jobs: str = typer.Option(
        "1",
        metavar="N|ADDRESS",
        help="Processes, -1 for all CPUs; or the address of a Dask scheduler.",
    ),
    results: Path = typer.Option(
        None, help="File for intermediate results: run the same again to go on after a stop."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Search for good points of F(m, r): estimate many, measure the best, the fewer the longer."""
    from winogen.numerics.search import Results, Search, executor
    from winogen.numerics.search import search as run

    question = Search(
        m=m,
        r=r,
        families=tuple(name.strip() for name in families.split(",")),
        objective=objective.value,
        scalings=scalings,
        height=height,
        starts=starts,
        keep=keep,
        trials=trials,
        dims=dims,
        settings={
            "channels": channels,
            "order": order,
            "distribution": distribution,
            "filters": filters,
            "fused": fused,
            **({} if dtype == "float32" else {"dtype": dtype}),
        },
        seconds=seconds,
    )
    kept = Results(results)
    with progress_bar() as progress, executor(kept, jobs, progress) as execute:
        entries = run(question, execute)
    if execute.stopped:
        typer.echo("stopped: the best so far", err=True)
    if as_json:
        typer.echo(json.dumps([entry.to_dict() for entry in entries], indent=2))
    else:
        _print(question, entries)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Yield ``show(stage, done, total)``: one line per stage on stderr, or a line now and then."""
    from winogen.progress import lines, stderr

    console = stderr()
    if not console.is_terminal:
        with lines("searching") as step:
            yield lambda stage, done, total: step(done, total, stage)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    stage = TextColumn("{task.description:<20}")
    columns = (stage, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=console)
    tasks: dict[str, TaskID] = {}

    def show(stage: str, done: int, total: int) -> None:
        progress.start()
        if stage not in tasks:
            tasks[stage] = progress.add_task(stage, total=total)
        progress.update(tasks[stage], completed=done)

    try:
        yield show
    finally:
        if tasks:
            progress.stop()


def _print(question: Search, entries: Sequence[Found]) -> None:
    from rich.console import Console
    from rich.table import Table

    counted = entries[0].instructions is not None
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("mean |error|", justify="right")
    table.add_column("± (95 %)", justify="right")
    table.add_column("products", justify="right")
    if counted:
        table.add_column("instructions", justify="right")
        table.add_column("front", justify="center")
    table.add_column("points or moduli", overflow="fold")
    for entry in entries:
        candidate = entry.candidate
        row = [f"{entry.mean:.3e}", f"{entry.half_width:.0e}", str(candidate.multiplications)]
        text = str(candidate)
        if counted:
            row += [str(entry.cost), "*" if entry.on_front else ""]
        elif candidate.output is not None:
            text += "  (rows scaled)"
        table.add_row(*row, text)
    console = Console()
    console.print(table)
    if counted:
        console.print(
            "\ninstructions: of the input and the output transform in one dimension, with fused "
            "multiply-adds;\nrows are scaled to make them few. *: no other is better in both.",
            highlight=False,
        )
    best = entries[0].candidate
    for note in _notes(question, best):
        typer.echo(f"\nnote on the first: {note}")
    option, values = _origin(best)
    made_of = in_one_line(values, ",")
    typer.echo(f"\nwinogen derive {question.m} {question.r} --{option} '{made_of}'")
    if best.output is not None and not counted:
        typer.echo(f"\nwith its rows scaled, in Python:\n{_python(best)}")


def _python(candidate: Candidate) -> str:
    """An expression of a candidate whose rows are scaled."""
    made = "winograd" if candidate.moduli else "cook_toom"
    values = in_one_line(_origin(candidate)[1])
    return (
        f'winogen.{made}({candidate.m}, {candidate.r}, "{values}").scale(\n'
        f"    input={list(candidate.input or ())},\n    output={list(candidate.output or ())},\n)"
    )


def _notes(question: Search, candidate: Candidate) -> tuple[str, ...]:
    """What is to be known of a candidate in a format of few bits of exponent."""
    from winogen.numerics import estimate
    from winogen.numerics.search.run import DEFAULTS

    settings = {**DEFAULTS, **question.settings}
    return estimate(candidate.algorithm, dims=question.dims, **settings).notes


def _origin(candidate: Candidate) -> tuple[str, tuple[str, ...]]:
    """The option by which `winogen derive` makes a candidate, and its values."""
    if candidate.moduli:
        return "moduli", candidate.moduli
    return "points", candidate.points or ()
