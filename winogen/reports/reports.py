"""A report from beginning to end: measure, draw, then write; all is written or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from winogen.reports import files
from winogen.reports.catalog import CHANNELS, Effort, chosen, measure_catalog, steps
from winogen.reports.layers import Case, compiled_ahead, measure_layers
from winogen.reports.own import TOLERANCE, measure_own
from winogen.reports.page import render

Progress = Callable[[int, int, str], None]  # (steps done, of how many, what was done last)


def catalog_report(
    cases: Sequence[Case] = (),
    *,
    names: Iterable[str] | None = None,
    trials: int = 5000,
    channels: Sequence[int] = CHANNELS,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict:
    """Return the report on the catalog as plain data, ready for JSON.

    Parameters
    ----------
    cases
        Layers that `conv2d` computes, beside torch where that is installed.
    names
        Entries of the catalog; None for all.
    trials
        Random tiles per measurement, as `winogen.numerics.measure` takes them.
    channels
        The channel counts of the error over channels.
    seed
        Of all random tiles; the same arguments on the same machine give the same data.

    Raises
    ------
    InvalidValue
        Unknown names, numbers that are not allowed.
    BuildError
        No kernels.

    >>> found = catalog_report(names=["f2_3", "f4_3"], trials=100, channels=(1, 4))
    >>> [entry["name"] for entry in found["entries"]], found["entries"][1]["published"]
    (['f2_3', 'f4_3'], 3.29e-07)
    """
    effort = Effort(trials, seed, tuple(channels))
    transforms = chosen(names)
    total, done = steps(transforms, effort) + len(cases), 0

    def step(what: str) -> None:
        nonlocal done
        done += 1
        if progress:
            progress(done, total, what)

    with compiled_ahead(cases):
        tiles = measure_catalog(transforms, effort, step)
    return {
        "kind": "catalog",
        "settings": {"trials": trials, "seed": seed},
        "made_by": _made_by(compiled=bool(cases)),
        **tiles,
        "layers": measure_layers(cases, step),
    }


def layer_report(
    case: Case,
    *,
    tolerance: float = TOLERANCE,
    thorough: bool = False,
    numbers: bool = False,
    timed: bool = False,
    progress: Progress | None = None,
) -> dict:
    """Return the report on one layer as plain data, ready for JSON.

    Parameters
    ----------
    case
        The layer, and the input and weights to measure with; float32.
    tolerance
        How large max |error| / max |output| may be in what is recommended.
    thorough
        Every tile of every algorithm, and the catalog's other points. Takes some 30
        kernels more to compile the first time.
    numbers
        Every number format, too: narrow filters, products of integers, narrow arrays. Takes as
        many kernels more.
    timed
        Times measured on this machine, beside the predicted ones.

    Raises
    ------
    InvalidType, InvalidValue
        Data that do not fit the layer.
    BuildError
        No kernels.

    >>> import numpy as np
    >>> from winogen.conv import Layer
    >>> problem = Layer.of((2, 3, 1, 1), "float32").problem((1, 3, 4, 4))
    >>> data = lambda: (np.ones((1, 3, 4, 4), "float32"), np.ones((2, 3, 1, 1), "float32"))
    >>> [row["label"] for row in layer_report(Case("tiny", problem, data))["rows"]]
    ['auto: direct', 'direct', 'im2col']
    """
    found = measure_own(
        case,
        tolerance=tolerance,
        thorough=thorough,
        numbers=numbers,
        timed=timed,
        progress=progress,
    )
    return {**found, "made_by": _made_by(compiled=True)}


def write_catalog_report(output: str | Path, cases: Sequence[Case] = (), **options: Any) -> Path:
    """Measure and write `catalog_report` into the folder ``output``; return the page.

    Writes index.html, report.json and one CSV per table. Raises InvalidValue if the folder cannot
    be written to, before any work; what `catalog_report` raises leaves no file behind.
    """
    with files.folder(output) as partial:
        document = catalog_report(cases, **options)
        tables = {
            "catalog.csv": document["entries"],
            "published.csv": document["published"]["sets"],
            "channels.csv": _series(document["channels"], "channels", "relative_l2"),
            "histogram.csv": _histogram(document["histogram"]),
        }
        if document["layers"]["rows"]:
            tables["layers.csv"] = document["layers"]["rows"]
        _write(partial, document, tables)
    return Path(output) / files.PAGE


def write_layer_report(output: str | Path, case: Case, **options: Any) -> Path:
    """Measure and write `layer_report` into the folder ``output``; return the page.

    Writes index.html, report.json, algorithms.csv and histogram.csv; all or nothing, as above.
    """
    with files.folder(output) as partial:
        document = layer_report(case, **options)
        tables = {
            "algorithms.csv": document["rows"],
            "histogram.csv": _histogram(document["histogram"]),
        }
        _write(partial, document, tables)
    return Path(output) / files.PAGE


def write_net_report(output: str | Path, measure: Callable[[], dict]) -> tuple[Path, dict]:
    """Write what ``measure()`` finds of a net; return the page and the document.

    ``measure`` is that of somebody who offers nets (`winogen.tuning.nets`). Writes
    index.html, report.json and quality.csv; all or nothing, as above.
    """
    with files.folder(output) as partial:
        document = {**measure(), "made_by": _made_by(compiled=True)}
        rows = [
            {"numbers": row["numbers"], **{c: row["psnr"].get(c) for c in document["columns"]}}
            for row in document["rows"]
        ]
        _write(partial, document, {"quality.csv": rows})
    return Path(output) / files.PAGE, document


def _write(partial: Path, document: dict, tables: dict[str, list[dict]]) -> None:
    texts = {name: files.csv_text(rows) for name, rows in tables.items()}
    texts[files.DATA] = files.json_text(document)
    texts[files.PAGE] = render(document, list(tables))
    for name, text in texts.items():
        (partial / name).write_text(text, encoding="utf-8")


def _series(part: dict, key: str, value: str) -> list[dict]:
    """One row per channel count, one column per series."""
    return [
        {key: count, **{row["name"]: row[value][k] for row in part["series"]}}
        for k, count in enumerate(part[key])
    ]


def _histogram(part: dict) -> list[dict]:
    """One row per bin, one column per series; the first row is what lies below all bins."""
    edges = [0.0, *part["edges"]]
    return [
        {
            "from": edges[k],
            "to": edges[k + 1],
            **{row["name"]: [row["below"], *row["shares"]][k] for row in part["series"]},
        }
        for k in range(len(edges) - 1)
    ]


def _made_by(compiled: bool) -> dict:
    import numpy

    import winogen
    from winogen.toolchain import host_target
    from winogen.toolchain.compiler import compiler_name

    versions = {"winogen": winogen.__version__, "numpy": numpy.__version__}
    if compiled:
        versions |= {"instruction set": host_target().name, "compiler": compiler_name()}
    return versions
