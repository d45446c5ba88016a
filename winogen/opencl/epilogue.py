"""What becomes of finished sums on a device: activation(sums + bias + add) + add_after.

Activations are those of `winogen.records.ACTIVATIONS`, whose formulas are called with functions
that build expressions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from winogen.codegen.devices.expressions import (
    Binary,
    Expr,
    FunctionCall,
    Load,
    Select,
    expr,
    splat,
)
from winogen.codegen.devices.statements import DeviceArray, Let, Statement
from winogen.conv.problem import Problem
from winogen.opencl.stores import filter_stored, stored
from winogen.records import ACTIVATIONS


class _OfExpressions:
    """What formulas of activations call."""

    @staticmethod
    def where(condition: Any, yes: Any, no: Any) -> Expr:
        lanes = expr(condition).lanes
        return Select(condition, splat(yes, lanes), splat(no, lanes))

    @staticmethod
    def exp(x: Expr) -> Expr:
        return FunctionCall("exp", (x,))

    @staticmethod
    def expm1(x: Expr) -> Expr:
        return FunctionCall("expm1", (x,))

    @staticmethod
    def log1p(x: Expr) -> Expr:
        return FunctionCall("log1p", (x,))

    @staticmethod
    def tanh(x: Expr) -> Expr:
        return FunctionCall("tanh", (x,))

    @staticmethod
    def erfc(x: Expr) -> Expr:
        return FunctionCall("erfc", (x,))


@dataclass(frozen=True)
class DeviceEpilogue:
    """The epilogue of a problem on a device, and the arrays that it reads.

    ``filters_in_lanes``: whether the lanes of a vector of sums are neighbouring filters; else they
    are outputs of one.
    """

    problem: Problem
    bias: bool
    filters_in_lanes: bool = False

    @property
    def arrays(self) -> tuple[DeviceArray, ...]:
        """What it reads: bias, slopes, add, add_after, as far as the problem has them."""
        problem, target = self.problem, stored(self.problem)
        filters, output = (target.layer.filters,), target.output_shape
        dtype = problem.layer.dtype
        arrays = []
        if self.bias:
            arrays.append(DeviceArray("bias", filters, "float32", "bias"))
        if problem.epilogue.per_filter:
            arrays.append(DeviceArray("slopes", filters, "float32", "slopes"))
        if problem.epilogue.add:
            arrays.append(DeviceArray("add", output, dtype, "add"))
        if problem.epilogue.add_after:
            arrays.append(DeviceArray("add_after", output, dtype, "add_after"))
        return tuple(arrays)

    def __call__(
        self, sums: Expr, filter: Expr, index: Expr, prefix: str = "y", aligned: bool = False
    ) -> tuple[list[Statement], Expr]:
        """Return what computes the outputs from their sums, and the expression of them.

        ``filter``: of the first lane, counted over all groups and their phases. ``index``: where
        the outputs lie, see `Store`. ``prefix`` begins the names that it defines. ``aligned``:
        whether filter and index are multiples of the lanes.
        """
        lanes, epilogue = sums.lanes, self.problem.epilogue
        filter = filter_stored(self.problem, filter)
        statements: list[Statement] = []

        def named(suffix: str, value: Expr) -> Expr:
            if not isinstance(value, Binary | FunctionCall | Select | Load):
                return value
            statements.append(let := Let(f"{prefix}_{suffix}", value))
            return let.read

        def of_filter(array: str) -> Expr:
            if self.filters_in_lanes:
                return Load(array, filter, lanes, aligned)
            return splat(Load(array, filter), lanes)

        if self.bias:
            sums = sums + of_filter("bias")
        if epilogue.add:
            sums = sums + Load("add", index, lanes, aligned)
        if epilogue.activation is not None:
            y = named("sum", sums)
            numbers: tuple[Any, ...] = epilogue.parameters
            if epilogue.per_filter:
                numbers = (named("slope", of_filter("slopes")),)
            sums = ACTIVATIONS[epilogue.activation].formula(_OfExpressions, y, *numbers)
        if epilogue.add_after:
            sums = named("result", sums) + Load("add_after", index, lanes, aligned)
        return statements, sums
