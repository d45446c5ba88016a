"""What the operators of domain com.winogen call things: as in csrc/runtime/plan.h."""

from __future__ import annotations

OWN_DOMAIN = "com.winogen"

# Where an array is, in place of its number.
NOWHERE, ARENA, ADDRESS = -1, -2, -3

# What a planner says.
PLANNED, FAILED, UNKNOWN = 0, 1, 2
