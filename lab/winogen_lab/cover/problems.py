"""The problems that kernels are compiled for ahead, and how long each kernel would take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from winogen.conv import gradient_planner, planner, quantized_planner
from winogen.conv.candidates import candidates
from winogen.conv.choice import Choice
from winogen.conv.cuts import evaluate
from winogen.conv.quantized_planner import CallNumbers
from winogen.conv.request import Request
from winogen.conv.tolerance import Tolerance
from winogen.extras import require
from winogen.kernels.kind import Spec
from winogen.kernels.quantized import Reals
from winogen.kernels.spec import KernelSpec
from winogen.records import TARGETS, Machine, Target
from winogen.records.machines import known_machine
from winogen.tuning.chosen import chosen_layers
from winogen.tuning.layers import BenchLayer, load_layers
from winogen_lab.nets import NETS

LAYOUTS = "NCHW", "NHWC"
BATCHES = 1, 32
TOLERANCES = None, 1e-3
# Ways that take longer than so many times the best are no help.
_FAR = 8.0


class Place(NamedTuple):
    """A target on a machine."""

    target: Target
    machine: Machine
    cpu: str  # the machine's name


class Way(NamedTuple):
    """A kernel that could compute a problem, and its predicted time."""

    seconds: float
    kernel: Spec
    price: float = 1.0  # how many times these count, as it is less accurate than is usual

    @property
    def cost(self) -> float:
        """By which the planner chooses."""
        return self.seconds * self.price


@dataclass(frozen=True)
class Instance:
    """A problem on a machine: all ways to compute it, the planner's own first."""

    group: str  # whose kernels are chosen together: the target, and what is computed
    ways: tuple[Way, ...]


# Each target with a machine that has it, and its extensions there. Those of 8-bit integers are
# chosen for each set of extensions of its own, since a CPU has all of a set or none.
PLACES = (
    ("avx512+vnni+f16c+vbmi+bf16", "zen4", "zen4"),
    ("avx512+vnni+f16c+vbmi+bf16+fp16", "sapphirerapids", "skylake_avx512"),
    ("avx2+f16c", "zen3", ""),
    ("avx2+f16c", "skylake", ""),
    ("sse2", "zen3", ""),
    ("sse2", "skylake", ""),
)
BYTE_PLACES = (
    ("avx512+vnni+amx", "sapphirerapids", "skylake_avx512"),
    ("avx512+vnni", "zen4", "zen4"),
    ("avx512", "sapphirerapids", "skylake_avx512"),
    ("avx2+avxvnni", "skylake", ""),
    ("avx2", "zen3", ""),
    ("avx2", "skylake", ""),
    ("sse2", "skylake", ""),
)


def places(names: Iterable[tuple[str, str, str]]) -> Iterator[Place]:
    """Yield targets with their machines."""
    for text, cpu, core in names:
        name, plus, extensions = text.partition("+")
        target = replace(TARGETS[name].adjusted(plus + extensions), core=core)
        machine = known_machine(cpu, target.vector_bytes, core)
        assert machine is not None
        yield Place(target, machine, cpu)


def layers_of(sets: Iterable[str], nets: bool) -> list[BenchLayer]:
    """Return the different layers of sets, and of all nets that can be built here, ordinary ones.

    Raises MissingPackage for nets without torch.
    """
    found = [layer for name in sets for layer in load_layers(name)]
    if nets:
        require("torch", "torch")
        found += [
            layer
            for name, net in NETS.items()
            if net.missing() is None and not net.is_onnx
            for layer in chosen_layers(name)
        ]
    found = [layer for layer in found if not layer.transposed]
    unlike = {replace(layer, name="", net="").with_batch(1): layer for layer in found}
    return [layer.with_batch(1) for layer in unlike.values()]


def instances(layers: list[BenchLayer], batches: Iterable[int] = BATCHES) -> Iterator[Instance]:
    """Yield all problems of these layers: float32, their gradients, and 8-bit integers."""
    batches = tuple(batches)
    for place in places(PLACES):
        for layer, layout, batch in product(layers, LAYOUTS, batches):
            problem = layer.with_batch(batch).problem(layout).folded
            for ways in ways_of(problem, place):
                yield Instance(place.target.name, ways)
    for place in places(PLACES):
        for layer, layout in product(layers, LAYOUTS):
            problem = layer.with_batch(max(batches)).problem(layout).folded
            if problem.stride == layer.dilation == (1, 1) and layer.groups == 1:
                yield Instance(f"{place.target.name} gradients", tuple(_gradients(problem, place)))
    for place in places(BYTE_PLACES):
        for layer, layout, numbers in product(layers, LAYOUTS, NUMBERS):
            problem = layer.with_batch(batches[0]).problem(layout, "uint8")
            planes = problem.layer.rank == 2  # bytes have no other layers
            ways = tuple(byte_ways(problem, numbers, place)) if planes else ()
            if ways:
                yield Instance(f"{spelled(place.target)} bytes", ways)


# Outputs of 8-bit convolutions: sums, bytes, and bytes of sums that go through more.
NUMBERS = (CallNumbers(), CallNumbers(sums=False), CallNumbers(sums=False, reals=Reals()))


def _kernel(spec: Any) -> Spec:
    """The kernel by what is in its C: cores and extensions that it makes no use of are not."""
    target = spec.target
    used = target.extensions & {one.name for one in target.used}
    return replace(spec, target=replace(target, core="", extensions=used))


def spelled(target: Target) -> str:
    """Return the name of a target with its extensions."""
    return "+".join((target.name, *sorted(target.extensions)))


def ways_of(problem: Any, place: Place) -> Iterator[tuple[Way, ...]]:
    """Yield the kernels within each of the `TOLERANCES`, fastest first.

    The kernel that computes everything is among them.
    """
    target, machine = place.target, place.machine
    layer = problem.layer
    # The narrow numbers of the coarsest tolerance are beyond the others by their errors.
    choices = list(candidates(problem, Request(tolerance=max(filter(None, TOLERANCES))), target))
    choices += [Choice("direct", variant="direct")]
    found = sorted(evaluate(problem, choices, target, machine, None), key=lambda one: one.seconds)
    errors = [planner.predicted_error(layer, one.choice, target) for one in found]
    kernels: dict[int, Spec] = {}
    for tolerance in TOLERANCES:
        rule = Tolerance.of(layer, tolerance)
        ways: list[Way] = []
        for row, (one, error) in enumerate(zip(found, errors)):
            plain = one.choice.variant == "direct"
            far = ways and one.seconds > _FAR * ways[0].seconds
            if plain or not (far or not rule.allows(error)):
                if row not in kernels:
                    (work,) = one.works(problem)
                    kernels[row] = _kernel(KernelSpec.of(work))
                ways.append(Way(one.seconds, kernels[row], rule.price(error)))
        yield tuple(ways)


def _gradients(problem: Any, place: Place) -> Iterator[Way]:
    layer, rule = problem.layer, Tolerance.of(problem.layer, None)
    target, machine, _ = place
    for tile in gradient_planner.tiles_of(layer.kernel):
        work = gradient_planner.choose(problem, tile, 1, None, target, machine)
        count = problem.batch * work.tiles[0] * work.tiles[1]
        of_tiles = tile, count, work.depth
        error = gradient_planner.predicted_error(layer.dtype, layer.kernel, *of_tiles)
        if rule.allows(error) or max(tile) == 1:
            yield Way(work.cycles(machine), _kernel(work.spec))


def byte_ways(problem: Any, numbers: CallNumbers, place: Place) -> list[Way]:
    """Return the kernels of 8-bit integers for a problem, in any order."""
    target, machine, _ = place
    choices = quantized_planner.choices(problem.layer, Request(), target)
    found = [quantized_planner.evaluated(problem, one, numbers, target, machine) for one in choices]
    return [Way(one.seconds, _kernel(one.work.spec)) for one in found]
