"""What low ranks do to trained nets: what is refused, and the table. Nets need packages."""

import pytest

from winogen.errors import InvalidValue
from winogen_lab.low_rank import WAYS, measure, table
from winogen_lab.nets import NETS


def test_only_trained_nets():
    with pytest.raises(InvalidValue, match="net: got 'vgg16'; allowed: a trained one, animevideo"):
        measure("vgg16", [2.0])


def test_pictures():
    with pytest.raises(InvalidValue, match='picture: got \'sea\'; allowed: "hopper", "china"'):
        measure("animevideov3-x2", [2.0], picture="sea")


def test_the_table():
    psnr = dict(zip(WAYS, (28.04, 34.1, 34.5, 35.06)))
    rivals = [
        {"way": "CP", "reason": "no package", "residual": None, "psnr": None},
        {"way": "Tucker-2", "reason": "", "residual": 0.5, "psnr": 30.56},
    ]
    row = {"factor": 2.0, "psnr": psnr, "seconds": (3.0, 4.0), "rivals": rivals}
    text = table({"net": "small", "picture": "hopper", "rows": [row]})
    assert text.startswith("small, hopper: ")
    assert "2x        28.0      34.1      34.5      35.1   0.75 of exact's speed" in text
    assert "CP: left out: no package" in text
    assert "Tucker-2: 30.6 dB, mean error of filters 0.50" in text


@pytest.mark.thorough
def test_a_trained_net_keeps_its_quality():
    """Of which truncation alone leaves nothing: 30.6 dB is what enlarging without any net has."""
    pytest.importorskip("torch.nn")
    pytest.importorskip("onnxruntime")
    missing = NETS["animevideov3-x2"].missing()
    if missing:
        pytest.skip(missing)
    (row,) = measure("animevideov3-x2", [2.0])["rows"]
    assert row["psnr"]["plain"] < 30.6 < 33.9 < row["psnr"]["fitted"]
    assert row["psnr"]["by budget"] > row["psnr"]["fitted"] + 0.3
