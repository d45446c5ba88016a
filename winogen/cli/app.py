"""All commands of `winogen`, and what happens when one of them fails."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from winogen.cli import (
    bench,
    cache,
    demo,
    derive,
    explain,
    generate,
    generate_gemm,
    loops,
    onnx,
    planning,
    report,
    search,
    search_loops,
    transforms,
    tune,
)
from winogen.cli.options import App
from winogen.errors import WinogenError

BAD_INPUT = 2  # exit status, as for a usage error


class _Commands(TyperGroup):
    """Prints an expected error as one message instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:  # click's Context, or that of the click inside typer
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # `winogen derive ... | head`: click ends quietly
        except (WinogenError, OSError) as error:
            typer.echo(f"winogen: {error}", err=True)
            raise typer.Exit(BAD_INPUT) from None


app = App(
    name="winogen",
    cls=_Commands,
    help="Synthesizes fast convolution: exact Winograd algorithms, short transforms, readable C.",
    epilog="Example: winogen derive 4 3",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        import winogen

        typer.echo(f"winogen {winogen.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


app.command(epilog=derive.EXAMPLE)(derive.derive)
app.add_typer(transforms.app, name="transforms")
app.add_typer(onnx.app, name="onnx")
app.command(epilog=generate.EXAMPLE)(generate.generate)
app.command(epilog=generate_gemm.EXAMPLE)(generate_gemm.generate_gemm)
app.command(epilog=loops.EXAMPLE)(loops.loops)
app.command(epilog=bench.EXAMPLE)(bench.bench)
app.command(epilog=explain.EXAMPLE)(explain.explain)
app.command(epilog=planning.CALIBRATE_EXAMPLE)(planning.calibrate)
app.command(epilog=planning.REGRET_EXAMPLE)(planning.regret)
app.command(epilog=tune.EXAMPLE)(tune.tune)
app.command(epilog=cache.EXAMPLE)(cache.cache)
app.command(epilog=search.EXAMPLE)(search.search)
app.command(epilog=search_loops.EXAMPLE)(search_loops.search_loops)
app.command(epilog=report.EXAMPLE)(report.report)
app.command(epilog=demo.EXAMPLE)(demo.demo)
