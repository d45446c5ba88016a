"""`winogen verify`: right, wrong, unreadable."""

import json
from importlib.resources import files


def test_right_wrong_and_unreadable(winogen, refused, tmp_path):
    text = files("winogen.algebra").joinpath("known/strassen.toml").read_text("utf-8")
    file = tmp_path / "one.toml"
    file.write_text(text)
    assert "right: matrix product 2x2x2\n  products   7, the" in winogen("verify", file).stdout
    found = json.loads(winogen("verify", file, "--json").stdout)
    assert (found["right"], found["products"], found["definition"]) == (True, 7, 8)
    file.write_text(text.replace("c21 = m3 + m4", "c21 = m3 - m4"))
    done = winogen("verify", file)
    assert done.exit_code == 1
    assert not json.loads(winogen("verify", file, "--json").stdout)["right"]
    assert done.stdout.startswith("wrong: matrix product 2x2x2: the coefficient of d e in c21 is 2")
    file.write_text(text.replace("m1 = a*(f - h)", "m1 = a*(f - z)"))
    assert "formulas: line 1: m1 = got 'a*(f - z)'" in refused("verify", file)
