"""All commands of `winogen`, and what happens when one of them fails."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from winogen import extras
from winogen.cli import (
    algebras,
    bench,
    bundle,
    cache,
    calibrate,
    compress,
    cover,
    demo,
    derive,
    doctor,
    engine,
    engine_tables,
    explain,
    fixed,
    front,
    generate,
    loops,
    low_rank,
    onnx,
    plan,
    regret,
    report,
    search,
    search_loops,
    stack,
    strassen,
    transforms,
    tune,
    verify,
    ways,
    word_lengths,
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
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # of typer's pydantic
            raise
        except (WinogenError, OSError) as error:
            reason: Exception = error
        except ImportError as error:
            missing = extras.missing(error)
            if missing is None:
                raise
            reason = missing
        typer.echo(f"winogen: {reason}", err=True)
        raise typer.Exit(BAD_INPUT)


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


_EXACT = "Algorithms and C"
_MACHINE = "Layers on this machine"
_MODELS = "Models"
_LABORATORY = "Figures and pictures"

app.command(epilog=derive.EXAMPLE, rich_help_panel=_EXACT)(derive.derive)
app.command(epilog=fixed.EXAMPLE, rich_help_panel=_EXACT)(fixed.fixed)
app.command(epilog=search.EXAMPLE, rich_help_panel=_EXACT)(search.search)
app.command(epilog=verify.EXAMPLE, rich_help_panel=_EXACT)(verify.verify)
app.add_typer(transforms.app, name="transforms", rich_help_panel=_EXACT)
app.command(epilog=generate.EXAMPLE, rich_help_panel=_EXACT)(generate.generate)
app.command(epilog=generate.GEMM_EXAMPLE, rich_help_panel=_EXACT)(generate.generate_gemm)
app.command(epilog=plan.EXAMPLE, rich_help_panel=_MACHINE)(plan.plan)
app.command(epilog=tune.EXAMPLE, rich_help_panel=_MACHINE)(tune.tune)
app.command(epilog=calibrate.EXAMPLE, rich_help_panel=_MACHINE)(calibrate.calibrate)
app.command(epilog=cache.EXAMPLE, rich_help_panel=_MACHINE)(cache.cache)
app.command(epilog=doctor.EXAMPLE, rich_help_panel=_MACHINE)(doctor.doctor)
app.add_typer(onnx.app, name="onnx", rich_help_panel=_MODELS)
app.command(epilog=bundle.EXAMPLE, rich_help_panel=_MODELS)(bundle.bundle)
app.command(epilog=compress.EXAMPLE, rich_help_panel=_MODELS)(compress.compress)
app.command(epilog=engine.EXAMPLE, rich_help_panel=_MODELS)(engine.engine)
app.command(epilog=demo.EXAMPLE, rich_help_panel=_LABORATORY)(demo.demo)
app.command(epilog=bench.EXAMPLE, rich_help_panel=_LABORATORY)(bench.bench)
app.command(epilog=report.EXAMPLE, rich_help_panel=_LABORATORY)(report.report)

laboratory = App(
    help="What binds a layer, which algebra suits it, how well plans are chosen, and loop nests.",
    no_args_is_help=True,
)
laboratory.command(epilog=explain.EXAMPLE)(explain.explain)
laboratory.command(epilog=stack.EXAMPLE)(stack.stack)
laboratory.command(epilog=ways.EXAMPLE)(ways.ways)
laboratory.command(epilog=strassen.EXAMPLE)(strassen.strassen)
laboratory.command(epilog=front.EXAMPLE)(front.front)
laboratory.command(epilog=algebras.JOINED)(algebras.joined)
laboratory.command(epilog=algebras.FOURIER)(algebras.fourier)
laboratory.command(epilog=low_rank.EXAMPLE)(low_rank.low_rank)
laboratory.command(epilog=word_lengths.EXAMPLE)(word_lengths.word_lengths)
laboratory.command(epilog=regret.EXAMPLE)(regret.regret)
laboratory.command(epilog=cover.EXAMPLE)(cover.cover)
laboratory.command(epilog=loops.EXAMPLE)(loops.loops)
laboratory.command(epilog=search_loops.EXAMPLE)(search_loops.search_loops)
laboratory.command(epilog=engine_tables.WORK)(engine_tables.work)
laboratory.command("engine", epilog=engine_tables.ENGINE)(engine_tables.engine_figures)
app.add_typer(laboratory, name="lab", rich_help_panel=_LABORATORY)
