"""`winogen report`: a page on how accurate the catalog is, or a layer with the user's own data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from winogen.cli.options import integers
from winogen.errors import InvalidValue

if TYPE_CHECKING:
    import numpy as np
    from rich.table import Table

    from winogen.tuning.layers import BenchLayer

EXAMPLE = (
    "Example: winogen report -o accuracy\n\n"
    "winogen report --input x.npy --weight w.npy --padding 1 -o mine\n\n"
    "winogen report --input 1,512,7,7 --weight 512,512,3,3 --padding 1 --numbers -o numbers\n\n"
    "winogen report tiny -o quality"
)

_ONE_LAYER = "One layer"
_NAMED = "--input and --weight, or a JSON file, which name the layer"


def report(
    subject: str = typer.Argument(
        None,
        metavar="[NET|FILE]",
        help="A trained net of the benchmark: what number formats do to its output. Or a JSON file "
        "with a layer, as for `winogen bench`. Else the catalog, or a layer by --input.",
    ),
    output: Path = typer.Option(..., "--output", "-o", metavar="DIR", help="Folder to write to."),
    layers: str = typer.Option(
        None,
        metavar="SET|FILE",
        help="Layer set for the errors of whole layers, or none (default: thesis27).",
    ),
    trials: int = typer.Option(None, min=1, help="Random tiles per figure (default: 5000)."),
    input: str = typer.Option(
        None,
        metavar="N,C,H,W|FILE.npy",
        help="Report on one layer instead, with an input of this shape, or this one, of float32.",
        rich_help_panel=_ONE_LAYER,
    ),
    weight: str = typer.Option(
        None,
        metavar="M,C,KH,KW|FILE.npy",
        help="With weights of this shape, or these, of float32.",
        rich_help_panel=_ONE_LAYER,
    ),
    padding: str = typer.Option(
        None, metavar="P|PH,PW", help="P, or PH,PW (default: 0).", rich_help_panel=_ONE_LAYER
    ),
    stride: str = typer.Option(
        None, metavar="S|SH,SW", help="S, or SH,SW (default: 1).", rich_help_panel=_ONE_LAYER
    ),
    groups: int = typer.Option(None, help="Groups of channels.", rich_help_panel=_ONE_LAYER),
    tolerance: float = typer.Option(
        None,
        help="Largest max |error| / max |output| to recommend (default: 1e-5).",
        rich_help_panel=_ONE_LAYER,
    ),
    thorough: bool = typer.Option(
        False, "--thorough", help="Every tile of every algorithm.", rich_help_panel=_ONE_LAYER
    ),
    numbers: bool = typer.Option(
        False,
        "--numbers",
        help="Every number format: narrow filters, products of integers, narrow arrays.",
        rich_help_panel=_ONE_LAYER,
    ),
    timed: bool = typer.Option(
        False, "--timed", help="Measure times, too.", rich_help_panel=_ONE_LAYER
    ),
) -> None:
    """Write a page on accuracy, of the catalog, a layer or a net, with figures as JSON and CSV."""
    of_catalog = {"layers": layers, "trials": trials}
    of_layer = {
        "input": input,
        "weight": weight,
        "padding": padding,
        "stride": stride,
        "groups": groups,
        "tolerance": tolerance,
        "thorough": thorough or None,
        "numbers": numbers or None,
        "timed": timed or None,
    }
    if subject is not None and not _is_file(subject):
        _refuse({**of_layer, **of_catalog}, "only without a net")
        page = _net(output, subject)
    elif subject is input is weight is None:
        _refuse(of_layer, f"only together with {_NAMED}")
        page = _catalog(output, **_chosen(of_catalog))
    else:
        _refuse(of_catalog, "only in the report on the catalog, of no layer")
        page = _layer(output, subject, **_chosen(of_layer))
    typer.echo(page)


def _is_file(subject: str) -> bool:
    """Whether it is a file and no net; names of nets have no suffix."""
    from winogen.tuning.nets import known

    path = Path(subject)
    return path.suffix != "" or (subject not in known() and path.exists())


def _chosen(options: dict[str, Any]) -> dict[str, Any]:
    """The options that the user gave."""
    return {name: value for name, value in options.items() if value is not None}


def _refuse(options: dict[str, Any], allowed: str) -> None:
    for name, value in _chosen(options).items():
        raise InvalidValue(f"{name}: got {str(value)!r}; allowed: {allowed}")


def _catalog(output: Path, layers: str = "thesis27", **options: Any) -> Path:
    from winogen.progress import counting
    from winogen.reports import Case, write_catalog_report
    from winogen.tuning.layers import load_layers

    chosen = () if layers == "none" else load_layers(layers)
    cases = [Case(one.name, one.problem(), one.data) for one in chosen]
    with counting("measuring") as step:
        return write_catalog_report(output, cases, progress=step, **options)


def _net(output: Path, name: str) -> Path:
    from winogen.cli.outputs import print_wide
    from winogen.progress import counting
    from winogen.reports import write_net_report
    from winogen.tuning import nets

    try:
        net = nets.trained(name)
    except InvalidValue as error:
        raise InvalidValue(f"{error}, or a JSON file with a layer") from None
    with counting("measuring") as step:
        page, document = write_net_report(output, lambda: net.quality(name, step))
    print_wide(_quality_table(document))
    return page


def _layer(
    output: Path,
    layer: str | None,
    input: str | None = None,
    weight: str | None = None,
    tolerance: float | None = None,
    **options: Any,
) -> Path:
    from winogen.progress import counting
    from winogen.reports import Case, write_layer_report

    flags = {name: options.pop(name, False) for name in ("thorough", "numbers", "timed")}
    given = {"input": input, "weight": weight}
    loaded = {name: _array(name, text) for name, text in given.items() if not _is_shape(text)}
    if layer is None:
        shapes = {
            name: loaded[name].shape if name in loaded else _shape(name, text)
            for name, text in given.items()
        }
        described = _of_shapes(shapes, options)
    else:
        for name in given.keys() - loaded.keys():
            _refuse({name: given[name]}, f"an array, or nothing: {layer} says its shape")
        described = _of_file(layer, options)

    drawn = described.data() if len(loaded) < 2 else (None, None)
    arrays = tuple(loaded.get(name, array) for array, name in zip(drawn, given))
    sources = {
        key: str(given[name]) if name in loaded else "random, normal"
        for key, name in (("input", "input"), ("weights", "weight"))
    }
    case = Case(described.name, described.problem(), lambda: arrays, sources)
    chosen = {} if tolerance is None else {"tolerance": tolerance}
    with counting("measuring") as step:
        page = write_layer_report(output, case, progress=step, **flags, **chosen)
    if flags["numbers"]:
        from winogen.cli.outputs import print_wide

        print_wide(_numbers_table(page))
    return page


def _numbers_table(page: Path) -> Table:
    """What the page says of number formats: errors, predicted and measured, and times."""
    from winogen.files import read_json
    from winogen.tables import number, table_of

    document = read_json("report", page.with_name("report.json"), "the report")
    return table_of(
        f"{document['layer']['name']}: error against time",
        "error: max |y - y64| / max |y64|; *: nothing is both faster and more accurate",
        {
            "": lambda row: row["label"] + (" *" if row["pareto"] else ""),
            "filters, bytes": lambda row: f"{row['packed_weight_bytes']:,}",
            "error": lambda row: number(row["relative_max"], ".1e"),
            "predicted": lambda row: number(row["planned_relative_max"], ".1e"),
            "predicted ms": lambda row: number(row["predicted_ms"], ".3g"),
            "measured ms": lambda row: number(row.get("measured_ms"), ".3g"),
        },
        document["rows"],
    )


def _quality_table(document: dict) -> Table:
    """PSNR of a net's output: one row per number format, one column per algorithm."""
    from functools import partial

    from rich.markup import escape

    from winogen.tables import number, table_of

    def cell(column: str, row: dict) -> str:
        star = "*" if row["by"].get(column) == "numpy" else ""
        return number(row["psnr"].get(column), ".1f") + star

    net = document["net"]
    columns = {column: partial(cell, column) for column in document["columns"]}
    return table_of(
        f"{net['title']}: PSNR in dB against float64, peak 1, of {net['layers']} layers in",
        "*: by numpy, for no kernel does that",
        {"numbers": lambda row: escape(row["numbers"]), **columns},
        document["rows"],
    )


def _is_shape(text: str | None) -> bool:
    """Whether it is no file: integers with commas between them, or nothing."""
    return text is None or re.fullmatch(r"[\d, ]*", text) is not None


def _shape(name: str, text: str | None) -> tuple[int, ...]:
    if text is None:
        raise InvalidValue(f"{name}: got none; allowed: {_NAMED}")
    return integers(name, text, 4)


def _of_shapes(shapes: dict[str, tuple[int, ...]], options: dict[str, Any]) -> BenchLayer:
    """The layer of these shapes, with further options."""
    from winogen.tuning.layers import BenchLayer

    name = ":".join(",".join(map(str, shape)) for shape in shapes.values())
    fields: dict[str, Any] = {"name": name, **{key: [*one] for key, one in shapes.items()}}
    for key in ("padding", "stride"):
        if key in options:
            pair = list(integers(key, options[key], 1, 2))
            fields[key] = pair * 2 if len(pair) == 1 else pair
    if "groups" in options:
        fields["groups"] = options["groups"]
    return BenchLayer.from_dict(fields, "layer")


def _of_file(text: str, options: dict[str, Any]) -> BenchLayer:
    """The layer of a JSON file, which has all."""
    from winogen.files import read_json
    from winogen.tuning.layers import BenchLayer

    path = Path(text)
    fields = read_json("layer", path, "a JSON file")
    _refuse(options, f"nothing, {text} says it")
    if isinstance(fields, list) and len(fields) == 1:
        fields = fields[0]
    if not isinstance(fields, dict):
        raise InvalidValue(f"layer: got {text}; allowed: a file with one layer")
    return BenchLayer.from_dict({"name": path.stem, **fields}, f"layer, {text}")


def _array(name: str, path: str | None) -> np.ndarray:
    from winogen.files import read_array

    array = read_array(name, str(path))
    if not hasattr(array, "shape"):
        raise InvalidValue(f"{name}: got {str(path)!r}, which is .npz; allowed: one array, .npy")
    return array
