"""The command line: thin functions that read options, call the package and print."""


def main() -> None:
    """Run `winogen` with the arguments of this process."""
    from winogen.cli.app import app

    app(prog_name="winogen")
