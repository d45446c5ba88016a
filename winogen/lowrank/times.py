"""How long layers take, as the planner predicts: nothing is compiled."""

from __future__ import annotations

from winogen.conv.execute import Environment, chosen, predictions, remembered
from winogen.conv.plan import Prediction
from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.conv.spectral import Spectral
from winogen.records import Machine, Target
from winogen.toolchain import host_target
from winogen.toolchain.machine import current


def predicted(layer: Layer, request: Request, input_shape: tuple[int, ...]) -> Prediction:
    """Return what the planner expects of a layer on this machine, the fastest way it finds.

    Raises InvalidValue where nothing keeps to the limits of the request.
    """
    where = host_target(), current(), Environment.now()
    return _predicted(layer, request, input_shape, *where)


@remembered(1 << 12)
def _predicted(
    layer: Layer, request: Request, shape: tuple[int, ...], target: Target, machine: Machine,
    environment: Environment,
) -> Prediction:  # fmt: skip
    problem = layer.problem(shape)
    found = chosen(problem, request, target, machine)
    if isinstance(found, Spectral):
        return found.plan().predictions[0]
    return predictions(layer, found, target)[0]
