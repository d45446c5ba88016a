"""The test of a crate: outputs beside direct convolution in f64, parts, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod, sqrt

from winogen.codegen.formulas import RUST, scalar
from winogen.codegen.reference import Codes, Reference
from winogen.codegen.rust_array import RustArray
from winogen.codegen.templates import Context
from winogen.records import ACTIVATIONS, NARROW_TYPES

_MARGIN = 4  # times the predicted error that outputs may be off
# A number of a type, made of an integer from -64 to 63. Types of 16 bits hold all of these, too.
_DRAWN = {
    "f32": "|k| k as f32 / 64.0", "f64": "|k| f64::from(k) / 64.0", "i8": "|k| k as i8",
    "u8": "|k| (k + 64) as u8", "i32": "|k| 8 * k", "u16": "|k| narrow(k as f32 / 64.0)",
}  # fmt: skip
# What outputs are before anything is written: no number, or two that cannot both be right.
_POISONS = {
    "f32": ("f32::NAN", "f32::MAX"), "f64": ("f64::NAN", "f64::MAX"), "u16": ("u16::MAX", "0x7bff"),
    "u8": ("1", "254"), "i8": ("-127", "126"), "i32": ("i32::MIN", "i32::MAX"),
}  # fmt: skip
_PLACE = "place(image, filter, GROUPS * FILTERS, at, &OUTPUT_SIZE)"


@dataclass(frozen=True)
class Drawn:
    """An array of the test, and how it is made of random integers."""

    name: str
    type: str
    constant: str
    drawn: str


@dataclass(frozen=True, kw_only=True)
class CrateTestContext(Context, templates=("hosts/rust/test.rs.j2",)):
    """What the template of the test knows."""

    name: str
    command: Sequence[str]
    r: Reference
    limit: str  # of errors
    arrays: Sequence[Drawn]
    output: str  # the type of its numbers
    poisons: tuple[str, str]
    narrow: str  # the type of arrays of 16 bits, or ""
    product: tuple[str, str]  # an input and a weight as f64
    result: str  # an output, alike
    bias: str
    activation: str  # the activated y; "": it stays
    parameters: Mapping[str, str]  # what it is activated with
    finish: Sequence[str]  # statements on a sum y
    bias_in_run: bool
    # Arguments, by what is passed: "all", no bias, and what is to be refused.
    new: Mapping[str, str]
    run: Mapping[str, str]


def render_test(
    name: str,
    packing: Sequence[RustArray],
    reading: Sequence[RustArray],
    output: RustArray,
    reference: Reference,
    command: Sequence[str],
) -> str:
    """Return the test of a crate, which compares outputs with what ``reference`` says.

    ``packing``, ``reading``: what `Layer::new` and calls take. ``command``: the first lines.
    """
    arrays = [*packing, *reading]
    types = {one.name: one.type for one in (*arrays, output)}
    narrow = reference.dtype if reference.dtype in NARROW_TYPES else ""
    codes = reference.codes
    given = {one.name: f"&arrays.{one.name}" for one in arrays}
    given |= {one.name: f"Some({given[one.name]})" for one in arrays if one.optional}
    plain = {one.name: "None" for one in arrays if one.optional}
    passed = {"output": "&mut output", "workspace": "&mut workspace"}
    called = [*(one.name for one in reading), *passed]
    packed = [one.name for one in packing]
    factor = _wide(types["input"], "number", narrow)
    if codes is not None and codes.x_zero:
        factor = f"({factor} - {float(codes.x_zero)})"
    return CrateTestContext(
        name=name,
        command=command,
        r=reference,
        limit="0.0" if codes and codes.sums else "0.502" if codes else _limit(reference.error),
        arrays=[
            Drawn(one.name, one.type, one.constant, _drawn(one, reference, narrow))
            for one in arrays
        ],
        output=output.type,
        poisons=_POISONS[output.type],
        narrow=narrow,
        product=(factor, _wide(types["weight"], "weight")),
        result=_wide(output.type, "output[number]", narrow),
        bias=_wide(types["bias"], "arrays.bias[filter]"),
        activation=_activated(reference),
        parameters=_parameters(reference, types),
        finish=_finish(reference, types, narrow),
        bias_in_run="bias" in called,
        new={
            "all": _joined(given, packed),
            "plain": _joined(given | plain, packed),
            "few": _joined(given | {"weight": "&[]"}, packed),
        },
        run={
            "all": _joined(given | passed, called),
            "plain": _joined(given | plain | passed, called),
            "slice": _joined(given | passed | {"output": "output"}, called),
        },
    ).render()


def _joined(values: Mapping[str, str], names: Sequence[str]) -> str:
    return ", ".join(values[name] for name in names)


def _wide(kind: str, expression: str, narrow: str = "") -> str:
    """A number as f64."""
    if kind == "u16" and narrow:
        return f"wide({expression})"
    return expression if kind == "f64" else f"f64::from({expression})"


def _limit(error: float) -> str:
    return f"{_MARGIN * error:.1e}"


def _drawn(array: RustArray, reference: Reference, narrow: str) -> str:
    """How a number of an array is made of a random integer; multipliers make most sums bytes."""
    if array.name != "multiplier":
        return _DRAWN[array.type]
    assert reference.codes is not None
    spread = 70 * 37 * sqrt(reference.channels * prod(reference.kernel))  # of sums of products
    return f"|k| (k + 65) as f32 * {40 / 65 / spread * reference.codes.y_scale:.3e}"


def _activated(reference: Reference) -> str:
    """What becomes of y."""
    name = reference.epilogue.activation
    return "" if name is None or _clipped(reference) else scalar(ACTIVATIONS[name], RUST)


def _clipped(reference: Reference) -> bool:
    """Whether limits of the output are all that its activation is: of bytes, relu."""
    return reference.codes is not None and not reference.codes.in_reals


def _parameters(reference: Reference, types: Mapping[str, str]) -> dict[str, str]:
    """The parameters of the activation, by their names in its formula."""
    epilogue = reference.epilogue
    if not _activated(reference):
        return {}
    if epilogue.per_filter:
        return {"a": _wide(types["slopes"], "arrays.slopes[filter]")}
    return dict(zip("ab", map(_literal, epilogue.parameters)))


def _literal(value: float) -> str:
    if value in (inf, -inf):
        return "f64::INFINITY" if value > 0 else "f64::NEG_INFINITY"
    return repr(float(value))


def _finish(reference: Reference, types: Mapping[str, str], narrow: str) -> list[str]:
    """What happens to a sum of products and bias, as statements."""
    epilogue, codes = reference.epilogue, reference.codes
    lines = []
    if codes is not None and not codes.sums:
        lines.append("y *= f64::from(arrays.multiplier[filter]);")

    def added(array: str) -> str:
        return _wide(types[array], f"arrays.{array}[{_PLACE}]", narrow)

    if epilogue.add:
        value = added("add")
        if codes is not None:
            value = f"{_literal(codes.add_scale)} * ({value} - {float(codes.add_zero)})"
        lines.append(f"y += {value};")
    if _activated(reference):
        lines.append(f"y = activated({', '.join(['y', *_parameters(reference, types).values()])});")
    if epilogue.add_after:
        lines.append(f"y += {added('add_after')};")
    return [*lines, *_coded(codes)]


def _coded(codes: Codes | None) -> list[str]:
    """What makes a byte of a number, but for its rounding."""
    if codes is None:
        return []
    low, high = map(float, codes.limits)
    if codes.sums:
        return [f"y = y.clamp({low}, {high});"]
    scaled = f"y / {_literal(codes.y_scale)}" if codes.in_reals else "y"
    return [f"y = ({scaled} + {_literal(codes.y_zero)}).clamp({low}, {high});"]
