"""`winogen bench`: winogen beside every rival that is installed and the limits of the machine."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from winogen.cli.convolution import takes
from winogen.cli.options import AS_JSON, ONLY, RESULTS, give
from winogen.cli.outputs import check_outputs, print_wide

if TYPE_CHECKING:
    from winogen.tuning.layers import BenchLayer

EXAMPLE = "Example: winogen bench --layers vgg16 --peers torch,ncnn --results vgg16.json"

_LONGEST_TURN = 60.0  # seconds


class Dtype(str, Enum):
    """Numbers of arrays and weights: those of `winogen_lab.bench.kinds`."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"


_DTYPES = ", ".join(one.value for one in Dtype)


@takes("layout algorithm tile tolerance filter_dtype product_dtype border")
def bench(
    names: list[str] = typer.Argument(
        None,
        metavar="[NET]...",
        help="With --nets: which, of those that its documentation lists; zoo for thirty of them.",
    ),
    nets: bool = typer.Option(
        False, "--nets", help="Measure whole nets instead of layers: those named, or all."
    ),
    layers: str = typer.Option(
        "thesis27",
        metavar="SET|FILE|NET",
        help="A layer set: axes, densenet121, few-filters, filters, gemm1x1, googlenet, "
        "inception-v3, large-kernels, mobilenet-v2, resnet50, shapes, squeezenet, "
        "squeezenet1.0, thesis27, transposed, vgg16; a JSON or ONNX file; or a net of --nets.",
    ),
    only: str = ONLY,
    peers: str = typer.Option(
        None,
        metavar="NAMES",
        help="Rivals, comma-separated: torch, onnxruntime, openvino, ncnn, mnn, and opencv and "
        "scipy of filters with a channel each; with --nets also torch.compile, opencv; or none. "
        "Default: all that are installed.",
    ),
    dtype: Dtype = typer.Option(
        Dtype.FLOAT32,
        metavar="NAME",
        help=f"Numbers of our arrays and weights, {_DTYPES}; rivals have "
        "float32, but with int8, which are quantized layers.",
    ),
    threads: int = typer.Option(1, min=1, max=1024, help="Threads of every contestant."),
    batch: int = typer.Option(
        None, min=1, max=1_000_000, help="Images per call, instead of the set's."
    ),
    beside: list[str] = typer.Option(
        None,
        metavar="OPTION=VALUE,...",
        help="Another of ours that takes turns with the main one and differs from it in these: "
        "options of Conv2d, dtype, isa (as WINOGEN_ISA), python (one with another winogen); with "
        "--nets: isa, cc, python. Again and again for more.",
    ),
    algorithms: str = typer.Option(
        None,
        metavar="NAMES",
        help="The same as --beside algorithm=... for each of these, or for all.",
    ),
    profile: bool = typer.Option(False, "--profile", help="Also show where our time goes."),
    repeat: int = typer.Option(9, min=1, help="Rounds in which everybody takes a turn."),
    min_time: float = typer.Option(0.02, help="Seconds of one turn, at least."),
    seconds: float = typer.Option(
        None, min=0, help="With --nets: begin no further net after so many seconds."
    ),
    as_json: bool = AS_JSON,
    results: Path = RESULTS,
    resume: bool = typer.Option(
        False, "--resume", help="With --nets: measure only what the file of --results has not yet."
    ),
    plot: Path = typer.Option(None, help="Draw the results here (.png, .svg, .pdf)."),
    show: Path = typer.Option(
        None, metavar="FILE", help="Measure nothing: show (and draw) what --results wrote."
    ),
    **options: Any,
) -> None:
    """Measure winogen, its rivals and the limits of this machine, in turns: layers, or nets."""
    from winogen.tuning.chosen import chosen_layers
    from winogen_lab.bench import report, tables

    check_outputs(results, plot)
    if nets:
        if dtype is not Dtype.FLOAT32:
            _refuse("dtype", f"{dtype.value} with --nets", "float32")
        from winogen.conv.arguments import positive
        from winogen_lab.cli.bench_nets import bench_nets

        within = {}
        if "tolerance" in options:
            given = options.pop("tolerance")
            within["tolerance"] = positive("tolerance", given, "None or a positive number")
        others = {"algorithms": algorithms, "batch": batch, "profile": profile or None}
        for option, given in {**options, **others}.items():
            if given is not None:
                _refuse(option, f"{given} with --nets", "none; options of layers")
        bench_nets(
            names or [], only, peers, beside=beside or [], threads=threads, rounds=repeat,
            min_time=_seconds(min_time), as_json=as_json, results=results, plot=plot, show=show,
            seconds=seconds, resume=resume, within=within,
        )  # fmt: skip
        return
    if names:
        _refuse("names", repr(" ".join(names)), "names of nets, with --nets")
    for option, given in (("seconds", seconds), ("resume", resume or None)):
        if given is not None:
            _refuse(option, str(given), "none without --nets")
    if show is not None:
        document = report.load(show)
    else:
        document = _measure(
            [
                layer if batch is None else layer.with_batch(batch)
                for layer in chosen_layers(layers, only)
            ],
            beside or [],
            algorithms,
            peers,
            {"dtype": dtype.value, **options},
            threads=threads,
            profile=profile,
            rounds=repeat,
            min_time=_seconds(min_time),
        )
    # What is shown is in a file already.
    kept = results if show is None else None
    give(document, kept, as_json, lambda: print_wide(tables.render(document)))
    if plot is not None:
        from winogen_lab.bench.plot import save_plot

        save_plot(document, plot)


def _refuse(option: str, value: str, allowed: str) -> None:
    from winogen.errors import InvalidValue

    raise InvalidValue(f"{option}: got {value}; allowed: {allowed}")


def _measure(
    layers: list[BenchLayer],
    beside: list[str],
    algorithms: str | None,
    peers: str | None,
    ours: dict[str, Any],
    **settings: Any,
) -> dict[str, Any]:
    """Return the document of a run. ``ours``: of the main contestant."""
    from winogen.progress import stderr, telling
    from winogen_lab.bench.kinds import KINDS
    from winogen_lab.bench.runner import Settings, run
    from winogen_lab.cli.contestants import contestants
    from winogen_lab.peers import chosen

    console = stderr()
    rivals = chosen(
        peers, KINDS[ours["dtype"]].task,
        lambda text: console.print(text, markup=False, soft_wrap=True),
    )  # fmt: skip
    if peers is None:
        rivals = tuple(peer for peer in rivals if any(map(peer.serves, layers)))
    main, others = contestants(layers, beside, algorithms, **ours)
    if settings["profile"]:
        if main.dtype != "float32":
            _refuse("profile", f"it with {main.dtype}", "float32")
        for layer in layers:
            if layer.transposed:
                _refuse("profile", f"it with {layer.name}, a transposed layer", "ordinary ones")
    with telling("measuring") as say:
        return run(layers, Settings(main, others, peers=rivals, **settings), say)


def _seconds(value: float) -> float:
    from winogen.errors import InvalidValue

    if not 0 <= value <= _LONGEST_TURN:  # infinity would never end
        raise InvalidValue(
            f"min-time: got {value:g}; allowed: a number of seconds from 0 to {_LONGEST_TURN:g}"
        )
    return value
