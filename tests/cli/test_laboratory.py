"""Commands of other distributions, by entry points; a sentence says how to get the laboratory's."""

from importlib.metadata import EntryPoint

import pytest

CURE = "install it by pip install ./lab in a clone of winogen"


@pytest.fixture
def offering(monkeypatch):
    """``offering(bench="module:name")``: these are all entry points of each group."""

    def offer(**entries):
        some = {name: EntryPoint(name, value, "winogen.some") for name, value in entries.items()}
        for user in ("winogen.cli.app", "winogen.tuning.nets", "winogen.kernels.variant"):
            monkeypatch.setattr(f"{user}.offered", lambda group: some)

    return offer


@pytest.mark.parametrize("words", [
    "bench", "bench --help", "bench --nets unet --threads 2", "lab", "lab loops --input 3",
])  # fmt: skip
def test_a_command_that_is_not_there_says_how_to_get_it(refused, offering, words):
    offering()
    name = words.split()[0]
    line = refused(*words.split())
    assert line.startswith(f"winogen: {name} is a command of winogen's laboratory") and CURE in line


def test_help_lists_commands_that_are_there(winogen, offering):
    with_it = winogen("--help").output
    assert all(f"\n│ {name} " in with_it for name in ("bench", "lab", "report"))
    offering()
    without = winogen("--help").output
    assert "\n│ report " in without
    assert "\n│ bench " not in without and "\n│ lab " not in without


def test_a_command_that_cannot_be_imported_says_so_and_the_others_work(refused, winogen, offering):
    offering(bench="no_such_module:app")
    line = refused("bench", "--nets")
    assert "bench cannot be imported (No module named 'no_such_module')" in line and CURE in line
    assert winogen("--help").exit_code == 0


def test_any_distribution_may_add_a_command(winogen, offering):
    offering(lab2="winogen_lab.cli.app:laboratory")
    assert "Usage: winogen lab2 " in winogen("lab2", "--help").output


def test_an_unknown_command_is_refused(winogen):
    result = winogen("bunch")
    assert result.exit_code == 2 and "No such command 'bunch'" in result.stderr


@pytest.mark.parametrize("words", [
    "tune unet", "report tiny -o out", "calibrate --layers unet",
])  # fmt: skip
def test_nets_need_somebody_who_offers_them(refused, offering, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINOGEN_WISDOM", str(tmp_path / "wisdom"))
    offering()
    assert "allowed: " in (line := refused(*words.split())) and "pip install ./lab" in line
    assert not (tmp_path / "out").exists()


def test_an_algorithm_of_nobody_is_refused(refused, offering):
    offering()
    words = ("plan", "--input", "1,4,9,9", "--weight", "8,4,3,3", "--algorithm", "loops")
    assert "algorithm: got 'loops'; allowed: " in refused(*words)
