"""`winogen tune`: candidates measured on this machine; what wins is kept for the planner."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from winogen.cli.options import AS_JSON, ONLY, RESULTS, give

if TYPE_CHECKING:
    from winogen.conv.choice import Choice
    from winogen.tuning import Outcome

EXAMPLE = "Example: winogen tune resnet50 --only s2 --seconds 120"

_LAYOUTS = {"NCHW": ("NCHW",), "NHWC": ("NHWC",), "both": ("NCHW", "NHWC")}


def tune(
    layers: str = typer.Argument(
        None,
        metavar="[LAYERS|NET]",
        help="A layer set or a JSON file, as for bench; a net of bench --nets; an ONNX file.",
    ),
    seconds: float = typer.Option(
        None,
        min=0.0,
        help="For all layers together; default: 20 for each, or for each part of one.",
    ),
    only: str = ONLY,
    layout: str = typer.Option("NCHW", metavar="NCHW|NHWC|both", help="NCHW, NHWC or both."),
    dtype: str = typer.Option("float32", metavar="float32|int8", help="Of the arrays."),
    threads: int = typer.Option(1, min=1, max=1024, help="Threads of every candidate."),
    tolerance: float = typer.Option(
        None, help="For calls with this tolerance; default: for those without."
    ),
    backend: str = typer.Option(
        None, metavar="opencl", help="Search on the first device of OpenCL instead."
    ),
    export: Path = typer.Option(
        None, metavar="FILE", help="Also add all that is known to this file, to ship it."
    ),
    merge: list[Path] = typer.Option(
        [], metavar="FILE", help="Add what these files know; may be given several times."
    ),
    as_json: bool = AS_JSON,
    results: Path = RESULTS,
) -> None:
    """Measure ways to compute layers on this machine, and keep what beats the planner's choice.

    All algorithms, tiles, points, register blocks, depths and blocks that the cost model thinks
    promising are measured in turns with what the planner would run. What wins twice by more than
    3 % is kept in the file of wisdom, which every plan reads first. It stops at any time, also by
    Ctrl-C, with what it has.

    With --backend opencl the kernels of `winogen.opencl.Conv2d` are searched on the first device:
    60 seconds for each layer. Kept is what is worth having by time, memory and error, from which a
    limit of memory picks. A search that was stopped goes on where it was.
    """
    from winogen.conv import wisdom
    from winogen.errors import InvalidValue

    if layout not in _LAYOUTS:
        raise InvalidValue(f"layout: got {layout!r}; allowed: {', '.join(_LAYOUTS)}")
    if backend is not None:
        given = {
            "dtype": dtype != "float32",
            "threads": threads != 1,
            "tolerance": tolerance is not None,
            "export": export is not None,
            "merge": bool(merge),
        }
        _tune_on_device(backend, layers, only, seconds, layout, given, as_json, results)
        return
    if layers is None and export is None and not merge:
        raise InvalidValue("layers: got none; allowed: layers to tune, --merge or --export")
    where = wisdom.path()
    if where is None:
        raise InvalidValue("WINOGEN_WISDOM: got '0'; allowed: a file, or nothing, to tune")
    wisdom.check_writable(where)
    if merge:
        added, damaged = wisdom.merge(merge, where)
        left_out = f", {damaged} damaged lines left out" if damaged else ""
        typer.echo(f"{added} new entries in {where}{left_out}", err=as_json)
    if layers is not None:
        outcomes = _tune(layers, only, where, seconds, _LAYOUTS[layout], dtype, threads, tolerance)
        document = {"wisdom": str(where), "layers": [_document(one) for one in outcomes]}
        give(document, results, as_json, lambda: _show(outcomes, where))
        for one in outcomes:
            for choice in one.wrong:
                typer.echo(f"{one.name}: wrong results, please report: {choice}", err=True)
    if export is not None:
        added, _ = wisdom.merge([where] if where.is_file() else [], export)
        export.chmod(0o644)
        typer.echo(f"{added} new entries in {export}", err=as_json)


def _tune_on_device(
    backend: str,
    layers: str | None,
    only: str | None,
    seconds: float | None,
    layout: str,
    given: dict[str, bool],
    as_json: bool,
    results: Path,
) -> None:
    from winogen.cli import tune_opencl
    from winogen.cli.options import finite
    from winogen.errors import InvalidValue

    if backend != "opencl":
        raise InvalidValue(f"backend: got {backend!r}; allowed: opencl")
    if layers is None:
        raise InvalidValue("layers: got none; allowed: layers to tune")
    for name, is_given in given.items():
        if is_given:
            raise InvalidValue(f"{name}: got one with --backend opencl; allowed: without")
    limit = None if seconds is None else finite("seconds", seconds)
    found = tune_opencl.tune(layers, only, limit, _LAYOUTS[layout])
    give(tune_opencl.document(*found), results, as_json, lambda: tune_opencl.show(*found))


def _tune(
    layers: str,
    only: str | None,
    where: Path,
    seconds: float | None,
    layouts: tuple[str, ...],
    dtype: str,
    threads: int,
    tolerance: float | None,
) -> list[Outcome]:
    from winogen.cli.options import finite
    from winogen.conv import arguments
    from winogen.progress import counting
    from winogen.toolchain.machine import current, settle
    from winogen.tuning import tune
    from winogen.tuning.budget import SECONDS, scopes
    from winogen.tuning.chosen import chosen_layers

    chosen = chosen_layers(layers, only)
    if tolerance is not None:
        arguments.positive("tolerance", tolerance, "a positive number, as 1e-6")
    settle()
    asked: dict[str, Any] = {
        "layouts": layouts,
        "threads": threads,
        "tolerance": tolerance,
        "dtype": dtype,
    }
    count = len(scopes(chosen, current(), **asked)) if seconds is None else 0
    limit = SECONDS * count if seconds is None else finite("seconds", seconds)
    with counting("tuning") as step:
        return list(
            tune(
                chosen, where, machine=current(), seconds=limit, **asked,
                progress=lambda spent, text: step(min(int(spent), int(limit)), int(limit), text),
            )
        )  # fmt: skip


def _show(outcomes: list[Outcome], where: Path) -> None:
    typer.echo(_ROW.format("layer", "", "planner ms", "tuned ms", "ratio", "choice"))
    for one in outcomes:
        typer.echo(_ROW.format(one.name, one.layout, *_cells(one)).rstrip())
    won = [one for one in outcomes if one.victory]
    typer.echo(
        f"{len(won)} of {len(outcomes)} layers are faster than planned; "
        f"{sum(one.candidates for one in outcomes)} candidates measured; kept in {where}"
    )


_ROW = "{:<32} {:<5} {:>10} {:>9} {:>6}  {}"


def _cells(one: Outcome) -> tuple[str, ...]:
    if one.victory is None:
        what = "the planner's choice stands" if one.finished else "no better one yet"
        return "", "", "", what
    times = (f"{1e3 * s:.4g}" for s in (one.victory.planner_seconds, one.victory.seconds))
    return (*times, f"{one.ratio:.2f}", describe(one.victory.choice))


def describe(choice: Choice) -> str:
    """Return a choice in one line, without what is as usual.

    >>> from winogen.conv.choice import Choice, Cut
    >>> describe(Choice("mcmr", (4, 6), edge="direct", sizes=(("rows", 9),), cut=Cut((2, 7))))
    'mcmr 4x6 edge direct, rows 9, blocks 2x7'
    """
    tags = {p.text for p in choice.points if p}
    words = [
        choice.variant or choice.algorithm,
        "x".join(map(str, choice.tile or ())),
        *sorted(tags),
        f"edge {choice.edge}" if choice.edge != "discard" else "",
        f"border {choice.border}" if choice.border != "unswitch" else "",
    ]
    parts = [" ".join(filter(None, words)), *(f"{name} {size}" for name, size in choice.sizes)]
    if choice.parameters is not None:
        parts.append(str(choice.parameters))
    if choice.cut:
        cut = choice.cut
        images = f" of {cut.images} images" if cut.images > 1 else ""
        shared = " shared" if cut.split else ""
        parts.append(f"blocks {'x'.join(map(str, cut.block))}{images}{shared}")
    return ", ".join(parts)


def _document(one: Outcome) -> dict[str, Any]:
    won = one.victory
    return {
        "name": one.name,
        "layout": one.layout,
        "ratio": one.ratio,
        "seconds": won and won.seconds,
        "planner_seconds": won and won.planner_seconds,
        "choice": won and describe(won.choice),
        "candidates": one.candidates,
        "spent_s": one.spent,
        "finished": one.finished,
    }
