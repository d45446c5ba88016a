"""Every example in a docstring runs, and everything public is explained where it is defined."""

import doctest
import inspect
import linecache
from importlib import import_module
from pkgutil import iter_modules, walk_packages

import pytest

import winogen
import winogen_lab

MODULES = [
    module.name
    for package in (winogen, winogen_lab)
    for module in walk_packages(package.__path__, f"{package.__name__}.")
]
# What a module, or its examples, import, if that is an extra.
NEEDS = dict.fromkeys(
    ("winogen.torch", "winogen.testing", "winogen.lowrank.programs"), "torch"
) | dict.fromkeys(
    (
        f"winogen_lab.nets.{name}"
        for name in ("blocks", "classifiers", "inception", "ncnn_torch", "restoration")
    ),
    "torch",
)
STATIONS = [
    f"{package.__name__}.{m.name}"
    for package in (winogen, winogen_lab)
    for m in iter_modules(package.__path__)
    if m.ispkg
]


def _skip_without_its_extra(name):
    for module, extra in NEEDS.items():
        if name == module or name.startswith(f"{module}."):
            pytest.importorskip(extra)


@pytest.mark.parametrize("name", ["winogen", "winogen_lab", *MODULES])
def test_the_examples_run(name):
    _skip_without_its_extra(name)
    linecache.clearcache()  # whose files doctest would look at anew for each docstring
    assert doctest.testmod(import_module(name)).failed == 0


@pytest.mark.parametrize("name", sorted({"winogen", "winogen.errors", *STATIONS}))
def test_public_names_are_explained(name):
    _skip_without_its_extra(name)
    module = import_module(name)
    for public in getattr(module, "__all__", ()):
        thing = getattr(module, public)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            own = inspect.getdoc(thing)
            # A dataclass without a docstring gets its signature for one.
            assert own and not own.startswith(f"{public}("), f"{name}.{public} has no docstring"
    assert module.__doc__, name


@pytest.mark.parametrize("name", winogen.__all__)
def test_the_front_door_has_examples(name):
    thing = getattr(winogen, name)
    if inspect.isroutine(thing) or (inspect.isclass(thing) and not issubclass(thing, Exception)):
        assert ">>>" in inspect.getdoc(thing), name
