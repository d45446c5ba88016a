"""What layers of all kinds share: an activation, parameters of an existing layer, a plain twin."""

from __future__ import annotations

from typing import Any

from torch import nn

from winogen.errors import Unsupported
from winogen.records.activations import spelled
from winogen.torch.functional import activation_parts

_GEOMETRY = (
    "in_channels out_channels kernel_size stride padding dilation transposed "
    "output_padding groups padding_mode _reversed_padding_repeated_twice training"
).split()


class Activated:
    """The base of layers with an activation, which stands before torch's class."""

    weight: Any  # torch's, as all else
    _plain: type[nn.Module]  # torch's class

    @property
    def activation(self: Any) -> Any:
        """What is done to the sums, as `winogen.conv2d` takes it."""
        name, parameters = self._activation
        return (name, self.slopes) if name == "prelu" else spelled(name, parameters)

    @activation.setter
    def activation(self: Any, activation: Any) -> None:
        name, parameters, slopes = activation_parts(activation)
        if isinstance(slopes, nn.Parameter):
            self.slopes = slopes
        else:
            self.register_buffer("slopes", slopes)
        self._activation = (name, parameters)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "activation":  # which nn.Module would take for a submodule
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def __prepare_scriptable__(self: Any) -> nn.Module:
        """What `torch.jit.script` compiles instead, for it knows no operators made in Python."""
        if self._activation[0] is not None:
            raise Unsupported(
                f"torch.jit.script: got a {self._get_name()} with activation {self.activation!r};"
                " allowed: one without, or torch.jit.trace, torch.export and torch.compile"
            )
        return sharing(self._plain, self)

    def _get_name(self) -> str:
        """Told apart from torch's in a printed model."""
        return f"winogen.torch.{type(self).__name__}"

    def extra_repr(self: Any) -> str:
        """The module's line in a printed model."""
        name, parameters = self._activation
        asked = [] if name is None else [f"activation={spelled(name, parameters)!r}"]
        asked += [f"{name}={value!r}" for name, value in self._named_options().items()]
        return ", ".join([self._plain.extra_repr(self), *asked])


def sharing(kind: Any, module: nn.Module) -> Any:
    """Return a layer of a kind that has the parameters and the geometry of another."""
    made = kind.__new__(kind)
    nn.Module.__init__(made)
    for name in _GEOMETRY:
        setattr(made, name, getattr(module, name))
    for name in ("weight", "bias"):
        made.register_parameter(name, getattr(module, name))
    return made
