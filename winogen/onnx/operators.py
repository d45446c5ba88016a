"""What the operators of domain com.winogen call things: as in csrc/runtime/, in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OWN_DOMAIN = "com.winogen"

# Where an array is, in place of its number.
NOWHERE, ARENA, ADDRESS = -1, -2, -3

# What a planner says.
PLANNED, FAILED, UNKNOWN = 0, 1, 2

# Activations, and how `conv2d` spells them with the two parameters of a layer, or its slopes.
ACTIVATIONS: dict[str, Callable[[tuple[float, float], Any], Any]] = {
    "none": lambda parameters, slopes: None,
    "relu": lambda parameters, slopes: "relu",
    "relu6": lambda parameters, slopes: "relu6",
    "silu": lambda parameters, slopes: "silu",
    "gelu": lambda parameters, slopes: "gelu",
    "gelu_tanh": lambda parameters, slopes: ("gelu", "tanh"),
    "hardswish": lambda parameters, slopes: "hardswish",
    "leaky_relu": lambda parameters, slopes: ("leaky_relu", parameters[0]),
    "prelu": lambda parameters, slopes: ("prelu", slopes),
    "clip": lambda parameters, slopes: ("clip", *parameters),
}
