"""The command line: thin functions that read options, call the package and print."""

import os
import signal
import sys


def main() -> None:
    """Run `winogen` with the arguments of this process."""
    if os.environ.get("NO_COLOR"):  # which wins, for all that this process runs, too
        for name in ("FORCE_COLOR", "PY_COLORS", "CLICOLOR_FORCE"):
            os.environ.pop(name, None)
    # What runs ends as by Ctrl-C: with its processes, and without folders left behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    from winogen.cli.app import app

    app(prog_name="winogen")
