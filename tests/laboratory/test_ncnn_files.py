"""Reading ncnn's nets: files made by hand, byte by byte; what is wrong with a file is said."""

import struct

import numpy as np
import pytest

from winogen.errors import InvalidValue
from winogen_lab.nets import NETS
from winogen_lab.nets.ncnn_files import MAGIC, NcnnLayer, read, sweep, write

# A 1x1 convolution of 2 to 3 channels with a bias, a leaky ReLU, and slopes behind it.
TEXT = f"""{MAGIC}
4 5
Input            in   0 1 x
Split            fork 1 2 x a b
Convolution      conv 1 1 a y 0=3 1=1 5=1 6=6 9=2 -23310=1,0.25
PReLU            bend 1 1 y z 0=3
"""
WEIGHT, BIAS, SLOPES = [1.0, -2.0, 0.5, 3.0, 0.0, -0.25], [0.1, 0.2, 0.3], [1.0, 0.5, 0.0]
HALVES = struct.pack("<I6e", 0x01306B47, *WEIGHT)
SINGLES = struct.pack("<I6f", 0, *WEIGHT)
REST = struct.pack("<6f", *BIAS, *SLOPES)


@pytest.fixture
def files(tmp_path):
    param, binary = tmp_path / "net.param", tmp_path / "net.bin"

    def write_them(text=TEXT, numbers=HALVES + REST):
        param.write_text(text)
        binary.write_bytes(numbers)
        return param, binary

    return write_them


@pytest.mark.parametrize("numbers", [HALVES + REST, SINGLES + REST], ids=["float16", "float32"])
def test_a_file_made_by_hand(files, numbers):
    _, split, conv, prelu = read(*files(numbers=numbers))
    assert split.outputs == ("a", "b")
    assert conv.options == {0: 3, 1: 1, 5: 1, 6: 6, 9: 2, 10: (0.25,)}
    assert conv.weights["weight"].dtype == np.float32
    np.testing.assert_array_equal(conv.weights["weight"], np.reshape(WEIGHT, (3, 2, 1, 1)))
    np.testing.assert_array_equal(conv.weights["bias"], np.float32(BIAS))
    np.testing.assert_array_equal(prelu.weights["slopes"], SLOPES)
    assert prelu.pair(1, 7) == (7, 7) and conv.number(9, 0.0) == 2.0


def test_an_odd_number_of_halves_is_padded(files):
    text = f"{MAGIC}\n2 2\nInput in 0 1 x\nConvolution c 1 1 x y 0=3 1=1 5=1 6=3\n"
    numbers = struct.pack("<I3exx3f", 0x01306B47, 1, 2, 3, 4, 5, 6)
    conv = read(*files(text, numbers))[1]
    assert conv.weights["weight"].ravel().tolist() == [1, 2, 3]
    assert conv.weights["bias"].tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    "change, numbers, message",
    [
        (("7767517", "7767518"), HALVES + REST, "other first lines than 7767517"),
        (("4 5", "5 5"), HALVES + REST, "4 layers where it says 5"),
        (("PReLU ", "Mystery "), HALVES + REST, "with Mystery; allowed: BinaryOp, Concat"),
        (("1,0.25", "2,0.25"), HALVES + REST, "the line 'Convolution"),
        (("1 1 y z 0=3", "1 1 y"), HALVES + REST, "the line 'PReLU"),
        (("6=6", "6=5"), HALVES + REST, "conv with 5 weights; allowed: a multiple of 3"),
        (("0=3 1=1", "0=0 1=1"), HALVES + REST, "conv with 6 weights"),
        (("0=3 1=1", "0=3.5 1=1"), HALVES + REST, "option 0 of conv: got 3.5; allowed: an integer"),
        (("", ""), HALVES + REST[:-4], "with too few bytes"),
        (("", ""), HALVES + REST + b"..", "2 bytes left over"),
        (("", ""), struct.pack("<I", 0x000D4B38) + bytes(60), "weights of kind 0xd4b38"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file(files, change, numbers, message):
    with pytest.raises(InvalidValue) as error:
        read(*files(TEXT.replace(*change), numbers))
    assert message in str(error.value) and "; allowed: " in str(error.value)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(InvalidValue, match="param: got .*none.param with .*No such file"):
        read(tmp_path / "none.param", tmp_path / "none.bin")


def test_what_is_written_is_read(files, tmp_path):
    layers = read(*files())
    write(layers, tmp_path / "again.param", tmp_path / "again.bin")
    again = read(tmp_path / "again.param", tmp_path / "again.bin")
    for one, other in zip(layers, again, strict=True):
        assert (one.kind, one.inputs, one.outputs) == (other.kind, other.inputs, other.outputs)
        assert one.options == other.options
        for name, values in one.weights.items():
            np.testing.assert_array_equal(values, other.weights[name])


def test_blobs_go_where_their_names_say():
    layers = [
        NcnnLayer("Input", "in", (), ("x",)),
        NcnnLayer("Split", "fork", ("x",), ("a", "b")),
        NcnnLayer("Eltwise", "double", ("a",), ("c",)),
        NcnnLayer("BinaryOp", "minus", ("c", "b"), ("y",)),
    ]
    calls = [None, None, lambda a: 2 * a, lambda c, b: c - b]
    assert sweep(layers, calls, 21) == 21


def test_the_net_that_is_kept_here():
    weights = NETS["tiny"].weights
    layers = read(weights.file(".param"), weights.file(".bin"))
    assert [layer.weights["weight"].shape for layer in layers if "weight" in layer.weights] == [
        (16, 3, 3, 3),
        (16, 16, 3, 3),
        (12, 16, 3, 3),
    ]
    assert weights.file(".bin").stat().st_size < 10_000
