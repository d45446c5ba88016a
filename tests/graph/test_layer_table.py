"""Tables of layers that fit into a terminal, with times that can be believed."""

import pytest

from winogen.graph.layer_table import Line, table

LONG = "/decoder/layers.3/attention/some_block.0/projection/Conv"
WHAT = "transposed conv 4x4 512->512 stride 2,2 pad 1,1,1,1 groups 8 + leaky_relu 0.2 + add"


def cells(line, framework="torch", predicted=False):
    """The cells of the only row of a table, by their heads."""
    head, _, row, *_ = table([line], framework, predicted)
    return dict(zip(head.split(), row.split()))


def test_a_layer_has_one_time_of_each():
    line = Line("a", "conv", "mcmr", 1e-3, 1.5e-3, 6e-3, 1e-6)
    assert cells(line) == {
        "layer": "a", "computes": "conv", "runs": "mcmr", "ms": "1.50", "torch": "6.00",
        "gain": "4.00", "error": "1.0e-06",
    }  # fmt: skip
    assert cells(line, predicted=True)["predicted"] == "1.00"


def test_predictions_take_the_place_of_measurements_and_say_so():
    lines = [Line("a", "conv", "mcmr", 1e-3), Line("b", "conv", "mcmr", 1e-3, 1e-3, 2e-3)]
    assert cells(lines[0])["ms"] == "~1.00" and cells(lines[1])["ms"] == "1.00"
    text = "\n".join(table(lines, "torch"))
    assert "~ predicted for an idle machine, not measured" in text and "?" not in text


@pytest.mark.parametrize("measured, mark", [(2.9e-3, ""), (3.1e-3, "?"), (11.6e-3, "?")])
def test_times_that_others_disturbed_are_marked(measured, mark):
    line = Line("a", "conv", "mcmr", 1e-3, measured, 12e-3)
    assert [cells(line)[name][4:] for name in ("ms", "torch")] == [mark, mark]
    assert ("do not rely on it" in "\n".join(table([line], "torch"))) == bool(mark)


def test_calls_of_microseconds_are_not_called_disturbed():
    assert not Line("a", "conv", "mcmr", 2e-6, 90e-6).is_disturbed


@pytest.mark.parametrize("predicted", [False, True])
def test_no_line_is_wider_than_a_terminal(predicted):
    lines = [
        Line(LONG, WHAT, "winograd2d winograd2d_filters 6x6", 1.2, 9.9, 123.4, 1e-6, "why " * 40),
        Line("b", "conv", "torch", note="torch is faster"),
    ]
    made = table(lines, "onnxruntime", predicted)
    assert max(map(len, made)) <= 100
    assert "..." in made[2] and "winograd2d_filters 6x6 [1]" in made[2]
    assert "[2] torch is faster" in made


def test_columns_without_an_entry_are_left_out():
    made = table([Line("a", "conv 3x3 pad 1,1,1,1", "torch", note="it is left alone")], "torch")
    assert made[0].split() == ["layer", "computes", "runs"] and "conv 3x3 pad 1 " in made[2]


def test_sides_that_differ_are_all_there():
    assert "pad 0,1,0,1" in table([Line("a", "conv 3x3 pad 0,1,0,1", "torch")], "torch")[2]
