"""`winogen bench --nets`: whole networks by everybody who is installed."""

from __future__ import annotations

from pathlib import Path


def bench_nets(
    names: list[str],
    only: str | None,
    peers: str | None,
    *,
    beside: list[str],
    threads: int,
    rounds: int,
    min_time: float,
    json: Path | None,
    plot: Path | None,
    show: Path | None,
) -> None:
    """Measure the nets of these names, all if there are none; print, write and draw the result.

    Raises InvalidValue for unknown names, NotInstalled for what a net needs.
    """
    from winogen.cli.bench import print_wide
    from winogen.lab.nets import report, tables

    if show is not None:
        document = report.load(show)
    else:
        document = _measure(names, only, peers, beside, threads, rounds, min_time)
        if json is not None:
            report.save(document, json)
    print_wide(tables.render(document))
    if plot is not None:
        from winogen.lab.nets.plot import save_plot

        save_plot(document, plot)


def _measure(
    names: list[str],
    only: str | None,
    peers: str | None,
    beside: list[str],
    threads: int,
    rounds: int,
    min_time: float,
) -> dict:
    from winogen.cli.contestants import places
    from winogen.errors import InvalidValue
    from winogen.lab.nets import chosen_nets
    from winogen.lab.nets.runner import NetSettings, run_nets
    from winogen.lab.peers import chosen
    from winogen.progress import stderr, telling

    console = stderr()

    def tell(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    settings = NetSettings(
        threads, chosen(peers, "net", tell), rounds=rounds, min_time=min_time,
        beside=places(beside),
    )  # fmt: skip
    nets = chosen_nets(names, tell)
    if only is not None:
        nets = tuple(net for net in nets if only in net.name)
        if not nets:
            raise InvalidValue(f"only: got {only!r}; allowed: a part of the name of a net")
    with telling("measuring") as say:
        return run_nets(nets, settings, say)
