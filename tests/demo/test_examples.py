"""The examples in the docstrings of the demonstration and of `winogen generate` run."""

import doctest
from importlib import import_module

import pytest

MODULES = ("winogen.demo.filters", "winogen.demo.workload", "winogen.conv.standalone")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name):
    result = doctest.testmod(import_module(name))
    assert result.attempted and not result.failed
