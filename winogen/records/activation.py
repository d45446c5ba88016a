"""What is told of an activation, and how the arguments of frameworks become its parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

# A formula: a function of a library, of numbers y and of the activation's parameters. The library
# has where(condition, yes, no) and functions of one number: numpy, torch, mpmath or, for C,
# `winogen.codegen.formulas`.
Formula = Callable[..., Any]
FUNCTIONS = "exp", "expm1", "log1p", "tanh", "erfc"
OPERATORS = "+", "-", "*", "/", "<", ">"


class Argument(NamedTuple):
    """An argument of a framework's function."""

    name: str
    default: Any
    parameter: str = ""  # which parameter of the activation it is; "" for none
    only: Any = None  # without a parameter: its value where the function is the activation


@dataclass(frozen=True)
class FrameworkFunction:
    """A framework's function that is an activation, if its arguments are as these say."""

    names: str  # in torch.nn.functional, torch, torch.Tensor and aten; or of ONNX's operator
    module: str = ""  # in torch.nn, with the arguments for attributes
    arguments: tuple[Argument, ...] = ()  # behind the input, in their order


@dataclass(frozen=True)
class Activation:
    """A function of one number, fused into every kernel."""

    name: str  # what `activation=` calls it
    means: str  # for readers
    c: str  # of the vector y and the parameters, vectors a and b
    formula: Formula  # what it is
    torch: tuple[FrameworkFunction, ...]  # the first computes it
    # Of torch.ops.aten, of the gradient behind it, of what it saw, and of the parameters. It can
    # be differentiated again.
    backward: Callable[..., Any]
    onnx: tuple[FrameworkFunction, ...]
    units: float = 0  # the largest error in units in the last place: measured, and rounded up
    more: str = ""  # the error besides
    parameters: tuple[str, ...] = ()  # what they are called; at most two
    defaults: tuple[float, ...] = ()  # of all parameters, where its name alone asks for it
    check: str = "finite numbers"  # what the parameters must be, in words
    allows: Callable[..., bool] = lambda *parameters: all(map(math.isfinite, parameters))
    per_filter: bool = False  # whether its parameter a is an array, a number for each filter
    # Whether `backward` may see the output instead of what the activation saw.
    by_output: Callable[..., bool] = lambda *parameters: False
    needs: tuple[str, ...] = ()  # parts of csrc/parts/activation.h.j2 called by its C
    function: str = ""  # a function that its C calls
    spelling: tuple[str, ...] = ()  # how a user asks for it, where that is not by its name
    code: int = 0  # its number in C: its place in the table, from 1 on

    @property
    def spellings(self) -> tuple[str, ...]:
        """How a user may ask for it.

        >>> from winogen.records import ACTIVATIONS
        >>> ACTIVATIONS["leaky_relu"].spellings, ACTIVATIONS["gelu_tanh"].spellings
        (('("leaky_relu", slope)',), ('("gelu", "tanh")',))
        """
        if self.spelling:
            return ("(" + ", ".join(f'"{word}"' for word in self.spelling) + ")",)
        alone = () if self.parameters and not self.defaults else (f'"{self.name}"',)
        numbers = (f'("{self.name}", {", ".join(self.parameters)})',) if self.parameters else ()
        return alone + numbers

    @property
    def option(self) -> str:
        """How the command line asks for it. Slopes of filters come with the call.

        >>> from winogen.records import ACTIVATIONS
        >>> ACTIVATIONS["leaky_relu"].option, ACTIVATIONS["gelu_tanh"].option
        ('leaky_relu:SLOPE', 'gelu:tanh')
        """
        parameters = () if self.per_filter else (f":{name.upper()}" for name in self.parameters)
        numbers = "".join(parameters)
        return ":".join(self.spelling or (self.name,)) + (
            f"[{numbers}]" if self.defaults else numbers
        )

    @property
    def error(self) -> str:
        """Its error in units in the last place, for readers.

        >>> from winogen.records import ACTIVATIONS
        >>> ACTIVATIONS["relu"].error, ACTIVATIONS["silu"].error
        ('exact', '4 units')
        """
        names = {0: "exact", 0.5: "rounded once"}
        return names.get(self.units, f"{self.units:g} units") + self.more

    def taken(
        self, function: FrameworkFunction, values: Mapping[str, Any]
    ) -> tuple[Any, ...] | None:
        """Return its parameters where a framework's function gets these arguments.

        None where the function is another one with them.

        >>> from winogen.records import ACTIVATIONS
        >>> leaky = ACTIVATIONS["leaky_relu"]
        >>> leaky.taken(leaky.onnx[0], {"alpha": 0.2}), leaky.taken(leaky.onnx[0], {})
        ((0.2,), (0.01,))
        """
        numbers = dict(zip(self.parameters, self.defaults))
        for argument in function.arguments:
            value = values.get(argument.name, argument.default)
            if argument.parameter:
                numbers[argument.parameter] = value
            elif value != argument.only:
                return None
        return tuple(numbers[name] for name in self.parameters)

    def given(
        self, function: FrameworkFunction, parameters: tuple[Any, ...]
    ) -> dict[str, Any] | None:
        """Return the arguments that make a framework's function this activation; None: none do.

        >>> from winogen.records import ACTIVATIONS
        >>> leaky = ACTIVATIONS["leaky_relu"]
        >>> leaky.given(leaky.torch[0], (0.2,))
        {'negative_slope': 0.2}
        """
        numbers = dict(zip(self.parameters, parameters))
        arguments = {
            one.name: numbers.pop(one.parameter) if one.parameter else one.only
            for one in function.arguments
        }
        fixed = dict(zip(self.parameters, self.defaults))
        return arguments if all(fixed[name] == numbers[name] for name in numbers) else None
