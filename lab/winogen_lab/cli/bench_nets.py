"""`winogen bench --nets`: whole networks by everybody who is installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from winogen.errors import InvalidValue


def bench_nets(
    names: list[str],
    only: str | None,
    peers: str | None,
    *,
    beside: list[str],
    threads: int,
    rounds: int,
    min_time: float,
    as_json: bool,
    results: Path | None,
    plot: Path | None,
    show: Path | None,
    seconds: float | None,
    resume: bool,
    within: dict[str, float],
) -> None:
    """Measure the nets of these names, all if there are none; print, write and draw the result.

    The file ``results`` is written at once and after each net; with ``resume``, nets that it has
    already are not measured again. After ``seconds`` no further net begins. Raises InvalidValue for
    unknown names, NotInstalled for what a net needs.
    """
    from winogen.cli.options import print_json
    from winogen.cli.outputs import print_wide
    from winogen_lab.nets import report, tables

    if show is not None:
        document = report.load(show)
    else:
        earlier = None
        if resume:
            if results is None:
                raise InvalidValue(
                    "resume: got it without --results; allowed: with the file to go on"
                )
            earlier = report.load(results, "resume") if results.exists() else None
        settings = {
            "threads": threads, "rounds": rounds, "min_time": min_time,
            "seconds": inf if seconds is None else seconds, "within": within,
        }  # fmt: skip
        keep = partial(report.save, path=results) if results is not None else _nothing
        document = _measure(names, only, peers, beside, settings, earlier, keep)
    if as_json:
        print_json(document)
    else:
        print_wide(tables.render(document))
    if plot is not None:
        from winogen_lab.nets.plot import save_plot

        save_plot(document, plot)


def _measure(
    names: list[str],
    only: str | None,
    peers: str | None,
    beside: list[str],
    settings: dict[str, Any],
    earlier: dict | None,
    keep: Callable[[dict], None],
) -> dict:
    from winogen.progress import stderr, telling
    from winogen_lab.cli.contestants import places
    from winogen_lab.nets import chosen_nets
    from winogen_lab.nets.runner import NetSettings, run_nets
    from winogen_lab.peers import chosen

    console = stderr()

    def tell(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    how = NetSettings(rivals=chosen(peers, "net", tell), beside=places(beside), **settings)
    nets = chosen_nets(names, tell)
    if only is not None:
        nets = tuple(net for net in nets if only in net.name)
        if not nets:
            raise InvalidValue(f"only: got {only!r}; allowed: a part of the name of a net")
    with telling("measuring") as say:
        return run_nets(nets, how, say, earlier, keep)


def _nothing(document: dict) -> None:
    pass
