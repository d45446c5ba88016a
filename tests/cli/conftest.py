"""Runs `winogen` in this process, with kernels compiled as those of the convolution tests are."""

import pytest
from conv.conftest import quick_kernels
from typer.testing import CliRunner

from winogen import progress
from winogen.cli.app import app

__all__ = ["quick_kernels"]


@pytest.fixture
def winogen():
    """``winogen("derive", "2", "3")`` runs the command; ``.output``, ``.exit_code`` tell."""

    def run(*words):
        try:
            runner = CliRunner(mix_stderr=False)  # what click >= 8.2 always does
        except TypeError:
            runner = CliRunner()
        return runner.invoke(app, [str(word) for word in words])

    return run


@pytest.fixture
def refused(winogen, monkeypatch):
    """Run a command that must fail with one clear line and status 2; return the line."""
    monkeypatch.setattr(progress, "_FIRST", 3600.0)  # a busy machine is no reason for more lines

    def run(*words) -> str:
        result = winogen(*words)
        assert result.exit_code == 2
        assert "Traceback" not in result.output
        (line,) = result.stderr.strip().splitlines()  # rich 13.0 ends a status by an empty line
        assert line.startswith("winogen: ")
        return line

    return run
