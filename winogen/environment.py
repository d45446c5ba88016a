"""The variables of the environment that are winogen's: all are listed here, and read by `value`."""

from __future__ import annotations

import os

# What each decides. docs/conv2d.md says which values it may have.
VARIABLES = {
    "WINOGEN_CACHE": "the folder of compiled kernels",
    "WINOGEN_CACHE_LIMIT": "the most bytes that this folder may take",
    "WINOGEN_ISA": "the instruction set of kernels",
    "WINOGEN_CPU": "the CPU that this one is taken for",
    "WINOGEN_CALIBRATE": "whether the machine is measured",
    "WINOGEN_WISDOM": "the file of what `winogen tune` measured",
    "WINOGEN_COMPILE": "whether and when kernels are compiled",
    "WINOGEN_PREBUILT": "folders with more prebuilt kernels",
    "WINOGEN_FLUSH_DENORMALS": "whether denormal numbers count as zero",
}


def value(name: str) -> str:
    """Return the text of one of these variables without spaces around it, "" where it is not set.

    >>> value("WINOGEN_CACHE_LIMITS")
    Traceback (most recent call last):
    KeyError: 'WINOGEN_CACHE_LIMITS'
    """
    VARIABLES[
        name
    ]  # a name that is not listed is an error here, and not a variable that nobody sets
    return os.environ.get(name, "").strip()


def misspelt() -> dict[str, str]:
    """Return the variables that are set and mean nothing, each with the one that may be meant."""
    import difflib

    strange = [name for name in os.environ if name.startswith("WINOGEN_") and name not in VARIABLES]
    near = {name: difflib.get_close_matches(name, VARIABLES, 1, cutoff=0.85) for name in strange}
    return {name: meant[0] for name, meant in sorted(near.items()) if meant}
