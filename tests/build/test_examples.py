"""The examples in the docstrings of this station run."""

import doctest
from importlib import import_module

import pytest

MODULES = (
    *("winogen.build.host", "winogen.build.loader", "winogen.build.progress"),
    "winogen.codegen.targets",
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name):
    result = doctest.testmod(import_module(name))
    assert result.attempted and not result.failed
