"""Templates ask for no name that their record lacks, and records have none that nobody asks for."""

import importlib
import re
import sys
from dataclasses import MISSING, dataclass, fields, is_dataclass
from fnmatch import filter as matching
from functools import cache
from pathlib import Path

import pytest
from jinja2 import meta, nodes

import winogen
from winogen import kernels
from winogen.codegen import context
from winogen.codegen.templates import Context, environment

ENVIRONMENT = environment()
TEMPLATES = ENVIRONMENT.loader.list_templates()


# ---- what a template asks for --------------------------------------------------------------------


@cache
def parsed(name):
    path = Path(name)  # absolute: of another distribution
    known = path.is_absolute()
    text = path.read_text() if known else ENVIRONMENT.loader.get_source(ENVIRONMENT, name)[0]
    return ENVIRONMENT.parse(text)


def names_in(target):
    """The names that a statement assigns to."""
    inner = [one.name for one in target.find_all(nodes.Name)]
    return {target.name, *inner} if isinstance(target, nodes.Name) else set(inner)


def bound_inside(node):
    """Names that what a statement holds may use, besides those around it."""
    if isinstance(node, nodes.For):
        return names_in(node.target) | {"loop"}
    if isinstance(node, nodes.Macro | nodes.CallBlock):
        return {argument.name for argument in node.args}
    return set()


def bound_behind(node):
    """Names that a statement leaves to those that follow."""
    if isinstance(node, nodes.Assign | nodes.AssignBlock):
        return names_in(node.target)
    if isinstance(node, nodes.Macro):
        return {node.name}
    if isinstance(node, nodes.Import):
        return {node.target}
    if isinstance(node, nodes.FromImport):
        return {name if isinstance(name, str) else name[1] for name in node.names}
    if isinstance(node, nodes.If):
        return {name for inner in node.iter_child_nodes() for name in bound_behind(inner)}
    return set()


def pattern_of(expression):
    """The names that an expression may have, as a pattern."""
    if isinstance(expression, nodes.Const):
        return str(expression.value)
    if isinstance(expression, nodes.Concat):
        return "".join(map(pattern_of, expression.nodes))
    return "*"


def included(node, scope):
    """Yield the pattern of each template that is included, and the names that it is given."""
    if isinstance(node, nodes.Include):
        yield pattern_of(node.template), scope
    if isinstance(node, nodes.Import | nodes.FromImport):
        yield pattern_of(node.template), scope if node.with_context else None
    inner = scope | bound_inside(node)
    for child in node.iter_child_nodes():
        yield from included(child, inner)
        inner = inner | bound_behind(child)


@cache
def asked(name, scope=frozenset()):
    """The names that a template takes from its record: (those it needs, those it may take).

    What it sets on some of its ways it may take on others. ``scope``: names that whoever includes
    it has set.
    """
    tree = parsed(name)
    own = {one for node in tree.find_all(nodes.Stmt) for one in bound_behind(node)}
    undeclared = meta.find_undeclared_variables(tree) - set(ENVIRONMENT.globals) - scope
    needed, possible = undeclared - own, set(undeclared)
    for pattern, given in included(tree, frozenset()):
        found = matching(TEMPLATES, pattern)
        assert found, (name, pattern)
        for other in found:
            seen = frozenset() if given is None else scope | given
            inner_needed, inner_possible = asked(other, seen)
            assert given is not None or not inner_needed, f"{name} imports {other} without names"
            needed, possible = needed | inner_needed, possible | inner_possible
    return needed, possible


def with_included(name):
    """A template and all that it includes."""
    waiting, found = [name], {name}
    while waiting:
        for pattern, _ in included(parsed(waiting.pop()), frozenset()):
            more = set(matching(TEMPLATES, pattern)) - found
            found |= more
            waiting += more
    return found


# ---- records -------------------------------------------------------------------------------------


def records():
    """Every record of winogen, and those that others derive from."""
    folder = Path(winogen.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if re.search(r"^class .*\btemplates=|^ +\w*, templates=", path.read_text(), re.M):
            module = path.relative_to(folder.parent).with_suffix("")
            importlib.import_module(".".join(module.parts))
    waiting, found = [Context], []
    while waiting:
        derived = [one for one in waiting.pop().__subclasses__() if one.__module__ != __name__]
        found += derived
        waiting += derived
    return found


RECORDS = records()


def files_of(record):
    return {file for pattern in record.templates for file in matching(TEMPLATES, pattern)}


def derived(record):
    return [one for one in RECORDS if issubclass(one, record)]


@pytest.mark.parametrize("record", RECORDS, ids=lambda one: one.__name__)
def test_no_name_hides_a_function_of_all_templates(record):
    assert not {field.name for field in fields(record)} & set(ENVIRONMENT.globals)


@pytest.mark.parametrize("record", RECORDS, ids=lambda one: one.__name__)
def test_no_template_lacks_a_name(record):
    fields_of = {field.name for field in fields(record)}
    for file in sorted(files_of(record)):
        missing = asked(file)[0] - fields_of
        assert not missing, f"{file}: {record.__name__} has no {', '.join(sorted(missing))}"


@pytest.mark.parametrize("record", RECORDS, ids=lambda one: one.__name__)
def test_no_record_has_a_name_that_nobody_asks_for(record):
    files = {file for one in derived(record) for file in files_of(one)}
    used = {name for file in files for name in asked(file)[1]}
    unused = [name for name in record.__annotations__ if name not in used]
    assert files and not unused, f"{record.__name__}: nobody asks for {', '.join(unused)}"


def record_types(record):
    """The fields that are records in turn, and their classes."""
    for base in record.__mro__:
        module = vars(sys.modules[base.__module__])
        for name, text in vars(base).get("__annotations__", {}).items():
            kinds = map(module.get, str(text).split(" | "))
            yield from ((name, kind) for kind in kinds if is_dataclass(kind))


@pytest.mark.parametrize("record", RECORDS, ids=lambda one: one.__name__)
def test_what_templates_ask_of_a_field_it_has(record):
    inner = dict(record_types(record))
    for file in {other for one in files_of(record) for other in with_included(one)}:
        for node in parsed(file).find_all(nodes.Getattr):
            kind = isinstance(node.node, nodes.Name) and inner.get(node.node.name)
            if kind:
                known = {field.name for field in fields(kind)} | set(dir(kind))
                assert node.attr in known, f"{file}: {node.node.name} has no {node.attr}"


def test_every_template_is_filled_in_from_a_record():
    known = {file for record in RECORDS for file in files_of(record)}
    known |= {
        file
        for name in TEMPLATES
        if name.endswith(".j2")
        for pattern, _ in included(parsed(name), frozenset())
        for file in matching(TEMPLATES, pattern)
    }
    assert not [name for name in TEMPLATES if name.endswith(".j2") and name not in known]


def test_templates_of_other_distributions_lack_no_name():
    from winogen.codegen.convolution import ConvolutionContext

    fields_of = {field.name for field in fields(ConvolutionContext)}
    for variant in kernels.variants().values():
        if variant.folder:
            asks, _ = asked(str(variant.folder / variant.template))
            assert asks <= fields_of, (variant.name, asks - fields_of)


# ---- a name too few or too many ------------------------------------------------------------------


def test_a_missing_name_fails_before_any_text_is_made():
    known = {
        field.name: None for field in fields(context.KernelContext) if field.default is MISSING
    }
    context.KernelContext(**known)
    with pytest.raises(TypeError, match="layout"):
        context.KernelContext(**{name: value for name, value in known.items() if name != "layout"})
    with pytest.raises(TypeError, match="keep"):
        context.KernelContext(**known, keep=1)


def test_a_record_fills_in_its_own_templates_alone():
    @dataclass(frozen=True, kw_only=True)
    class Maps(Context, templates=("network/maps.?.j2",)):
        name: str

    with pytest.raises(LookupError, match=r"template of Maps: got tile.c.j2; allowed: network/"):
        Maps(name="net").render("tile.c.j2")


def test_what_includes_give_and_macros_need_is_seen(monkeypatch):
    from jinja2 import DictLoader

    texts = {
        "whole": '{% set here = 1 %}{% for i in rows %}{% include "part" %}{% endfor %}',
        "part": '{{ here }}{{ i }}{{ far }}{% import "own" as own with context %}{{ own.f() }}',
        "own": "{% if some %}{% set mine = 2 %}{% endif %}{% macro f() %}{{ deep }}{% endmacro %}",
        "dark": '{% from "own" import f %}{{ f() }}',
    }
    monkeypatch.setattr(ENVIRONMENT, "loader", DictLoader(texts))
    monkeypatch.setitem(globals(), "TEMPLATES", list(texts))
    for remembered in (parsed, asked):
        remembered.cache_clear()
    try:
        assert asked("whole")[0] == {"rows", "far", "some", "deep"}
        with pytest.raises(AssertionError, match="dark imports own without names"):
            asked("dark")
    finally:
        for remembered in (parsed, asked):
            remembered.cache_clear()
