"""Products of nets by schemes: the printed ranks of VGG-16, and what a count by hand gives."""

import json

import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.conv import Layer
from winogen_lab.schemes import counted, factors

RANKS = "4,12,40,40,50,60,70,80,100,110,80,78,78"
PRINTED = (2.15, 8.0, 3.2, 4.8, 5.12, 6.4, 5.49, 6.4, 7.68, 6.98, 9.6, 9.85, 9.85)


def schemes(*words):
    return CliRunner().invoke(app, ["lab", "schemes", *map(str, words)])


def test_vgg_at_the_printed_ranks():
    found = schemes("vgg16", "--ranks", RANKS, "--json")
    assert found.exit_code == 0, found.output
    net = json.loads(found.stdout)["nets"]["vgg16"]
    for layer, rank, printed in zip(net["layers"], RANKS.split(","), PRINTED):
        assert layer["rank"] == int(rank)
        assert layer["direct"] / layer["products"]["ADaPT"] == pytest.approx(printed, abs=0.006)
    assert net["factors"]["Winograd"] == 4
    assert net["factors"]["FALCON"] == pytest.approx(12.06, abs=0.005)  # 2 c, of all layers


def test_four_nets_side_by_side():
    lines = schemes("--factor", 4).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["net", "alexnet", "vgg16", "googlenet",
                                                   "resnet50"]  # fmt: skip
    vgg = [float(word) for word in lines[2].split()[-3:]]
    assert vgg == pytest.approx([4, 4, 8], abs=0.03)


def test_layers_that_stay_as_they_are():
    """Of one tap; and with a stride, along which there are no tiles."""
    one = Layer.of((8, 16, 1, 1), "float32").problem((1, 16, 6, 6))
    apart = Layer.of((8, 16, 3, 3), "float32", stride=(2, 1)).problem((1, 16, 9, 6))
    same, half = counted([one, apart], tile=4, factor=1)
    assert same.rank is None and set(same.products.values()) == {same.direct}
    assert half.products["Winograd"] == half.direct / 2  # six of twelve along the width
    assert factors([same])["FALCON"] == 1


@pytest.mark.parametrize("words, message", [
    (("vgg16", "--ranks", "1,2"), "ranks: got 2; allowed: one for each of the 13 layers"),
    (("vgg16", "--ranks", RANKS.replace("12", "999")), "ranks: got 999 for 224x224x64-64"),
    (("vgg16,alexnet", "--ranks", RANKS), "ranks: got them for 2 nets"),
    (("vgg16", "--factor", "0.5"), "factor: got 0.5"),
    (("nonet",), "nonet"),
])  # fmt: skip
def test_refusals(words, message):
    found = schemes(*words)
    assert found.exit_code == 2 and message in found.output + found.stderr
