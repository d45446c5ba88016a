"""The fewest bits that keep a net: the search, and a small net's as golden figures."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from winogen.algebra import cook_toom
from winogen.cli.app import app
from winogen.errors import InvalidValue
from winogen.fixed import integral
from winogen.fixed.words import Widths, full_widths
from winogen.tasks.results import Results
from winogen_lab.nets import word_lengths as words
from winogen_lab.nets.word_nets import WordNet, subject

MADE = integral(cook_toom(2, 3))
# Bits from which on a net that is made up is good, and what each bit less costs.
NEEDED = {"filters": 8, "tiles": 9, "transforms": 13, "sums": 11}


class Fake:
    """A net whose quality follows from the widths."""

    net, room = SimpleNamespace(name="fake", title="made up", unit="dB"), 1.0
    direct, taps, channels, fast = 40.0, 3, 64, [None] * 5

    def __init__(self):
        self.asked = []

    def full(self, made):
        return full_widths(made, self.channels)

    def quality(self, name, made, widths: Widths):
        self.asked.append(widths)
        lacking = [max(0, NEEDED[key] - (bits or 99)) for key, bits in vars(widths).items()]
        # Each just within the limit alone, and two bits too few with another.
        return self.direct - 0.6 * sum(lacking)


@pytest.fixture
def row(monkeypatch):
    def of(net, kept=None):
        search = words._Search(
            net, "f2_3", MADE, Results(None, words._check) if kept is None else kept
        )
        return words._row(search, net.direct - 1)

    return of


def test_the_search_finds_the_fewest_bits_of_each_and_of_all(row):
    net = Fake()
    found = row(net)
    assert found["exact"] == {"products": [12, 10], "transforms": 27, "sums": 27}
    assert found["alone"] == {"products": 8, "transforms": 12, "sums": 10}
    # One bit less of tiles has used up 0.6 of the 1 dB.
    assert found["together"] == {"products": 8, "transforms": 13, "sums": 11}
    assert found["quality"] == pytest.approx(39.4)
    assert found["curves"]["sums"] == [[8, 38.2], [9, 38.8], [10, 39.4], [11, 40], [12, 40]]
    assert len(net.asked) == len(set(net.asked)) < 40


def test_what_was_computed_is_not_computed_again(row, tmp_path):
    first, again = Fake(), Fake()
    file = tmp_path / "kept.jsonl"
    kept = Results(file, words._check)
    found = row(first, kept)
    kept.close()
    assert row(again, Results(file, words._check)) == found and not again.asked
    file.write_text('{"task": {}, "result": 3}\n')
    with pytest.raises(InvalidValue, match="results: got line 1 of"):
        words.word_lengths(["tiny"], results=file)


def test_the_table_and_the_picture(row, tmp_path):
    pytest.importorskip("matplotlib")
    from winogen_lab.nets.word_plot import save_plot

    net = {"name": "fake", "title": "made up", "unit": "dB", "direct": 40.0, "rows": [row(Fake())]}
    document = {"loss": 1.0, "nets": [net, net]}
    text = words.table(document)
    assert "fake: made up; int8 direct 40 dB, allowed 39" in text
    assert "f2_3  F(2, 3)  12x10 > 8     27 > 12  27 > 10  8, 13, 11  39.4" in text
    save_plot(document, tmp_path / "bits.svg")
    picture = (tmp_path / "bits.svg").read_text("utf-8")
    assert picture.count("bits of transforms") == 2 and picture.count("<!-- fake, dB -->") == 2


def test_a_small_net():
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    (net,) = words.word_lengths(["tiny"], [2])["nets"]
    (found,) = net["rows"]
    assert net["direct"] == 52.4
    assert found["alone"] == {"products": 9, "transforms": 12, "sums": 10}
    assert found["together"] == {"products": 9, "transforms": 12, "sums": 11}


@pytest.mark.parametrize("name", ["tiny", "residual"])
def test_full_widths_are_int8_direct_convolution(name):
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    net = WordNet(subject(name))
    if name == "residual":
        assert net.direct == pytest.approx(99.5, abs=0.51) and len(net.fast) == 5
    # Modulo 2^64, not by words of as many bits, which data might not have needed.
    assert net.quality("f2_3", MADE, Widths()) == net.direct
    assert net.quality("f2_3", MADE, Widths(filters=4, tiles=4)) < net.direct - 0.5


def test_the_trained_resnet():
    pytest.importorskip("torch")
    import torch

    from winogen_lab.nets.digits import digits
    from winogen_lab.nets.residual import FILE, residual

    assert FILE.stat().st_size < 250_000
    samples = digits().held_out
    with torch.no_grad():
        scores = residual()(torch.from_numpy(samples.pictures)).numpy()
    assert samples.accuracy(scores) == pytest.approx(599 / 600, abs=1.01 / 600)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["vgg16"], "nets: got 'vgg16'; allowed: animevideov3, "),
        (["tiny", "--tiles", "3"], "tiles: got 3; allowed: 2, 4, 6"),
        (["tiny", "--loss", "-1"], "loss: got -1"),
        (["tiny", "--loss", "nan"], "loss: got nan"),
        (["tiny", "--room", "0.5"], "room: got 0.5; allowed: 1 to 16"),
        (["tiny", "--room", "nan"], "room: got nan; allowed: 1 to 16"),
        (["tiny", "-o", "bits.txt"], "plot: got 'bits.txt'; allowed: a name with .png"),
    ],
)
def test_mistakes_are_refused_before_any_work(arguments, message, monkeypatch):
    monkeypatch.setattr(words, "WordNet", lambda *given: pytest.fail("worked"))
    result = CliRunner().invoke(app, ["lab", "word-lengths", *arguments])
    assert result.exit_code == 2 and result.stderr.startswith(f"winogen: {message}")


def test_the_command(row, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    document = {"kind": "word lengths", "loss": 1.0, "nets": []}
    monkeypatch.setattr(words, "word_lengths", lambda *given: document)
    result = CliRunner().invoke(app, ["lab", "word-lengths", "tiny", "--json"])
    assert json.loads(result.stdout) == document
