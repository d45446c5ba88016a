"""`winogen bench`: winogen beside every rival that is installed and the limits of the machine."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from winogen.cli.options import integers

if TYPE_CHECKING:
    from rich.console import RenderableType

    from winogen.bench import BenchLayer

EXAMPLE = "Example: winogen bench --layers vgg16 --peers torch,ncnn --json vgg16.json"

_WIDTH = 190  # of a report that goes to a file
_LONGEST_TURN = 60.0  # seconds
_PICTURES = (".png", ".svg", ".pdf")


class Dtype(str, Enum):
    """Numbers of arrays and weights."""

    FLOAT32 = "float32"
    INT8 = "int8"


class Layout(str, Enum):
    """Order of our input's and output's axes."""

    NCHW = "NCHW"
    NHWC = "NHWC"


def bench(
    names: list[str] = typer.Argument(
        None, metavar="[NET]...", help="With --nets: which, of those that its documentation lists."
    ),
    nets: bool = typer.Option(
        False, "--nets", help="Measure whole nets instead of layers: those named, or all."
    ),
    layers: str = typer.Option(
        "thesis27",
        help="A layer set: densenet121, few-filters, gemm1x1, googlenet, inception-v3, "
        "mobilenet-v2, resnet50, squeezenet, thesis27, vgg16; or a JSON file.",
    ),
    only: str = typer.Option(None, metavar="TEXT", help="Only layers with this in their names."),
    peers: str = typer.Option(
        None,
        help="Rivals, comma-separated: torch, onnxruntime, openvino, ncnn, mnn; with --nets also "
        "torch.compile, opencv; or none. Default: all that are installed.",
    ),
    dtype: Dtype = typer.Option(
        Dtype.FLOAT32,
        help="Numbers of arrays and weights; int8: quantized layers, beside the rivals that have "
        "them.",
    ),
    threads: int = typer.Option(1, min=1, max=1024, help="Threads of every contestant."),
    batch: int = typer.Option(None, min=1, help="Images per call, instead of the set's."),
    layout: Layout = typer.Option(Layout.NCHW, help="Of our arrays; rivals use what suits them."),
    algorithm: str = typer.Option("auto", help="Ours: auto, direct, im2col, winograd2d, ..."),
    tile: str = typer.Option(None, metavar="M|MH,MW", help="Outputs of one Winograd tile."),
    tolerance: float = typer.Option(
        None,
        help="Our fastest within this error, as measured over the largest output: 1e-5, say. "
        "Default: as accurate as direct convolution where that costs little.",
    ),
    algorithms: str = typer.Option(
        None, help="Also compare these of our algorithms, comma-separated, or all."
    ),
    profile: bool = typer.Option(False, "--profile", help="Also show where our time goes."),
    repeat: int = typer.Option(9, min=1, help="Rounds in which everybody takes a turn."),
    min_time: float = typer.Option(0.02, help="Seconds of one turn, at least."),
    json: Path = typer.Option(None, help="Write the results here."),
    plot: Path = typer.Option(None, help="Draw the results here (.png, .svg, .pdf)."),
    show: Path = typer.Option(
        None, metavar="FILE", help="Measure nothing: show (and draw) what --json wrote."
    ),
) -> None:
    """Measure winogen, its rivals and the limits of this machine, in turns: layers, or nets."""
    from winogen.bench import report, tables
    from winogen.bench.layers import chosen_layers

    check_outputs(json, plot)
    if nets:
        if dtype is not Dtype.FLOAT32:
            _refuse_dtype(dtype)
        from winogen.cli.bench_nets import bench_nets

        bench_nets(
            names or [], only, peers, threads=threads, rounds=repeat, min_time=_seconds(min_time),
            json=json, plot=plot, show=show,
        )  # fmt: skip
        return
    if names:
        _refuse_names(names)
    if show is not None:
        document = report.load(show)
    else:
        document = _measure(
            [
                layer if batch is None else layer.with_batch(batch)
                for layer in chosen_layers(layers, only)
            ],
            dtype=dtype.value,
            peers=peers,
            threads=threads,
            layout=layout.value,
            algorithm=algorithm,
            tile=tile,
            tolerance=tolerance,
            algorithms=algorithms,
            profile=profile,
            rounds=repeat,
            min_time=_seconds(min_time),
        )
        if json is not None:
            report.save(document, json)
    print_wide(tables.render(document))
    if plot is not None:
        from winogen.bench.plot import save_plot

        save_plot(document, plot)


def print_wide(text: RenderableType) -> None:
    """Print tables; where nobody looks on, as wide as they are."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(text)


def _refuse_dtype(dtype: Dtype) -> None:
    from winogen.errors import InvalidValue

    raise InvalidValue(f"dtype: got {dtype.value} with --nets; allowed: float32")


def _refuse_names(names: list[str]) -> None:
    from winogen.errors import InvalidValue

    raise InvalidValue(f"names: got {' '.join(names)!r}; allowed: names of nets, with --nets")


def _measure(
    layers: list[BenchLayer],
    *,
    dtype: str,
    peers: str | None,
    algorithm: str,
    tile: str | None,
    tolerance: float | None,
    algorithms: str | None,
    profile: bool,
    **settings: Any,
) -> dict[str, Any]:
    from winogen.bench import Settings, run
    from winogen.bench.peers import PEERS, QUANTIZED, chosen
    from winogen.bench.runner import ALGORITHMS, QUANTIZED_ALGORITHMS
    from winogen.cli.progress import telling

    narrow = dtype == "int8"
    if narrow:
        _refuse_with_int8(tile=tile, tolerance=tolerance, profile=profile or None)
    allowed = QUANTIZED_ALGORITHMS if narrow else ALGORITHMS
    rivals = chosen(peers, QUANTIZED if narrow else PEERS)
    ours = Settings(
        dtype=dtype,
        algorithm=named("algorithm", algorithm, ("auto", *allowed)),
        tile=tile_of(tile, algorithm),
        tolerance=tolerance_of(tolerance),
        algorithms=_algorithms(algorithms, allowed),
        peers=rivals,
        profile=profile,
        **settings,
    )
    with telling("measuring") as say:
        return run(layers, ours, say)


def _refuse_with_int8(**options: Any) -> None:
    """Raise InvalidValue for options that integers, which are exact, have no use for."""
    from winogen.errors import InvalidValue

    for name, value in options.items():
        if value is not None:
            raise InvalidValue(f"{name}: got {value!r} with int8; allowed: none")


def _algorithms(text: str | None, allowed: tuple[str, ...]) -> tuple[str, ...]:
    if text is None:
        return ()
    if text == "all":
        return allowed
    names = [name.strip() for name in text.split(",") if name.strip()]
    return tuple(dict.fromkeys(named("algorithms", name, ("all", *allowed)) for name in names))


def tile_of(text: str | None, algorithm: str) -> int | tuple[int, int] | None:
    """Return the tile that `--tile` asks for; raises InvalidValue."""
    from winogen.errors import InvalidValue

    if text is None:
        return None
    if algorithm in ("direct", "im2col", "loops"):
        raise InvalidValue(
            f"tile: got {text!r}; allowed: none with {algorithm}, which has no tiles"
        )
    tile = integers("tile", text, 1, 2, signs="x")
    if min(tile) < 1:
        raise InvalidValue(f"tile: got {text!r}; allowed: a positive int, or two as 4,6")
    return tile[0] if len(tile) == 1 else (tile[0], tile[1])


def tolerance_of(value: float | None) -> float | None:
    """Return the tolerance if it is one; raises InvalidValue."""
    from winogen.conv.arguments import positive

    return None if value is None else positive("tolerance", value, "a positive number, as 1e-6")


def _seconds(value: float) -> float:
    from winogen.errors import InvalidValue

    if not 0 <= value <= _LONGEST_TURN:  # infinity would never end
        raise InvalidValue(
            f"min-time: got {value:g}; allowed: a number of seconds from 0 to {_LONGEST_TURN:g}"
        )
    return value


def named(option: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return the value of an option that has names; raises InvalidValue for another."""
    from winogen.errors import InvalidValue

    if value not in allowed:
        raise InvalidValue(f"{option}: got {value!r}; allowed: {', '.join(allowed)}")
    return value


def check_outputs(json: Path | None, plot: Path | None) -> None:
    """Raise now what would otherwise be lost minutes later."""
    from winogen.errors import InvalidValue

    if plot is not None and plot.suffix.lower() not in _PICTURES:
        raise InvalidValue(f"plot: got {str(plot)!r}; allowed: a name with {', '.join(_PICTURES)}")
    for option, path in (("json", json), ("plot", plot)):
        if path is None:
            continue
        exists = path.exists()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "a"):
                pass
        except OSError as error:
            raise InvalidValue(
                f"{option}: got {str(path)!r} ({error.strerror}); allowed: a file to write"
            ) from None
        if not exists:
            path.unlink()
