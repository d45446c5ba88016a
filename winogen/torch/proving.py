"""Whether what replaces a part of a model computes what that part does, before anyone gets it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, fx, nn

from winogen.graph import Graph, whole
from winogen.graph.later import waiting
from winogen.kernels.spec import KernelSpec
from winogen.torch import views
from winogen.torch.building import GRAPH, VALUES
from winogen.torch.calling import Calls
from winogen.torch.cases import ROUNDING, Case, Witness, distance, run
from winogen.torch.code_module import CodeModule
from winogen.torch.code_proof import disagreements
from winogen.torch.copies import restored
from winogen.torch.deciding import Decision
from winogen.torch.inputs import PERTURBED
from winogen.torch.plain import PlainGraph
from winogen.torch.reading import Reading
from winogen.torch.segment_op import SegmentModule

# Relative errors in a sum of torch's that not even rounding explains.
_WRONG = {torch.float32: 1e-3, torch.float64: 1e-10}
# Errors of layers grow on their way through a net, but not beyond a tenth of its output. Codes that
# lie near halves become others in deep nets, until all is as far off as rounding to codes is.
_MOST, MOST_OF_CODES = 0.1, 0.3
# Torch may be this many times as accurate where a result cancels out.
_TIMES = 10.0


def unproven(
    traced: fx.GraphModule,
    reading: Reading,
    body: fx.GraphModule,
    decision: Decision,
    cases: Sequence[Case],
) -> dict[str, str]:
    """Return the nodes of a trace whose replacement in ``body`` computes something else, and why.

    Each segment is given what the model itself computes before it, and must return what the model
    has behind it, in the first case of each size. A layer may be off by its tolerance, else by ten
    times its predicted error, and by ten times what torch is off.
    """
    failures: dict[str, str] = {}
    sizes = {tuple(t.shape for t in case.tensors): case for case in reversed(cases)}
    for case in sizes.values():
        names = {name for node in body.graph.nodes for name in node.meta.get(VALUES, ())}
        names |= {node.name for node in body.graph.nodes if node.op == "placeholder"}
        for module in body.modules():
            names |= module.part.inner.keys() if isinstance(module, CodeModule) else set()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            checker = _Checker(body, recorded(traced, case.tensors, names), decision)
            checker.run(*[tensor.clone() for tensor in case.tensors])
        for graph, reason in checker.wrong:
            part = _part(reading.graph, graph)
            failures |= dict.fromkeys(part, f"on {case.name} {reason}")
        failures |= {name: f"on {case.name} {why}" for name, why in checker.codes.items()}
    return failures


@contextmanager
def confined(body: nn.Module, kernels: Collection[KernelSpec]) -> Iterator[None]:
    """Let the segments of a built module compute further shapes by the kernels that are there.

    A proof on other sizes shows what these kernels do there. Nobody waits for kernels that a later
    call of such sizes may want.
    """
    with ExitStack() as stack:
        for one in body.modules():
            if isinstance(one, SegmentModule):
                stack.enter_context(one.segment.confined(kernels))
        stack.enter_context(waiting())  # torch would prove itself
        yield


def recorded(
    trace: fx.GraphModule, tensors: Sequence[Tensor], names: Collection[str] | None = None
) -> dict[str, Tensor]:
    """Return tensors of a trace, and maps that these hold, by their ``names``; None for all."""
    asked = {node.name for node in trace.graph.nodes} if names is None else set(names)
    recorder = _Recorder(trace, asked)
    with torch.no_grad():
        recorder.run(*[tensor.clone() for tensor in tensors])
    return recorder.values


class _Recorder(fx.Interpreter):
    """Runs a trace and keeps values as they were made, before anything changes them."""

    def __init__(self, module: fx.GraphModule, names: set[str]):
        super().__init__(module)
        self.names = names
        self.held: dict[str, list[str]] = {}  # names of maps by the tensor that holds them
        for name in names:
            self.held.setdefault(name.rpartition(".")[0], []).append(name)
        self.values: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Run a node."""
        result = super().run_node(n)
        if isinstance(result, Tensor) and (n.name in self.names or n.name in self.held):
            self.values[n.name] = result.detach().clone()
            for name in self.held.get(n.name, ()):  # maps that the tensor holds
                held = views.back(self.values, name)
                if held is not None:
                    self.values[name] = held
        return result


class _Checker(fx.Interpreter):
    """Runs a built module node by node, each on what the model itself computed before it."""

    def __init__(self, body: fx.GraphModule, values: Mapping[str, Tensor], decision: Decision):
        super().__init__(body)
        self.values, self.decision = values, decision
        self.wrong: list[tuple[Graph, str]] = []
        self.codes: dict[str, str] = {}  # tensors of the trace with other codes, and why

    def run_node(self, n: fx.Node) -> Any:
        """Run a node, compare it, and go on with what the model has there."""
        result = super().run_node(n)
        module = self.submodules.get(str(n.target)) if n.op == "call_module" else None
        if isinstance(module, CodeModule):
            self.codes |= disagreements(module, self.values)
        names = n.meta.get(VALUES, ())
        several = isinstance(result, (list, tuple))
        results = list(result) if several else [result]
        truth = [self.values.get(name) for name in names]
        graph = n.meta.get(GRAPH)
        if graph is not None:
            inputs, _ = self.fetch_args_kwargs_from_env(n)
            pairs = [(i, y, w) for i, (y, w) in enumerate(zip(results, truth)) if w is not None]
            errors = [(distance(y, w), i, y, w) for i, y, w in pairs]
            allowed = self._allowed(graph)
            bad = [one for one in errors if not one[0] <= allowed]
            if bad and not self._excused(graph, inputs, bad, allowed):
                worst = max(bad, key=lambda one: one[0])[0]
                self.wrong.append((graph, f"off by {worst:.1e}, allowed {allowed:.1e}"))
        if len(truth) != len(results):
            return result
        kept = [y if w is None else w for y, w in zip(results, truth)]
        return type(result)(kept) if several else kept[0]

    def _allowed(self, graph: Graph) -> float:
        rounding = ROUNDING[_dtype(graph)]
        return sum(
            max(rounding, self.decision.allowed.get(node.output, 0.0))
            for node in graph.convolutions
        ) or rounding  # fmt: skip

    def _excused(self, graph: Graph, inputs: Any, bad: list[tuple], allowed: float) -> bool:
        """Whether torch is as far off what float64 gives: sums may cancel out."""
        plain = PlainGraph(graph).double()
        exact = plain(*(x.double() for x in inputs))
        for _, place, ours, theirs in bad:
            off = distance(theirs.double(), exact[place])
            if off > _WRONG[_dtype(graph)]:
                return False
            if not distance(ours.double(), exact[place]) <= max(allowed, _TIMES * off):
                return False
        return True


def _dtype(graph: Graph) -> torch.dtype:
    return torch.float32 if graph.dtype is None else getattr(torch, str(graph.dtype))


def _part(graph: Graph, replaced: Graph) -> set[str]:
    """The names of all traced nodes between the inputs and the outputs of a replaced graph."""
    makers, inputs = graph.makers, set(replaced.inputs)
    waiting, nodes = list(replaced.outputs), set()
    while waiting:
        name = waiting.pop()
        if name in inputs or name in nodes or name not in makers:
            continue
        nodes.add(name)
        waiting += makers[name].reads
    return {name.partition(".")[0] for name in nodes}  # "conv.0" is a part of the node conv


def disagreement(
    optimized: Any,
    model: nn.Module,
    calls: Calls,
    witness: Witness,
    errors: float,
    most: float = _MOST,
) -> str:
    """Return in what the whole differs from the model that was witnessed; "" for in nothing.

    ``model`` holds the state that runs of ``optimized`` may change; ``errors`` is the sum of what
    its layers may be off, ``most`` what an output may be.
    """
    for case, after in zip_longest(witness.cases, witness.cases[1:]):
        if case.is_second:
            continue
        both = [case, after] if after and after.is_second else [case]
        with torch.no_grad(), restored(model):  # its state is there in the second
            for one in both:
                different = _compared(optimized, calls, witness, one, errors, most)
                if different:
                    return different
    return ""


def _compared(
    optimized: Any, calls: Calls, witness: Witness, case: Case, errors: float, most: float
) -> str:
    try:
        tensors = [tensor.clone() for tensor in case.tensors]
        leaves, structure, shared = run(optimized, calls, tensors)
    except Exception as problem:
        return f"on {case.name}: {type(problem).__name__}: {problem}"
    if structure != case.structure:
        return f"on {case.name}: another structure of outputs"
    if shared != case.shared:
        return f"on {case.name}: other outputs share memory"
    example = witness.cases[0].leaves
    for place, (ours, theirs) in enumerate(zip(leaves, case.leaves)):
        difference = ""
        if not (witness.repeats and len(example) == len(leaves)):
            difference = _differs(ours, theirs, float("inf"))
        elif _differs(ours, theirs, _limit(example[place], example[place], errors, most)):
            # Only where a little in the input changes much, more is allowed.
            near = witness.perturbed
            known = len(near) == len(example)
            limit = _limit(example[place], near[place], errors, most) if known else float("inf")
            difference = _differs(ours, theirs, limit)
        if difference:
            return f"on {case.name}: output {place} {difference}"
    return ""


def _limit(leaf: Any, near: Any, errors: float, most: float) -> float:
    """How far an output may be off: by more where a little in the input changes it much."""
    leaf, near = _real(leaf), _real(near)
    if not isinstance(leaf, Tensor) or not leaf.is_floating_point():
        # Numbers of another kind may jump where those behind them are nearly the same.
        moved = isinstance(leaf, Tensor) and (
            not isinstance(near, Tensor)
            or near.shape != leaf.shape
            or not torch.equal(near, leaf)
        )  # fmt: skip
        return float("inf") if moved else 0.0
    growth = distance(near, leaf) / PERTURBED
    rounding = ROUNDING.get(leaf.dtype, 1e-2)
    return min(whole.limit(max(1.0, growth) * errors, rounding), most)


def _real(leaf: Any) -> Any:
    """Complex numbers as pairs, and sparse tensors with their zeros."""
    if not isinstance(leaf, Tensor):
        return leaf
    dense = leaf if leaf.layout is torch.strided else leaf.to_dense()
    return torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense


def _differs(ours: Any, theirs: Any, limit: float) -> str:
    if type(ours) is not type(theirs):
        return f"is a {type(ours).__name__}, not a {type(theirs).__name__}"
    if isinstance(theirs, Tensor) and ours.layout != theirs.layout:
        return f"is {ours.layout}, not {theirs.layout}"
    ours, theirs = _real(ours), _real(theirs)
    if not isinstance(theirs, Tensor):
        same = ours is theirs or limit == float("inf")
        try:
            same = same or bool(ours == theirs)
        except Exception:  # objects of no known meaning
            same = True
        return "" if same else f"is {ours!r}, not {theirs!r}"
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return (
            f"is {ours.dtype} {tuple(ours.shape)}, not {theirs.dtype} {tuple(theirs.shape)}"
            if limit != float("inf") or ours.dtype != theirs.dtype
            else ""
        )
    if not theirs.is_floating_point():
        return "" if limit or torch.equal(ours, theirs) else "has other numbers"
    off = distance(ours, theirs)
    return "" if off <= limit else f"is off by {off:.1e}"
