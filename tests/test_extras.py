"""A module that is not installed: the extra that brings it is named."""

import sys

import pytest

from winogen.extras import missing, requirements


@pytest.mark.parametrize("module, package, extra", [
    ("torch", "torch", "torch"),
    ("torch.nn.functional", "torch", "torch"),
    ("onnx", "onnx", "onnx"),
    ("onnxruntime", "onnxruntime", "onnx"),
    ("matplotlib.pyplot", "matplotlib", "plot"),
    ("PIL", "matplotlib", "plot"),
    ("distributed", "distributed", "search"),
])  # fmt: skip
def test_the_extra_of_a_module(monkeypatch, module, package, extra):
    monkeypatch.setitem(sys.modules, module.partition(".")[0], None)
    with pytest.raises(ImportError) as failed:
        __import__(module)
    text = str(missing(failed.value))
    assert text.startswith(f"{package}: cannot be imported (")
    assert text.endswith(f"; install it by pip install 'winogen[{extra}]'")
    assert package in [one.package for one in requirements()[extra]]


def test_the_extra_of_another_distribution(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError) as failed:
        __import__("sklearn")
    assert missing(failed.value) is None
    assert "pip install 'winogen-lab[lowrank]'" in str(missing(failed.value, "winogen-lab"))
    assert missing(failed.value, "no-such-distribution") is None


def test_other_modules_are_of_no_extra():
    assert missing(ImportError("No module named 'winogen.none'", name="winogen.none")) is None
    assert missing(ImportError("a library cannot be loaded")) is None
