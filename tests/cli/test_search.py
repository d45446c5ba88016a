"""`winogen search`: what it prints, keeps and refuses."""

import json

import pytest

import winogen as package

FEW = ("search", 3, 3, "--keep", 6, "--trials", 500, "--height", 4)


def test_prints_the_best_first_and_how_to_derive_it(winogen):
    result = winogen(*FEW)
    assert result.exit_code == 0
    head, first, *rest = result.stdout.splitlines()
    assert "mean |error|" in head and "products" in head
    assert float(first.split()[0]) <= float(rest[0].split()[0])
    assert rest[-1].startswith("winogen derive 3 3 --points '")


def test_json_and_results_on_disk(winogen, tmp_path):
    path = tmp_path / "results" / "f3_3.jsonl"
    first = winogen(*FEW, "--results", path, "--json")
    found = json.loads(first.stdout)
    assert found[0]["on_front"] and found[0]["mean"] < 2e-7
    assert {"m", "r", "points"} <= found[0]["candidate"].keys()
    lines = path.read_text().splitlines()
    assert winogen(*FEW, "--results", path, "--json").stdout == first.stdout
    assert path.read_text().splitlines() == lines  # nothing was done again


def test_float16_ranks_by_what_it_has_room_for(winogen, refused):
    few = ("search", 6, 3, "--keep", 4, "--trials", 200)
    few = (*few, "--height", 5, "--dtype", "float16")
    best, better = (
        json.loads(winogen(*few, "--json", *more).stdout)[0] for more in ((), ("--scalings",))
    )
    assert best["mean"] < 0.012  # the best in float32, with points up to 4, have 0.17
    assert better["mean"] < best["mean"] and "output" in better["candidate"]
    text = winogen(*few, "--scalings").stdout.split("in Python:\n")[1]
    assert eval(text, {"winogen": package}).points
    assert "dtype: got 'int8'" in refused(*FEW, "--dtype", "int8")
    assert "fused: got True with float64" in refused(*FEW, "--dtype", "float64", "--fused")
    text = refused("search", 16, 3, "--height", 4, "--starts", 1, "--dtype", "float16")
    assert "dtype: got float16, in which every candidate for F(16, 3) overflows" in text


@pytest.mark.parametrize(
    "origin", [{"points": ("0", "1", "-1", "inf")}, {"moduli": ("x", "x^2+1", "inf")}]
)
def test_scaled_rows_are_printed_as_python(origin):
    from winogen.cli.search import _python
    from winogen.numerics.search import Candidate

    plain = Candidate(2, 3, **origin)
    products = plain.multiplications
    factors = {"input": ("2/3",) * products, "output": ("5",) * products}
    scaled = Candidate(2, 3, **origin, **factors)
    assert eval(_python(scaled), {"winogen": package}) == scaled.algorithm != plain.algorithm


def test_a_winner_that_underflows_has_a_note(winogen, monkeypatch):
    from winogen.cli import search as command
    from winogen.numerics.search import Candidate, Search

    points = ("1/4", "-1/4", "5/7", "-5/7", "7/5", "-7/5", "4", "-4")
    notes = command._notes(Search(6, 3, settings={"dtype": "float16"}), Candidate(6, 3, points))
    assert len(notes) == 1 and notes[0].startswith("transformed filter: numbers of about")
    monkeypatch.setattr(command, "_notes", lambda question, candidate: notes)
    assert f"note on the first: {notes[0]}" in " ".join(winogen(*FEW).stdout.split("\n"))


def test_refusals(refused, tmp_path):
    assert "families: got 'odd'" in refused("search", 3, 3, "--families", "odd")
    assert "keep: got 0" in refused("search", 3, 3, "--keep", 0)
    assert "distribution: got 'cauchy'" in refused(*FEW, "--distribution", "cauchy")
    notes = tmp_path / "notes.txt"
    notes.write_text("no results\n")
    assert "notes.txt" in refused(*FEW, "--results", notes)
    notes.write_text("my thesis, no newline")
    assert "notes.txt" in refused(*FEW, "--results", notes)
    assert notes.read_text() == "my thesis, no newline"
    for device in ("/dev/full", "/dev/zero"):
        assert f"results: got '{device}'" in refused(*FEW, "--results", device)


def test_seconds_end_a_search(winogen, refused, tmp_path):
    path = tmp_path / "found.jsonl"
    words = ("search", 6, 3, "--height", 5, "--trials", 300, "--results", path, "--json")
    assert json.loads(winogen(*words, "--seconds", 1e-9).stdout)[0]["mean"] > 0
    lines = path.read_text().splitlines()
    assert len(lines) == 3  # one task to propose, to measure in the first round, and at last
    assert "seconds: got 0.0; allowed" in refused("search", 3, 3, "--seconds", 0)


def test_ctrl_c_prints_the_best_so_far(winogen, monkeypatch):
    from winogen.tasks.execute import Executor

    run, calls = Executor._run, []

    def interrupted(self, tasks, until, first):
        for done in run(self, tasks, until, first):
            yield done
            calls.append(until)
            if len(calls) == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(Executor, "_run", interrupted)
    result = winogen(*FEW)
    assert result.exit_code == 0 and "winogen derive 3 3 --points '" in result.stdout
    assert "stopped: the best so far" in result.stderr
    assert set(calls[3:]) == {0.0}  # what followed was as short as can be


def test_ctrl_c_before_any_result_ends_it(winogen, monkeypatch):
    from winogen.tasks.execute import Executor

    def interrupted(self, tasks, until, first):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(Executor, "_run", interrupted)
    result = winogen(*FEW)
    assert result.exit_code != 0 and not result.stdout
