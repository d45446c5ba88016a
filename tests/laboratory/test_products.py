"""Products of matrices that are measured, and what the tables say of their times."""

import re
from contextlib import suppress

import pytest

from winogen.errors import InvalidValue
from winogen.tuning.layers import layer_sets, load_layers
from winogen_lab.bench import gemm, prefetch, products
from winogen_lab.bench.prefetch import NONE, Gain, settings
from winogen_lab.bench.products import Product, interval, measured


@pytest.fixture(autouse=True)
def measured_here(monkeypatch):
    """The commands would start themselves anew for other libraries' threads."""
    monkeypatch.setenv("WINOGEN_BENCH_CHILD", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_the_set_has_the_products_of_all_others():
    """But for DenseNet-121, whose dozens differ in the number of channels only."""

    def sizes(layer):
        return (*layer.input[2:], layer.input[1], layer.weight[0])

    # Two for which a generator with prefetching gained most and least (Keane's thesis,
    # chapter 7).
    wanted = {(56, 56, 64, 16), (14, 14, 512, 64)}
    for name in {*layer_sets()} - {"densenet121", "squeezenet1.0", products.SET}:
        for layer in load_layers(name):
            with suppress(InvalidValue):
                Product.of(layer)
                wanted.add(sizes(layer))
    assert sorted(map(sizes, load_layers(products.SET))) == sorted(wanted)


def test_layers_that_are_no_products_are_refused():
    for name in ("thesis27", "mobilenet-v2", "resnet50"):
        with pytest.raises(InvalidValue, match="no product of matrices"):
            products.products(name)
    (one,) = products.products(only="56x56_64_16")
    assert one == Product("56x56_64_16", 3136, 16, 64) and one.flops == 2 * 3136 * 16 * 64
    assert len(products.products(only="56x56_64_16,14x14_512_64")) == 2
    with pytest.raises(InvalidValue, match="only: got 'x9'"):
        products.products(only="x9")


def test_all_take_turns():
    calls = []
    ways = {name: lambda name=name: calls.append(name) for name in "ab"}
    times = measured(ways, rounds=2, threads=1)
    assert calls[2:] == [*"aaabbb", *"bbbaaa"] and len(times["a"]) == len(times["b"]) == 2


def test_intervals():
    assert interval([3.0]) == (3.0, 3.0, 3.0)
    middle, low, high = interval(list(range(100)))
    assert (middle, low, high) == (50, 40, 59)
    assert Gain(1.2, 1.1, 1.3).text == "1.20 (1.10..1.30)"
    assert Gain(1.2, 0.9, 1.3).text == Gain(1.0, 1.0, 1.0).text == "no effect"


@pytest.mark.parametrize(
    "words, message",
    [
        ((["C"], [0], [1]), "streams: got 'C'; allowed: A, B, both, output"),
        ((["A"], [65], [1]), "distances: got 65"),
        ((["A"], [32768], [1]), "distances: got 32768"),
        ((["A"], [0], [3]), "levels: got 3; allowed: 1, 2"),
    ],
)
def test_settings_that_there_are_not(words, message):
    with pytest.raises(InvalidValue, match=re.escape(message)):
        settings(*words)


def test_the_study_tells_gains_from_noise(monkeypatch, capsys):
    """Times are made up: B gains a tenth, the output nothing, A costs a tenth."""

    def turns(ways, rounds, threads):
        assert threads == 1
        for way in ways.values():
            way()
        factor = {"A": 1.1, "B": 0.9, "none": 1.0}
        noise = [1 + i % 3 / 100 for i in range(rounds)]
        return {
            name: [factor.get(name.split()[0], n) * n for n in noise]
            for name, _ in zip(ways, range(99))
        }

    monkeypatch.setattr(prefetch, "measured", turns)
    monkeypatch.setattr(prefetch, "Gemm", lambda b, **options: lambda a, out: None)
    words = ("--layers", "30,20,40", "--streams", "A,B,output", "--distances", "64")
    assert prefetch.main([*words, "--levels", "1", "--rounds", "9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "30,20,40: 30 x 20, k 40" in lines
    assert [line.split(maxsplit=3)[3] for line in lines if line.startswith("    ")] == [
        *("0.91 (0.91..0.91)", "1.11 (1.11..1.11)", "no effect")
    ]
    assert lines[-1] == "1 of 3 settings have no effect on any of 1 products"
    assert NONE.text == "none 0 L1"


def test_the_table_of_products(capsys):
    assert gemm.main(["--layers", "40,33,50", "--rounds", "3"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"40,33,50 +40 +33 +50 +\d+ +\d+ +\d+ +\d+", text)
    assert "geometric mean" in text and "worst" in text
    with pytest.raises(SystemExit):
        gemm.main(["--layers", "nowhere"])
    assert "layers: got 'nowhere'" in capsys.readouterr().err
    for words in (["--streams", "D"], ["--distances", "x"], ["--only", "x9"]):
        with pytest.raises(SystemExit):
            prefetch.main(words)
