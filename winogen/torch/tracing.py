"""A model as fx graphs of tensors in, leaves out: by `torch.fx`, and by `torch.export`."""

from __future__ import annotations

import ctypes
import inspect
import logging
import operator
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from io import StringIO
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from winogen.torch.calling import Calls, CallStructure, clones
from winogen.torch.codes import is_coded
from winogen.torch.mutation import IN_PLACE_OPERATORS

# Seconds of a CPU for a trace of any sizes. What sizes a model computes from sizes may grow with
# every layer, and torch then thinks about it for hours.
_LONGEST = 60.0


@dataclass(frozen=True)
class Traced:
    """A graph whose placeholders are the tensors of a call and whose output is a tuple of leaves.

    Its nodes know the shapes and types of their tensors. The model's tensors are shared.
    """

    module: fx.GraphModule
    tracer: str
    structure: CallStructure  # of what the model returns
    guard: SizeGuard | None = None


class SizeGuard:
    """The sizes for which a trace by `torch.export` holds, by its conditions.

    A trace with two images says nothing of one image, since torch takes 0 and 1 for constants only
    where the example has them. Files cannot hold the conditions: what is loaded from one takes the
    sizes of the example.
    """

    def __init__(self, check: Callable[..., Any] | None, calls: Calls):
        self.check, self.calls = check, calls
        self.sizes = [tuple(tensor.shape) for tensor in calls.tensors]

    def holds(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether the trace is right for these tensors."""
        sizes = [tuple(tensor.shape) for tensor in tensors]
        if sizes == self.sizes:
            return True
        if self.check is None or any(
            min(size, 2) != min(seen, 2)
            for one, other in zip(sizes, self.sizes)
            for size, seen in zip(one, other)
        ):
            return False
        try:
            self.check(*self.calls.filled(tensors))
        except (AssertionError, RuntimeError):
            return False
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "check": None}

    def __deepcopy__(self, memo: dict) -> SizeGuard:
        return self


class _Proxy(fx.Proxy):
    """A proxy that a statement such as ``y += x`` changes in place, as it does a tensor."""


def _in_place(function: Any) -> Callable[[_Proxy, Any], Any]:
    def method(self: _Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    return method


for _function in IN_PLACE_OPERATORS:
    setattr(_Proxy, f"__{_function.__name__}__", _in_place(_function))


class _Tracer(fx.Tracer):
    """Modules of torch and winogen stay whole, so that they are read by their type."""

    def __init__(self, calls: Calls):
        super().__init__()
        self.calls = calls
        self.structure: Any = None

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether the module is one node."""
        ours = type(m).__module__.startswith("winogen.torch.")
        return m is not self.root and (ours or super().is_leaf_module(m, module_qualified_name))

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """Return what stands for a tensor."""
        return _Proxy(node, self)

    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """Call the model as users do, so that its hooks are part of the trace."""
        proxies = [
            self.create_proxy("placeholder", f"input_{i}", (), {})
            for i in range(len(self.calls.tensors))
        ]

        def call(*tensors: Any) -> tuple[Any, ...]:
            args, kwargs = self.calls.arguments(tensors)
            leaves, self.structure = CallStructure.of(self.root(*args, **kwargs))
            return tuple(leaves)

        call.__annotations__ = {}  # fx would write them into the graph
        return call, proxies


def traced(model: nn.Module, calls: Calls, is_long: bool = False) -> Iterator[Traced | str]:
    """Yield the traces of a model in evaluation mode, and for each way that fails the reason.

    Where a run of it ``is_long``, none is made if torch can tell the sizes of values without.
    """
    for name, way in (("its own graph", _own), ("torch.fx", by_fx), ("torch.export", _by_export)):
        if way is _own and not (isinstance(model, fx.GraphModule) and is_coded(model.graph)):
            continue  # a trace of its code has weights that are no codes any more
        try:
            with torch.no_grad(), silence():
                trace = way(model, calls, is_long)
        except Exception as problem:  # whatever a tracer raises, the next way is tried
            text = str(problem).strip().splitlines()
            yield f"{name}: {type(problem).__name__}: {text[0] if text else ''}"[:200]
        else:
            yield trace


class Noted(NamedTuple):
    """What is known of a node's tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class _Noting(fx.Interpreter):
    """Runs a trace and notes what it makes in ``meta["tensor_meta"]``.

    As torch's own ShapeProp, which takes half a second more: it loads sympy.
    """

    def run_node(self, n: fx.Node) -> Any:
        """Run a node."""
        result = super().run_node(n)
        if isinstance(result, torch.Tensor):
            n.meta["tensor_meta"] = Noted(tuple(result.shape), result.dtype)
        return result


# Where functions come from that keep nothing of what they are given.
_KNOWN = ("torch", "winogen", "_operator", "math", "builtins")


def _is_torchs(module: fx.GraphModule) -> bool:
    """Whether nobody else sees the tensors of a trace: no function of the user's, and no hook."""
    for node in module.graph.nodes:
        if node.op == "call_module":
            layer = module.get_submodule(str(node.target))
            if layer._forward_hooks or layer._forward_pre_hooks:
                return False
        elif node.op == "call_function":
            target: Any = node.target
            home = getattr(target, "__module__", None) or "torch"
            # Of old codes, whose types fake tensors do not have, torch is asked.
            if home.partition(".")[0] not in _KNOWN or "quantize" in str(target):
                return False
    return True


def _note(module: fx.GraphModule, calls: Calls, is_long: bool) -> None:
    """Note what a trace makes of the example."""
    if is_long and _is_torchs(module):
        with suppress(Exception):  # a model whose sizes depend on its numbers
            from torch._subclasses.fake_tensor import FakeTensorMode  # it loads sympy

            with FakeTensorMode(allow_non_fake_inputs=True) as mode:
                _Noting(module).run(*map(mode.from_tensor, calls.tensors))
                return
    _Noting(module).run(*clones(calls.tensors))


def by_fx(model: nn.Module, calls: Calls, is_long: bool = False) -> Traced:
    """Return the trace of a model's Python; raises whatever stops that."""
    tracer = _Tracer(calls)
    graph = tracer.trace(model)
    module = fx.GraphModule(tracer.root, graph, type(model).__name__)
    _note(module, calls, is_long)
    return Traced(module, "torch.fx", tracer.structure)


def _own(model: Any, calls: Calls, is_long: bool = False) -> Traced:
    """The graph of an exported model, as quantizers of PyTorch make them."""
    spec = model._out_spec  # of an exported one
    check = getattr(model, "_guards_fn", None)
    module = _noted(model, _of_tensors(model.graph, calls), type(model).__name__, calls, is_long)
    forward = None if check is None else check.forward
    return Traced(module, "its own graph", CallStructure(spec), SizeGuard(forward, calls))


def _by_export(model: nn.Module, calls: Calls, is_long: bool = False) -> Traced:
    """Sizes may vary where the model allows it, and this torch can tell for which it is right."""
    args, kwargs = calls.arguments(clones(calls.tensors))
    export = torch.export.export
    check = None
    try:
        with deadline(_LONGEST):
            program = export(model, args, kwargs, dynamic_shapes=_sizes(model, args, kwargs))
            check = getattr(program.module(), "_guards_fn", None)
    except (Exception, _Late):
        check = None
    if check is None:
        program = export(model, args, kwargs)
    functional = False
    with suppress(Exception):  # without changes in place, where torch can do without
        program = program.run_decompositions({})
        functional = True
    exported: Any = program.module()
    graph = _of_tensors(exported.graph, calls)
    if functional:
        _simplify(graph)
    module = _noted(exported, graph, type(model).__name__, calls, is_long)
    forward = None if check is None else check.forward
    return Traced(
        module, "torch.export", CallStructure(program.call_spec.out_spec), SizeGuard(forward, calls)
    )


def _noted(
    root: nn.Module, graph: fx.Graph, name: str, calls: Calls, is_long: bool
) -> fx.GraphModule:
    """A module whose nodes know the sizes of the example, where export has symbols."""
    module = fx.GraphModule(root, graph, name)
    _note(module, calls, is_long)
    for node in module.graph.nodes:
        if node.meta.get("tensor_meta") is not None:
            node.meta.pop("val", None)
    return module


def _sizes(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """All sizes of all tensors may vary."""
    bound = inspect.signature(model.forward).bind(*args, **kwargs)
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        variadic = bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        named |= value if variadic else {name: value}
    auto = torch.export.Dim.AUTO
    return pytree.tree_map(
        lambda x: dict.fromkeys(range(x.dim()), auto) if isinstance(x, torch.Tensor) else None,
        named,
    )


def _of_tensors(graph: fx.Graph, calls: Calls) -> fx.Graph:
    """Return an exported graph without its check of sizes, and without inputs that are constants.

    Raises RuntimeError for a graph that reads such an input.
    """
    new = fx.Graph()
    nodes: dict[fx.Node, Any] = {}
    leaf = -1
    inputs: dict[int, fx.Node] = {}  # by the number of the tensor
    for node in graph.nodes:
        if node.op == "call_module" and node.target == "_guards_fn":
            continue
        if node.op == "placeholder":
            leaf += 1
            if leaf not in calls.places:
                continue
            number = calls.order[calls.places.index(leaf)]
            if number not in inputs:
                inputs[number] = new.node_copy(node)
            nodes[node] = inputs[number]
            continue
        if any(before not in nodes for before in node.all_input_nodes):
            raise RuntimeError(f"{node.format_node()} reads an argument that is no tensor")
        nodes[node] = new.node_copy(node, lambda before: nodes[before])
    return new


def _simplify(graph: fx.Graph) -> None:
    """Undo what torch does to a graph without changes in place.

    It copies results of operations that return what they are given, and its normalizations by
    running statistics return statistics, too.
    """
    aten = torch.ops.aten
    for node in list(graph.nodes):
        if node.target is aten.clone.default and len(node.args) == 1:
            if all(user.op != "output" for user in node.users):
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)
        elif node.target is aten._native_batch_norm_legit_no_training.default:
            if any(user.target is not operator.getitem or user.args[1] for user in node.users):
                continue
            x, weight, bias, mean, var, momentum, eps = node.args
            arguments = (x, weight, bias, mean, var, False, momentum, eps, False)
            with graph.inserting_before(node):
                plain = graph.call_function(aten.batch_norm.default, arguments)
            plain.meta = {key: node.meta[key] for key in ("nn_module_stack",) if key in node.meta}
            for user in list(node.users):
                user.replace_all_uses_with(plain)
                graph.erase_node(user)
            graph.erase_node(node)


class _Late(BaseException):
    """Raised where time is up; no handler of errors takes it for one."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise `_Late` inside the block once this thread has computed for so many seconds."""
    thread = threading.get_ident()
    clock = getattr(time, "pthread_getcpuclockid", lambda thread: time.CLOCK_MONOTONIC)(thread)
    start, ended = time.clock_gettime(clock), threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            if time.clock_gettime(clock) - start > seconds:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(_Late)
                )
                return

    watcher = threading.Thread(target=watch, name="winogen-deadline", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


@contextmanager
def silence() -> Iterator[None]:
    """What a tracer says about a model that it cannot trace is told in the report, in a line."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):  # export prints graphs
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
