"""The command line: thin functions that read options, call the package and print."""

import os


def main() -> None:
    """Run `winogen` with the arguments of this process."""
    if os.environ.get("NO_COLOR"):  # which wins, for all that this process runs, too
        for name in ("FORCE_COLOR", "PY_COLORS", "CLICOLOR_FORCE"):
            os.environ.pop(name, None)
    from winogen.cli.app import app

    app(prog_name="winogen")
