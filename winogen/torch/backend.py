"""`torch.compile(model, backend="winogen")`: what dynamo captured, as segments and torch's rest."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator

from winogen.errors import InvalidValue
from winogen.graph import promise, simplify
from winogen.graph.later import waiting
from winogen.graph.spending import Spending
from winogen.tasks.duel import Times
from winogen.torch import mutation
from winogen.torch.calling import Calls
from winogen.torch.cases import Case
from winogen.torch.deciding import Decision, spend
from winogen.torch.drafting import compiled, decided, measured
from winogen.torch.promising import UnseenInputs, gains_of
from winogen.torch.proving import unproven
from winogen.torch.reading import Reading, Untraceable, read

Compiled = Callable[..., Any]

# After so many compilations in a row, of one call each, weights count as changing inputs.
_PATIENCE = 4
_PROMISE = "output_tolerance"


def winogen(
    module: fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Compiled:
    """Return a function that computes a captured graph; the backend of `torch.compile`.

    Parameters arrive as inputs. Weights of convolutions and normalizations are taken as they are
    now, and compared at every call: once one of them has changed, the graph is compiled anew. Where
    they change at every call it soon runs as captured.

    The graph runs as captured where gradients are wanted, where sizes are symbols, and for tensors
    elsewhere than on the CPU. So does a graph with a change of an input or a buffer in place, or
    with regions (`torch.autocast`, `torch.no_grad`, `torch.cond`, transforms). What winogen cannot
    compile runs as captured, too, with a warning.

    ``options``: None, or {"output_tolerance": E}, the largest error of each output of a graph, as
    `winogen.torch.optimize` has it, with the inputs of the first call as its example. Where no
    layers of winogen keep it, the graph runs as captured. Raises InvalidType and InvalidValue; the
    first call raises it, too, if not even torch keeps it, or nobody knows the outputs in float64.
    """
    asked = None
    for name, value in (options or {}).items():
        if name != _PROMISE:
            raise InvalidValue(f"options: got {name!r}; allowed: {_PROMISE}, as in optimize")
        asked = None if value is None else promise.checked_promise(value)
    return _Backend(module, inputs, asked)


class _Backend:
    """A captured graph: compiled while its weights stay the same and no gradients are wanted."""

    def __init__(self, module: fx.GraphModule, inputs: Sequence[Any], asked: float | None = None):
        self.module, self.asked = module, asked
        self.names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
        self.symbolic = any(not isinstance(x, torch.Tensor) for x in inputs)
        self.compiled: fx.GraphModule | None = None
        self.stamps: dict[int, _Stamp] = {}
        self.wasted = 0  # compilations in a row that served one call each
        self.given_up = (
            self.symbolic or not all(_plain(x) for x in inputs) or not _only_values(module)
        )

    def __call__(self, *inputs: Any) -> Any:
        if self.given_up or (
            torch.is_grad_enabled()
            and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)
        ):
            return self.module(*inputs)
        if self.compiled is not None and all(
            stamp.holds(inputs[i]) for i, stamp in self.stamps.items()
        ):
            self.wasted = 0
            return self.compiled(*inputs)
        self.wasted += 1
        if self.wasted > _PATIENCE:
            self._give_up()
            return self.module(*inputs)
        return self._first(inputs)

    def _first(self, inputs: Sequence[Any]) -> Any:
        """Compile and compute; kernels are planned and loaded by the first call."""
        states = [_Stamp(x) for x in inputs if isinstance(x, torch.Tensor)]
        try:
            self._compile(inputs)
            return (self.compiled or self.module)(*inputs)
        except Exception as problem:
            # What torch computes in between may have changed a buffer already, and would again.
            refused = isinstance(problem, promise.NoPromise)
            if refused or not all(state.holds(state.tensor) for state in states):
                raise
            self._give_up()
            result = self.module(*inputs)  # where this raises, it is the model's own error
            warnings.warn(
                f"torch.compile: winogen leaves a graph to torch: {problem}",
                RuntimeWarning,
                stacklevel=2,
            )
            return result

    def _compile(self, inputs: Sequence[Any]) -> None:
        given = zip(self.names, inputs)
        constants = _Constants({name: x for name, x in given if isinstance(x, torch.Tensor)})
        try:
            reading = read(self.module, constants=constants)
        except Untraceable:
            self._give_up()
            return
        self.stamps = {
            i: _Stamp(inputs[i]) for i, name in enumerate(self.names) if name in constants.asked
        }
        if not reading.graph.convolutions:
            self._give_up()
            return
        with torch.random.fork_rng(devices=[]):
            found = measured(reading) if self.asked is None else self._kept(reading, inputs)
        if found is None:
            self._give_up()
            return
        body, decision = found
        case = Case("this call", list(inputs), [], None)
        with waiting():  # torch would prove itself
            wrong = unproven(self.module, reading, body, decision, [case])
        if wrong:
            raise Untraceable(next(iter(wrong.values())))
        self.compiled = body

    def _kept(
        self, reading: Reading, inputs: Sequence[Any]
    ) -> tuple[fx.GraphModule, Decision] | None:
        """The fastest module that keeps what is promised; None where none does, but torch."""
        assert self.asked is not None
        asked, calls = self.asked, Calls(self.module, inputs, {})
        weights = {i for i, name in enumerate(self.names) if "_buffers_" in name}
        weights |= {i for i, x in enumerate(inputs) if isinstance(x, torch.nn.Parameter)}
        fixed = [inputs[i] for i in weights | self.stamps.keys()]
        unseen, found = UnseenInputs(self.module, calls, fixed), None
        graph, times, tried = simplify(reading.graph), dict[str, Times](), set[str]()
        gains = gains_of(self.module, [node.output for node in graph.convolutions], calls)

        def made(budget: float) -> tuple[fx.GraphModule, Decision, Spending] | None:
            spending = spend(graph, reading.shapes, gains, budget)
            layout = spending.layout or None
            decision = decided(reading, layout=layout, spending=spending, times=times).measured()
            is_new = decision.digest not in tried
            tried.add(decision.digest)
            return (compiled(reading, decision), decision, spending) if is_new else None

        def seen(draft: tuple[fx.GraphModule, Decision, Spending]) -> promise.OutputPromise | None:
            nonlocal found
            body, decision, spending = draft
            with waiting():
                found = unseen.promise(body, asked, spending.predicted(decision.errors))
            return found

        (body, decision, _), holds = promise.kept(asked, made, seen)
        if not holds:
            promise.check_framework(promise.certain(found, asked), "torch")
        return (body, decision) if holds else None

    def _give_up(self) -> None:
        self.given_up, self.compiled, self.stamps = True, None, {}


class _Stamp:
    """A weight as it was: the same tensor, unless torch's counter of changes has moved on.

    Tensors made in inference mode have no counter; of them a copy is compared.
    """

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor  # held, so that its memory is nobody else's
        self.pointer = tensor.data_ptr()
        self.version = None if tensor.is_inference() else tensor._version
        self.copy = tensor.clone() if tensor.is_inference() else None

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether this is the tensor, with the same numbers."""
        if tensor is not self.tensor or tensor.data_ptr() != self.pointer:
            return False
        if self.copy is not None:
            return torch.equal(tensor, self.copy)
        return tensor._version == self.version


class _Constants(dict):
    """Tensors by name, and which of them were asked for: the weights."""

    def __init__(self, tensors: dict[str, torch.Tensor]):
        super().__init__(tensors)
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """Return a tensor, and note that it was asked for."""
        self.asked.add(name)
        return super().get(name, default)


def _only_values(module: fx.GraphModule) -> bool:
    """Whether nodes are there for their values, and none for a state that others compute in.

    What begins or ends a region of autocast, of a gradient mode or of a transform has no result
    that anybody reads; a branch or a checkpoint is a function of functions.
    """
    modules = dict(module.named_modules())
    for node in module.graph.nodes:
        if isinstance(node.target, HigherOrderOperator):
            return False
        idle = node.op in ("call_function", "call_method") and not node.users
        if idle and mutation.changed_by(node, modules) is None and not _harmless(node):
            return False
    return True


def _harmless(node: fx.Node) -> bool:
    """Whether a node that nobody reads has a tensor, or a tuple, as its result."""
    return isinstance(node.meta.get("example_value"), (torch.Tensor, tuple))


def _plain(x: Any) -> bool:
    return not isinstance(x, torch.Tensor) or (
        x.device.type == "cpu"
        and x.layout is torch.strided
        and all(isinstance(size, int) for size in x.shape)
    )
