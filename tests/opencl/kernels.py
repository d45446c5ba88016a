"""Small kernels that have every statement and expression, and what they compute by numpy."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from winogen.codegen.devices.expressions import (
    FunctionCall,
    Id,
    Lane,
    Load,
    Name,
    Number,
    Select,
    Splat,
    Vector,
)
from winogen.codegen.devices.statements import (
    Assign,
    Barrier,
    Declare,
    DeviceArray,
    DeviceKernel,
    DeviceRoutine,
    DeviceWork,
    ForLoop,
    If,
    Let,
    Remark,
    Shared,
    Store,
    TransformCall,
)
from winogen.program import Program, Statement, Term


def integers(*shape, dtype="float32"):
    """Small integers, which sums of products keep exact."""
    return np.random.default_rng(7).integers(-4, 5, shape).astype(dtype)


def kernel(name, reads, writes, items, group, *body, shared=()):
    """A kernel of one axis."""
    comment = f"Computes {writes[0].name} of {reads[0].name}."
    return DeviceKernel(name, comment, reads, writes, (items, 1, 1), (group, 1, 1), body, shared)


def product():
    """Products of matrices by way of arrays of the work-group: barriers within a loop."""
    m, n, k, block = 8, 24, 32, 4
    a, b = (
        DeviceArray("a", (m, k), "float32", "input"),
        DeviceArray("b", (k, n), "float32", "weights"),
    )
    c = DeviceArray("c", (m, n), "float32", "output")
    row, column = Let("row", Id("global", 1)), Let("column", Id("global", 0))
    x, y = Let("x", Id("local", 0)), Let("y", Id("local", 1))
    sums = Declare("total", value=Number(0.0))
    p = Name("p")
    body = (
        row,
        column,
        x,
        y,
        sums,
        ForLoop(
            "first",
            Number(0),
            Number(k),
            Number(block),
            (
                Remark("Each item fetches one number of both."),
                Store(
                    "part_of_a",
                    y.read * block + x.read,
                    Load("a", row.read * k + Name("first") + x.read),
                ),
                Store(
                    "part_of_b",
                    y.read * block + x.read,
                    Load("b", (Name("first") + y.read) * n + column.read),
                ),
                Barrier(),
                ForLoop(
                    "p",
                    Number(0),
                    Number(block),
                    Number(1),
                    (
                        Assign(
                            sums.read,
                            sums.read
                            + Load("part_of_a", y.read * block + p)
                            * Load("part_of_b", p * block + x.read),
                        ),
                    ),
                    unroll=True,
                ),
                Barrier(),
            ),
        ),
        Store("c", row.read * n + column.read, sums.read),
    )
    shared = (Shared("part_of_a", block * block), Shared("part_of_b", block * block))
    one = DeviceKernel(
        "multiply", "c = a b.", (a, b), (c,), (n, m, 1), (block, block, 1), body, shared
    )
    arrays = {"a": integers(m, k), "b": integers(k, n)}
    return DeviceWork((), (one,)), arrays, {"c": arrays["a"] @ arrays["b"]}


def vectors(lanes=4, dtype="float32"):
    """Vectors, aligned and not, of float32 or float16 in memory; lanes; fma; arrays of vectors."""
    n = 16
    x = DeviceArray("x", (n * lanes + 1,), dtype, "input")
    y, last = (
        DeviceArray("y", (n, lanes), dtype, "output"),
        DeviceArray("last", (n,), dtype, "output"),
    )
    i, j = Let("i", Id("global", 0)), Name("j")
    sums = Declare("sums", (2,), lanes, value=Number(0.0))
    halves = Declare("kernel", (2, 2), value=Number(0.5))  # a word of OpenCL C
    body = (
        i,
        sums,
        halves,
        ForLoop(
            "j",
            Number(0),
            Number(2),
            Number(1),
            (
                Assign(
                    sums[j],
                    FunctionCall(
                        "fma",
                        (
                            Load("x", i.read * lanes + j, lanes),
                            halves[j, 1] * 4,
                            Splat(Number(1), lanes),
                        ),
                    ),
                ),
            ),
        ),
        Assign(sums[0], sums[0] - Load("x", i.read * lanes, lanes, aligned=True)),
        # The lanes leave in their order and come back.
        Assign(sums[1], Vector(tuple(Lane(sums[1], k) for k in reversed(range(lanes)))))
        if lanes > 1
        else Remark("One lane has no order."),
        Assign(sums[1], Vector(tuple(Lane(sums[1], k) for k in reversed(range(lanes)))))
        if lanes > 1
        else Remark("So it stays."),
        Let("result", sums[0] + sums[1]),
        Store("y", i.read * lanes, Name("result", True, lanes), aligned=True),
        Store("last", i.read, Lane(Name("result", True, lanes), lanes - 1)),
    )
    given = integers(n * lanes + 1, dtype=dtype)
    want = given[: n * lanes] + 2 * given[1:] + 2
    want = want.reshape(n, lanes)
    one = kernel("combine", (x,), (y, last), n, 4, *body)
    return DeviceWork((), (one,)), {"x": given}, {"y": want, "last": want[:, -1]}


def conditions():
    """Branches, values by conditions, integers divided: a border of zeros around rows."""
    rows, width, pad = 3, 5, 2
    wide = width + 2 * pad
    x, y = (
        DeviceArray("x", (rows, width), "float32", "input"),
        DeviceArray("y", (rows, wide), "float32", "output"),
    )
    i = Let("i", Id("global", 0))
    row, column = Let("row", i.read // wide), Let("column", i.read % wide - pad)
    inside = (column.read >= 0) & (column.read < width)
    near = FunctionCall("min", (FunctionCall("max", (column.read, Number(0))), Number(width - 1)))
    value = Declare("value")
    body = (
        i,
        If(
            i.read < rows * wide,
            (
                row,
                column,
                value,
                If(
                    inside,
                    (Assign(value.read, Load("x", row.read * width + column.read)),),
                    (Assign(value.read, 0 - Load("x", row.read * width + near)),),
                ),
                Store(
                    "y",
                    i.read,
                    Select((column.read < -1) | (column.read > width), expr_zero(), value.read),
                ),
            ),
        ),
    )
    given = integers(rows, width)
    want = np.zeros((rows, wide), "float32")
    want[:, pad:-pad] = given
    want[:, pad - 1], want[:, -pad] = -given[:, 0], -given[:, -1]
    return (
        DeviceWork((), (kernel("pad_rows", (x,), (y,), 32, 8, *body),)),
        {"x": given},
        {"y": want},
    )


def expr_zero():
    """A zero that is an integer where a real is wanted."""
    return Number(0)


def transforms():
    """A transform by its program, on vectors, of columns of an array; a second kernel behind it."""
    program = Program(
        ("d0", "d1", "d2"),
        (
            Statement("s", (Term("5/4", "d0"), Term(1, "d1"))),
            Statement("t", (Term(1, "s"), Term(-1, "d2"))),
        ),
        ("t", "s", "d2"),
    )
    n, lanes = 6, 4
    x = DeviceArray("x", (n, 2, 3, lanes), "float32", "input")
    u = DeviceArray("u", (n, 2, 3, lanes), "float32", "workspace")
    y = DeviceArray("y", (n, 2, 3, lanes), "float32", "output")
    i, j, k = Let("i", Id("group", 0)), Name("j"), Name("k")
    d, v = Declare("d", (2, 3), lanes), Declare("v", (2, 3), lanes)
    place = ((i.read * 2 + j) * 3 + k) * lanes

    def each(*body):
        inner = ForLoop("k", Number(0), Number(3), Number(1), body)
        return ForLoop("j", Number(0), Number(2), Number(1), (inner,))

    columns = ForLoop("j", Number(0), Number(2), Number(1), (TransformCall("apply", d[j], v[j]),))
    body = (
        i,
        d,
        each(Assign(d[j, k], Load("x", place, lanes, aligned=True))),
        v,
        columns,
        each(Store("u", place, v[j, k], aligned=True)),
    )
    first = kernel("transform_all", (x,), (u,), n, 1, *body)
    twice = Store("y", Id("global", 0), Load("u", Id("global", 0)) * 2)
    second = kernel("double_all", (u,), (y,), n * 6 * lanes, 8, twice)
    given = integers(n, 2, 3, lanes) * 4
    matrix = np.array([[Fraction(5, 4), 1, -1], [Fraction(5, 4), 1, 0], [0, 0, 1]]).astype(
        "float32"
    )
    want = np.einsum("ab,ijbl->ijal", matrix, given) * 2
    return (
        DeviceWork((), (first, second), (DeviceRoutine("apply", program, lanes),)),
        {"x": given},
        {"y": want},
    )


FUNCTIONS = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erfc": np.vectorize(math.erfc),
}


def functions(lanes=1, dtype="float32"):
    """All functions of reals, over numbers of a type at which each is defined."""
    n = 64
    x = DeviceArray("x", (n * lanes,), "float32", "input")
    i = Let("i", Id("global", 0))
    outputs = tuple(DeviceArray(f"{name}_of_x", x.shape, "float32", "output") for name in FUNCTIONS)
    value = Let("value", Load("x", i.read * lanes, lanes))
    positive = Select(value.read < 0, -value.read, value.read)
    stores = [
        Store(
            f"{name}_of_x",
            i.read * lanes,
            FunctionCall(name, (positive if name == "log1p" else value.read,)),
        )
        for name in FUNCTIONS
    ]
    given = np.random.default_rng(7).normal(0, 3, n * lanes).astype("float32")
    given[:6] = 0, 1e-6, -1e-6, 0.3, -0.3, -9
    given = given.astype(dtype).astype("float32")
    wide = given.astype("float64")
    wants = {
        f"{name}_of_x": function(abs(wide) if name == "log1p" else wide)
        for name, function in FUNCTIONS.items()
    }
    return (
        DeviceWork((), (kernel("apply", (x,), outputs, n, 8, i, value, *stores),)),
        {"x": given},
        wants,
    )


def rounded(lanes):
    """Operations whose results float16 has to round, one by one."""
    n = 16
    x = DeviceArray("x", (n, lanes), "float16", "input")
    y = DeviceArray("y", (n, lanes), "float16", "output")
    place = Id("global", 0) * lanes
    value = Let("value", Load("x", place, lanes, aligned=True))
    thirds = value.read * Splat(Number(1 / 3), lanes) if lanes > 1 else value.read * (1 / 3)
    again = Let("again", (thirds + value.read) - thirds)
    store = Store("y", place, (again.read + 2048) - 2048, aligned=True)
    given = np.random.default_rng(7).normal(0, 30, (n, lanes)).astype("float16")
    third, far = np.float16(1 / 3), np.float16(2048)
    want = ((given * third + given) - given * third + far) - far
    one = kernel("round_each", (x,), (y,), n, 4, value, again, store)
    return DeviceWork((), (one,)), {"x": given}, {"y": want}


EXACT = {
    "product": product,
    "vectors": vectors,
    "pairs": lambda: vectors(2),
    "float16": lambda: vectors(4, "float16"),
    "numbers": lambda: vectors(1),
    "numbers of float16": lambda: vectors(1, "float16"),
    "conditions": conditions,
    "transforms": transforms,
}
WIDE = {"eight lanes": lambda: vectors(8), "sixteen lanes": lambda: vectors(16)}


def _in_half(make):
    """The same kernels, whose arithmetic is float16."""
    work, given, wants = make()
    return replace(work, arithmetic="float16"), given, wants


# Integers stay exact in float16, too.
HALF = {
    **{name: (lambda make=make: _in_half(make)) for name, make in EXACT.items()},
    "rounded numbers": lambda: _in_half(lambda: rounded(1)),
    "rounded vectors": lambda: _in_half(lambda: rounded(4)),
    "functions": lambda: _in_half(lambda: functions(1, "float16")),
    "functions of vectors": lambda: _in_half(lambda: functions(4, "float16")),
}


def check_half(name, results, wants):
    """Integers and sums are exact to the bit; functions are off by few units of float16."""
    for array, want in wants.items():
        if name.startswith("functions"):
            np.testing.assert_allclose(results[array], want, rtol=2**-9, atol=2**-23)
        else:
            np.testing.assert_array_equal(results[array], want)
