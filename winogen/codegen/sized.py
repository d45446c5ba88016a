"""How many numbers the arrays of a layer have: what wrappers in other languages check."""

from __future__ import annotations

from math import prod

from winogen.codegen.standalone import Interface


def sizes(interface: Interface) -> dict[str, int]:
    """Return how many numbers each array has, packed weights aside, as users give them."""
    whole = {array: prod(shape) for array, shape in interface.shapes.items()}
    found: dict[str, int] = {}
    for array in (*interface.packing, *interface.reading):
        if array in whole:
            found[array] = whole[array]
        elif array.startswith("add"):  # shaped as the output
            found[array] = whole["output"]
        elif array != "packed":  # a number for each filter
            found[array] = interface.filters
    return found | {"output": whole["output"]}
