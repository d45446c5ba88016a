"""Networks to be written, drawn at random: for `freeze.py`."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from freeze_problems import Drawn, Record, digest
from graph.onnx_models import case_of

from winogen.network import WEIGHTS, generate
from winogen.onnx.rewrite import rewrite
from winogen.records import Machine, Target

_SEED = 20


def model(random: Random, target: Target, machine: Machine) -> Drawn:
    """Return an ONNX model with all nodes of winogen's that are possible."""
    index = random.randrange(1 << 20)

    def planned() -> Record:
        made = rewrite(case_of(_SEED, index).model).model
        return {"onnx": digest(made.SerializeToString(deterministic=True))}

    return {"model": index}, planned


def folder(random: Random, target: Target, machine: Machine) -> Drawn:
    """Return a folder of C."""
    index, weights = random.randrange(1 << 20), random.choice(WEIGHTS)
    tolerance = random.choice((None, None, 1e-3, 1e-4))

    def planned() -> Record:
        case = case_of(_SEED, index)
        shapes = {name: array.shape for name, array in case.feeds[0].items()}
        files = generate(
            case.model,
            isa="+".join((target.name, *sorted(target.extensions))),
            input_shapes=shapes,
            weights=weights,
            tolerance=None if case.quantized else tolerance,
            check=False,
        )
        return {
            "files": {name: digest(data) for name, data in sorted(files.contents.items())},
            "arena": files.arena_bytes,
            "products": files.products,
        }

    return {"model": index, "weights": weights, "tolerance": tolerance}, planned


# How many of each kind are drawn.
NETWORKS: dict[str, tuple[int, Callable[[Random, Target, Machine], Drawn]]] = {
    "model": (200, model),
    "folder": (250, folder),
}
