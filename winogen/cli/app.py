"""All commands of `winogen`, and what happens when one of them fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from winogen import extras
from winogen.cli import (
    bundle,
    cache,
    calibrate,
    compress,
    demo,
    derive,
    doctor,
    engine,
    fixed,
    generate,
    onnx,
    plan,
    report,
    search,
    tolerance,
    transforms,
    tune,
    verify,
)
from winogen.cli.options import App
from winogen.errors import WinogenError
from winogen.plugins import LABORATORY, offered

BAD_INPUT = 2  # exit status, as for a usage error
_GROUP = "winogen.commands"  # of entry points, each a typer.Typer
# Commands that say how to get them where nobody offers them.
_OF_LABORATORY = "bench", "lab"
_BESIDE = "is a command of winogen's laboratory, which is not installed"


def _absent(name: str, why: str) -> Any:
    """A command that only says why it cannot run, with whatever follows its name."""
    absent = typer.Typer(add_completion=False)

    @absent.command(
        name,
        hidden=True,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def say() -> None:
        raise extras.MissingPackage(f"{name} {why}; install it by {LABORATORY}")

    return get_command(absent)


def _distributions(name: str | None) -> Iterator[str]:
    """Yield the distribution of a command, if it is another than winogen."""
    found = offered(_GROUP).get(name or "")
    if found is not None and found.dist is not None:
        yield found.dist.name


class _Commands(TyperGroup):
    """Prints an expected error as one message instead of a traceback.

    Commands of other distributions are looked for where a name is none of ours, and for the help.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of ours, then those of others."""
        return list(dict.fromkeys([*super().list_commands(ctx), *offered(_GROUP)]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, of whomever it is; None for an unknown name."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        if cmd_name in offered(_GROUP):
            try:
                command: Any = get_command(offered(_GROUP)[cmd_name].load())
            except ImportError as problem:
                return _absent(cmd_name, f"cannot be imported ({problem})")
            command.name, command.rich_help_panel = cmd_name, _FIGURES
            return command
        return _absent(cmd_name, _BESIDE) if cmd_name in _OF_LABORATORY else None

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
            missing = extras.missing(error, *_distributions(ctx.invoked_subcommand))
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


# Panels of the help; commands of other distributions stand in the last one.
_EXACT = "Algorithms and C"
_MACHINE = "Layers on this machine"
_MODELS = "Models"
_FIGURES = "Figures and pictures"

app.command(epilog=derive.EXAMPLE, rich_help_panel=_EXACT)(derive.derive)
app.command(epilog=fixed.EXAMPLE, rich_help_panel=_EXACT)(fixed.fixed)
app.command(epilog=search.EXAMPLE, rich_help_panel=_EXACT)(search.search)
app.command(epilog=verify.EXAMPLE, rich_help_panel=_EXACT)(verify.verify)
app.command(epilog=tolerance.EXAMPLE, rich_help_panel=_EXACT)(tolerance.tolerance)
app.add_typer(transforms.app, name="transforms", rich_help_panel=_EXACT)
app.command(epilog=generate.EXAMPLE, rich_help_panel=_EXACT)(generate.generate)
app.command(epilog=plan.EXAMPLE, rich_help_panel=_MACHINE)(plan.plan)
app.command(epilog=tune.EXAMPLE, rich_help_panel=_MACHINE)(tune.tune)
app.command(epilog=calibrate.EXAMPLE, rich_help_panel=_MACHINE)(calibrate.calibrate)
app.command(epilog=cache.EXAMPLE, rich_help_panel=_MACHINE)(cache.cache)
app.command(epilog=doctor.EXAMPLE, rich_help_panel=_MACHINE)(doctor.doctor)
app.add_typer(onnx.app, name="onnx", rich_help_panel=_MODELS)
app.command(epilog=bundle.EXAMPLE, rich_help_panel=_MODELS)(bundle.bundle)
app.command(epilog=compress.EXAMPLE, rich_help_panel=_MODELS)(compress.compress)
app.command(epilog=engine.EXAMPLE, rich_help_panel=_MODELS)(engine.engine)
app.command(epilog=demo.EXAMPLE, rich_help_panel=_FIGURES)(demo.demo)
app.command(epilog=report.EXAMPLE, rich_help_panel=_FIGURES)(report.report)
