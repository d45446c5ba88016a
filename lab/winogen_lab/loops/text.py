"""The C of a loop nest: statement by statement, with the vectors of ``csrc/parts/vector.h.j2``."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from winogen.records import Target
from winogen_lab.loops.build import build
from winogen_lab.loops.nest import (
    Add,
    Affine,
    Begin,
    Body,
    Bound,
    Copy,
    Fetch,
    Finish,
    Fma,
    For,
    Guard,
    HAdd,
    Let,
    Load,
    Nest,
    Node,
    Permute,
    Store,
    Unscramble,
    Widen,
    walk,
)
from winogen_lab.loops.parameters import LoopProblem, Parameters

_COLUMNS = 100

Lines = list[tuple[int, str]]  # how deep, and the text


def nest_of(problem: LoopProblem, parameters: Parameters, target: Target) -> dict[str, Any]:
    """Return what the template of the variant `loops` knows of a nest."""
    nest = build(problem, parameters, target)
    used = [type(node) for node in walk(nest.body)]
    body = nest.body
    part: list[str] = []
    parallel = next((node for node in body if isinstance(node, For) and node.parallel), None)
    if parallel is not None:
        # Its iterations are the parts of the work.
        low = parallel.low.const
        step = f" * {parallel.step}" if parallel.step > 1 else ""
        begin = f"{low} + " if low else ""
        part = [f"const int64_t {parallel.index} = {begin}part % PARTS{step};"]
        place = body.index(parallel)
        body = (*body[:place], *parallel.body, *body[place + 1 :])
    lines = [*_statement(*part), *_lines(body)]
    arrays = {node.array for node in walk(nest.body) if isinstance(node, (Load, Store))}
    return {
        "problem": problem,
        "parts": nest.parts,
        "about": textwrap.wrap(parameters.text.replace(",", ", "), _COLUMNS - 4),
        "packed": nest.packed,
        "pack": _pack(nest, bool(problem.weights)),
        "tile": nest.tile,
        "sums": nest.sums,
        "wide": nest.wide,
        # Narrow outputs that lie as their sums do wait in the buffer that they are rounded from.
        "rounds": bool(problem.arrays) and parameters.output == problem.output_layout,
        "pitch": dict(zip("MHW", nest.pitch)),
        "image": parameters.image,
        "tile_size": next((n.size for n in walk(nest.body) if isinstance(n, Copy)), None),
        "layout": next((n.layout for n in walk(nest.body) if isinstance(n, Copy)), None),
        "by_pixel": parameters.output.endswith("M"),
        "uses": {
            "copies": Copy in used,
            "begin": Begin in used,
            "bias": "bias" in arrays,
            "image": "image" in arrays,
            "unscramble": Unscramble in used,
        },
        "block16": 16 // (4 if problem.dtype == "float32" else 8),
        "body": "\n".join(_laid_out(lines, 4)),
    }


def _laid_out(lines: Lines, indent: int) -> Iterator[str]:
    """Yield lines of at most 100 columns."""
    for depth, line in lines:
        before = " " * (indent + 4 * depth)
        yield from textwrap.wrap(
            line, _COLUMNS, initial_indent=before, subsequent_indent=before + " " * 4,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip


def _statement(*lines: str) -> Lines:
    return [(0, line) for line in lines]


def _deeper(lines: Lines) -> Lines:
    return [(depth + 1, line) for depth, line in lines]


def _lines(body: Body) -> Lines:
    lines: Lines = []
    place = 0
    while place < len(body):
        node = body[place]
        after = body[place + 1] if place + 1 < len(body) else None
        if isinstance(after, For) and after.resumes and isinstance(node, For):
            # The second loop goes on where the first one ended.
            both = [(0, f"int64_t {node.index} = {node.low};"), *_loop(node, ""), *_loop(after, "")]
            lines += [(0, "{"), *_deeper(both), (0, "}")]
            place += 2
            continue
        lines += _text(node)
        place += 1
    return lines


def _least(bound: Bound) -> str:
    texts = [str(form) for form in dict.fromkeys(bound)]
    return texts[0] if len(texts) == 1 else f"min_of({texts[0]}, {texts[1]})"


def _loop(node: For, begin: str, before: str = "") -> Lines:
    step = f"{node.index}++" if node.step == 1 else f"{node.index} += {node.step}"
    head = f"{before}for ({begin}; {node.index} < {_least(node.high)}; {step})"
    return _headed(head, node.body)


def _headed(head: str, body: Body) -> Lines:
    """A body behind what repeats it or asks for it: in braces if it is more than one statement.

    So is one with an "else": readers, and compilers with warnings, could take it for another
    "if"'s.
    """
    inner = _lines(body)
    ambiguous = any(text == "} else {" for _, text in inner)
    if len(body) != 1 or inner[0][1] == "{" or ambiguous:
        return [(0, f"{head} {{"), *_deeper(inner), (0, "}")]
    if len(inner) == 1 and len(head) + len(inner[0][1]) < _COLUMNS - 32:
        return [(0, f"{head} {inner[0][1]}")]
    return [(0, head), *_deeper(inner)]


@singledispatch
def _text(node: Node) -> Lines:
    raise TypeError(f"{type(node).__name__} has no C")


@_text.register
def _(node: For) -> Lines:
    if node.role == "register":
        before = f"UNROLL({node.high[0]}) "
        return _loop(node, f"int {node.index} = {node.low}", before)
    return _loop(node, f"int64_t {node.index} = {node.low}")


@_text.register
def _(node: Guard) -> Lines:
    holds = " && ".join(map(_condition, node.conditions))
    if not node.otherwise:
        return _headed(f"if ({holds})", node.body)
    inner, otherwise = _deeper(_lines(node.body)), _deeper(_lines(node.otherwise))
    return [(0, f"if ({holds}) {{"), *inner, (0, "} else {"), *otherwise, (0, "}")]


def _condition(form: Affine) -> str:
    """At least 0: indices with a minus go to the right.

    >>> _condition(Affine.of("h") * -1 + 5), _condition(Affine.of("h") * 2 - 1)
    ('h <= 5', '2*h >= 1')
    """
    left = Affine(0, tuple(term for term in form.terms if term[1] > 0))
    right = left - form
    return f"{left} >= {right}" if left.names else f"{right + form.const} <= {form.const}"


@_text.register
def _(node: Let) -> Lines:
    kind = "vec" if node.symbol.kind == "vector" else "real"
    shape = "".join(f"[{count}]" for count in node.symbol.shape)
    zero = (" = {0}" if node.symbol.shape or kind == "vec" else " = 0") if node.zero else ""
    return _statement(f"{kind} {node.symbol.name}{shape}{zero};")


def _at(array: str, address: Affine) -> str:
    return f"{array} + {address}" if str(address) != "0" else array


@_text.register
def _(node: Load) -> Lines:
    return _statement(f"{node.to} = {_loaded(node)};")


def _loaded(node: Load) -> str:
    if node.array == "bias":
        if node.kind == "vector":
            some = "LANES" if node.some is None else str(node.some)
            return f"bias_lanes(bias, {node.address}, {some})"
        one = f"(bias ? bias[{node.address}] : 0)"
        return f"broadcast{one}" if node.kind == "broadcast" else one
    if node.kind == "scalar":
        return f"{node.array}[{node.address}]"
    inside, load, place = node.inside, *_readers(node.array)
    if node.kind == "broadcast":
        number = f"{node.array}[{node.address}]"
        if node.array in _WIDENS:
            number = f"{_WIDENS[node.array]}({number})"
        return _if_inside(node, f"broadcast({number})")
    place = f"{place}({node.array}, {node.address})"
    if node.run == 1 and node.stride == 1:
        if inside is None:
            return f"{load}({_at(node.array, node.address)})"
        return f"{load}_pixels({place}, {inside.position}, {inside.extent})"
    if node.run:
        limits = "0, 0, 1"  # every run is inside
        if inside is not None:
            limits = f"{inside.position}, {inside.step}, {inside.extent}"
        some = str(node.run if node.some is None else node.some)
        return f"{load}_runs({place}, {node.run}, {node.stride}, {limits}, {some})"
    if node.some is None:
        return _if_inside(node, f"{load}({_at(node.array, node.address)})")
    return _if_inside(node, f"{load}_first({_at(node.array, node.address)}, {node.some})")


# What makes one number of the arrays that may hold narrower ones what is computed with.
_WIDENS = {"image": "widened", "kernel": "widened_filter"}


def _readers(array: str) -> tuple[str, str]:
    """What loads a vector of an array, and says where a number lies."""
    if array == "image":
        return "load_array", "array_address"
    return "load_filters" if array == "kernel" else "load", "address"


def _if_inside(node: Load, text: str) -> str:
    if node.inside is None:
        return text
    return f"inside({node.inside.position}, {node.inside.extent}) ? {text} : (vec){{0}}"


@_text.register
def _(node: Store) -> Lines:
    if node.scalar:
        return _statement(f"{node.array}[{node.address}] = {node.value};")
    if node.some is None:
        return _statement(f"store({_at(node.array, node.address)}, {node.value});")
    return _statement(f"store_first({_at(node.array, node.address)}, {node.value}, {node.some});")


@_text.register
def _(node: Fma) -> Lines:
    lane = "" if node.lane is None else f"[{node.lane}]"
    return _statement(f"{node.sum} += {node.a} * {node.b}{lane};")


@_text.register
def _(node: Add) -> Lines:
    return _statement(f"{node.sum} += {node.a};")


@_text.register
def _(node: HAdd) -> Lines:
    return _statement(f"{node.sum} += sum_of_lanes({node.a});")


@_text.register
def _(node: Permute) -> Lines:
    return _statement(
        f"{node.to} = SHUFFLE({node.a}, {node.a}, {', '.join(map(str, node.lanes))});"
    )


@_text.register
def _(node: Unscramble) -> Lines:
    name = "pixels_of" if node.by == "W" else "filters_of"
    return _statement(f"{name}({node.sums}, {node.to});")


@_text.register
def _(node: Copy) -> Lines:
    row, col, channel = node.low
    return _statement(f"copy_inputs(run, image, {row}, {col}, {channel}, tile);")


@_text.register
def _(node: Widen) -> Lines:
    return _statement(f"widen_filters({_at('kernel', node.address)}, wide);")


@_text.register
def _(node: Begin) -> Lines:
    first, sizes = node.region.low[0], ", ".join(map(_least, node.region.size))
    return _statement(f"begin_sums(bias, {first}, {sizes}, {_at(node.array, node.address)});")


@_text.register
def _(node: Finish) -> Lines:
    filters, rows, cols = map(_least, node.region.size)
    first, row, col = (
        base if str(form) == "0" else f"{base} + {form}"
        for base, form in zip(("group * FILTERS", "p->row_begin", "p->col_begin"), node.region.low)
    )
    done = f"n, {row}, {col}, {first}, {rows}, {cols}, {filters}"
    sums = ", sums" if node.waits else ""
    return _statement(f"finish_sums(run, (outputs){{ {done} }}{sums});")


@_text.register
def _(node: Fetch) -> Lines:
    locality = {1: 3, 2: 2}[node.level]
    place = _at(node.array, node.address)
    return _statement(f"FETCH({place}, {node.distance}, {int(node.write)}, {locality});")


def _pack(nest: Nest, narrow: bool) -> str:
    """The loops that write packed filters one after the other."""
    index = {"M": "m", "m": "i", "C": "k", "Y": "y", "X": "x"}
    lines = []
    for depth, (dim, count, step) in enumerate(nest.packed_order):
        one = index[dim]
        move = f"{one}++" if step == 1 else f"{one} += {step}"
        lines.append(
            " " * (8 + 4 * depth) + f"for (int64_t {one} = 0; {one} < {count * step}; {move})"
        )
    inner = any(dim == "m" for dim, _, _ in nest.packed_order)
    place = "m + i" if inner else "m"
    of = f"filter_at(of, {place}, k, y, x)"
    one = f"store_filter(packed++, {of});" if narrow else f"*packed++ = {of};"
    lines.append(" " * (8 + 4 * len(nest.packed_order)) + one)
    return "\n".join(lines)
