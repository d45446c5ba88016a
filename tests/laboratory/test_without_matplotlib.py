"""Without matplotlib, what draws says so before it measures; everything else works."""

import sys

import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.demo import workload
from winogen.reports import reports
from winogen_lab.bench import runner
from winogen_lab.nets import files

MESSAGE = "matplotlib: cannot be imported"
CURE = "pip install 'winogen[plot]'"


@pytest.fixture(autouse=True)
def without(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    def worked(*arguments, **options):
        pytest.fail("measured")

    monkeypatch.setattr(runner, "run", worked)
    monkeypatch.setattr(workload, "measure", worked)
    monkeypatch.setattr(reports, "catalog_report", worked)


@pytest.mark.parametrize(
    "command",
    (
        ("demo", "-o", "pictures"),
        ("report", "-o", "pictures"),
        ("bench", "--plot", "pictures/plot.png"),
        ("bench", "--nets", "--plot", "pictures/plot.png"),
        ("lab", "explain", "--plot", "pictures/plot.png"),
        ("lab", "front", "--plot", "pictures/plot.png"),
        ("lab", "word-lengths", "-o", "pictures/plot.png"),
    ),
)
def test_what_draws_says_what_it_needs(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2 and MESSAGE in result.output and CURE in result.output
    assert not list(tmp_path.iterdir())


def test_files_of_a_net_say_what_they_need(capsys, tmp_path):
    assert files.main(["tiny", str(tmp_path)]) == 2
    printed = capsys.readouterr().out
    assert MESSAGE in printed and CURE in printed


def test_what_does_not_draw_needs_none():
    assert CliRunner().invoke(app, ["derive", "2", "3"]).exit_code == 0
    assert CliRunner().invoke(app, ["cache"]).exit_code == 0
