"""How long layers take, as the planner predicts: nothing is compiled."""

from __future__ import annotations

from winogen.conv import fourier, planner, wisdom
from winogen.conv.execute import Environment, predictions, remembered
from winogen.conv.plan import Prediction
from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.conv.spectral import Spectral
from winogen.conv.stock import stock_of
from winogen.kernels import FFT
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
    if request.algorithm == FFT:
        found = fourier.checked(problem, request, machine)
        return Spectral(problem, found, request.threads, target).plan().predictions[0]
    measured, kept_to = wisdom.current(target), stock_of(target)
    ranked = planner.ranked(
        problem, request, target, machine, planner.ALTERNATIVES, measured, kept_to
    )
    faster = fourier.faster(problem, request, ranked[0], target, machine)
    if faster is not None:
        return Spectral(problem, faster, request.threads, target).plan().predictions[0]
    return predictions(layer, ranked, target)[0]
