"""`winogen tolerance`: as text, as JSON, refused."""

import json

import winogen as package


def test_text_json_and_refused(winogen, refused):
    text = winogen("tolerance", 4, 3, "--channels", 64, "--2d").stdout
    assert "np.testing.assert_allclose" in text
    found = json.loads(winogen("tolerance", 4, 3, "--channels", 64, "--2d", "--json").stdout)
    same = package.tolerance(package.cook_toom(4, 3), channels=64)
    assert found["relative"] == same.relative
    assert set(found["lines"]) == {"c", "numpy", "torch"}
    assert "dtype: got" in refused("tolerance", 4, 3, "--dtype", "int8")
