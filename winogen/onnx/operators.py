"""What the operators of domain com.winogen call things: as in csrc/runtime/plan.h."""

from __future__ import annotations

OWN_DOMAIN = "com.winogen"

NOWHERE = -1  # the number of an array that is not there

# What a planner says.
PLANNED, FAILED, UNKNOWN, LATER = 0, 1, 2, 3
