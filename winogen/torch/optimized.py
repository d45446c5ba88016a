"""`Optimized`: what `optimize` returns, a model that answers for the original."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, fx, nn

from winogen.errors import InvalidValue, Unsupported
from winogen.graph.later import waiting, waits
from winogen.tasks.idle import calling
from winogen.torch.arrays import is_planar
from winogen.torch.calling import Calls, CallStructure
from winogen.torch.copies import TABLES
from winogen.torch.readiness import Readiness
from winogen.torch.releasing import release
from winogen.torch.report import Report
from winogen.torch.tracing import SizeGuard
from winogen.torch.watched import exported, transformed

_SIZES = "sizes for which the trace of the model does not hold"
# Before torch 2.7 nothing tells what is compiled from what is exported.
_TELLS_EXPORTS = hasattr(torch.compiler, "is_exporting")


@dataclass(frozen=True)
class Fast:
    """A module of segments, and for which calls it is right."""

    body: fx.GraphModule  # tensors of a call in, a tuple of leaves out
    calls: Calls
    structure: CallStructure  # of what the model returns
    planar: tuple[bool, ...]  # leaves that the model returns contiguous for planar inputs
    guard: SizeGuard | None = None


def _lent(field: str) -> Any:
    """Return a property for a field that leads to modules of the copy, and notes that it did."""

    def read(self: Optimized) -> Any:
        self._lend()
        return self.__dict__[field]

    def write(self: Optimized, value: Any) -> None:
        self.__dict__[field] = value

    return property(read, write)


class Optimized(nn.Module):
    """An optimized copy of a model, for inference on the CPU; made by `optimize`.

    It holds a copy of the model in evaluation mode. Parameters, buffers, submodules, attributes and
    methods belong to the copy; `forward` computes the same by segments. Calls that are not like the
    example (other keyword arguments, containers, types, numbers of axes), calls under autocast, and
    whatever the segments refuse, are computed by the copy, with one warning. So are exports and
    traces, which then hold torch's own operators.

    Changes of the copy would have no effect on the segments, and are refused where they are seen:
    `train`, `load_state_dict`, `requires_grad_`, `to` another type or device, new attributes.

    Every call asks whether the modules of the copy still are what they were, from the first time on
    that somebody else could have got hold of one: it reads every field of every module, which may
    take longer than a small layer.
    """

    _parameters, _buffers, _modules = map(_lent, TABLES)
    winogen_model = _lent("_winogen_model")

    def __init__(self, model: nn.Module, report: Report, fast: Fast | None):
        super().__init__()
        fields = self.__dict__
        # One truth: the copy and this module share their tables.
        for table in TABLES:
            fields[table] = getattr(model, table)
        fields["_non_persistent_buffers_set"] = model._non_persistent_buffers_set
        fields["_winogen_model"] = model
        fields["winogen_fast"] = fast
        fields["winogen_report"] = report
        fields["training"] = False
        fields["winogen_released"] = False  # whether weights lie in a file
        fields["_warned"] = fields["_tested"] = False
        fields["_readiness"] = fast and Readiness(fast.body)
        self._watch()
        if fast and any(True for _ in chain(fast.body.parameters(), fast.body.buffers())):
            self._lend()  # it may return one

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns."""
        fast: Fast | None = self.winogen_fast
        if fast is None or exported():
            return self._winogen_model(*args, **kwargs)
        readiness: Readiness = self._readiness
        if torch.compiler.is_compiling():  # dynamo reads no further
            return self._compiled(fast, args, kwargs)
        if transformed():
            return self._by_model(args, kwargs)
        tensors, reason = self.winogen_taken(fast, args, kwargs)
        if not reason:
            if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
                return self._by_model(args, kwargs)  # which knows where gradients end
            if not all(tensor.numel() for tensor in tensors):
                # Some operators of torch refuse empty tensors, even where nobody needs the result.
                return self._by_model(args, kwargs)
            try:
                if waits() or readiness.holds(tensors):
                    with calling():
                        return self._returned(fast, tensors, readiness.run(tensors))
            except Exception as problem:  # the model decides what is an error
                if self._tested:
                    raise
                reason = f"{type(problem).__name__}: {str(problem).strip().partition(chr(10))[0]}"
        with calling():
            result = self._by_model(args, kwargs)
        if not reason:
            readiness.ask(tensors)  # behind the call, which it would hold up
        elif not (self._warned or self._tested):
            self.__dict__["_warned"] = True
            warnings.warn(
                f"an optimized {type(self._winogen_model).__name__} computes as the model itself "
                f"does, and not faster: {reason}{_help(reason)}",
                stacklevel=4,
            )
        return result

    def _by_model(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the copy returns, whose modules its hooks and its own code get."""
        self._lend()
        return self._winogen_model(*args, **kwargs)

    def winogen_taken(self, fast: Fast, args: Any, kwargs: Any) -> tuple[list[Tensor], str]:
        """Return the tensors of a call and "", or why segments are not right for it."""
        reason = "a call under autocast" if torch.is_autocast_enabled("cpu") else self._changed()
        tensors = None if reason else fast.calls.tensors_of(args, kwargs)
        if tensors is None:
            return [], reason or (
                "a call with arguments unlike the example's: other keywords, "
                "containers, types, numbers of axes, or values of what is no tensor"
            )
        if fast.guard is not None and not fast.guard.holds(tensors):
            reason = _SIZES
        return tensors, reason

    @contextmanager
    def winogen_tested(self) -> Iterator[Optimized]:
        """Let errors of segments be seen, warn of nothing, and wait for kernels."""
        self.__dict__["_tested"] = True
        try:
            with waiting():
                yield self
        finally:
            self.__dict__["_tested"] = False

    def _returned(self, fast: Fast, tensors: list[Tensor], leaves: Any) -> Any:
        """What the model returns: contiguous where the model's is."""
        whole = all(tensor.is_contiguous() for tensor in tensors)
        strided = not (whole or torch.compiler.is_compiling()) and all(map(is_planar, tensors))
        if any(fast.planar) and (whole or strided):
            # What lies as an input does, because it is a view of it, stays one.
            given = {_memory(tensor) for tensor in tensors} if strided else ()
            made: dict[int, Tensor] = {}  # once of a tensor that is returned twice
            leaves = [
                made.setdefault(id(leaf), leaf.contiguous())
                if planar and isinstance(leaf, Tensor) and not (given and _memory(leaf) in given)
                else leaf
                for leaf, planar in zip(leaves, fast.planar)
            ]
        return fast.structure.filled(leaves)

    def _compiled(self, fast: Fast, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that dynamo traces: the segments as operators, or the model as it is."""
        if kwargs or not (fast.calls.single and fast.guard is None and _TELLS_EXPORTS):
            return self._winogen_model(*args, **kwargs)
        (x,) = args
        if x.dtype != fast.calls.leaves[0].dtype or x.dim() != fast.calls.leaves[0].rank:
            return self._winogen_model(x)
        return self._returned(fast, [x], fast.body(x))

    # ---- what is seen of the copy ---------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Attributes and methods of the copy."""
        try:
            value = super().__getattr__(name)
        except AttributeError:
            model = self.__dict__.get("_winogen_model")
            if model is None or name.startswith("__"):
                raise
            value = getattr(model, name)
        self._lend()
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse what the segments would not notice."""
        model = self.__dict__.get("_winogen_model")
        if model is not None and name not in self.__dict__ and hasattr(model, name):
            raise InvalidValue(
                f"{name}: got a new value; allowed: to set it on the original, and to optimize that"
            )
        self._lend()
        super().__setattr__(name, value)

    def __getitem__(self, index: Any) -> Any:
        """Return what the copy has there, as a sequence of layers."""
        self._lend()
        return self._winogen_model[index]

    def __len__(self) -> int:
        """Return how many layers the copy has, if it is a sequence."""
        return len(self._winogen_model)

    def __bool__(self) -> bool:
        return True

    def extra_repr(self) -> str:
        """What it was made of."""
        return f"winogen's copy of {type(self._winogen_model).__name__}"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._winogen_model)})

    def winogen_release(self) -> None:
        """Move into a file what is read only in rare cases; copies do the same."""
        self.__dict__["winogen_released"] = True
        release(self._winogen_model, self.winogen_fast and self.winogen_fast.body)
        self._watch()

    def _watch(self) -> None:
        """Note what the copy is made of now."""
        self.__dict__["_seen"] = _Seen(self._winogen_model)
        self.__dict__.setdefault("_is_lent", [False])  # which shallow copies share

    def _lend(self) -> None:
        """Note that others may change modules of the copy from now on."""
        if "_is_lent" in self.__dict__:
            self.__dict__["_is_lent"][0] = True

    def _changed(self) -> str:
        if not self._is_lent[0] or self._seen.holds():
            return ""
        return "hooks, weights or fields of the copy that were changed after it was made"

    # ---- what is refused ------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Optimized:
        """Refuse to train: normalizations are folded into weights that are packed."""
        if mode:
            raise InvalidValue(
                "train: got True; allowed: False for an optimized model. Train the original, then "
                "optimize it again"
            )
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Optimized:
        """Refuse gradients of parameters, since segments know nothing of parameters."""
        if requires_grad:
            raise InvalidValue(
                "requires_grad: got True; allowed: False for an optimized model, which gives "
                "gradients with respect to its inputs only"
            )
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the state of the copy, which the original can load."""
        self._lend()
        return self._winogen_model.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse new weights."""
        raise InvalidValue(
            "load_state_dict: got new weights; allowed: none for an optimized model, whose weights "
            "are packed. Load them into the original, then optimize it again"
        )

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.load_state_dict()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Optimized:
        """Refuse other types and devices."""
        dtypes = {t.dtype for t in self._winogen_model.parameters() if t.is_floating_point()}
        dtypes = dtypes or {torch.float32}
        for dtype in dtypes:
            try:
                probe = fn(torch.empty(0, dtype=dtype))
                made = f"{probe.dtype} on {probe.device}"
                same = probe.device.type == "cpu" and probe.dtype == dtype
            except (AssertionError, RuntimeError) as problem:  # a device that is not there
                made, same = str(problem), False
            if not same:
                raise Unsupported(
                    f"to: got {made}; allowed: {dtype} on the CPU, which this model was optimized "
                    "for. Convert the original, then optimize it again"
                )
        return self

    # ---- copies ---------------------------------------------------------------------------------

    def __prepare_scriptable__(self) -> nn.Module:
        """What `torch.jit.script` compiles instead: the copy."""
        self._lend()
        model: nn.Module = self._winogen_model
        return model

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in ("_seen", "_readiness", "_compiled_call_impl"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for table in TABLES:
            self.__dict__[table] = getattr(self._winogen_model, table)
        fast = self.winogen_fast
        self.__dict__["_readiness"] = fast and Readiness(fast.body)
        if self.winogen_released:
            self.winogen_release()
        self._watch()


class _Seen:
    """The fields, tensors and hooks of all modules of a model at some time.

    A call asks whether they still are the same, so this is made of comparisons that Python does
    fast: dictionaries whose values are the same objects are equal.
    """

    def __init__(self, model: nn.Module):
        self.tables: list[tuple[dict, dict]] = []
        hooks: list[dict] = []
        tensors: dict[int, Tensor] = {}
        for module in model.modules():
            if isinstance(module, torch.jit.ScriptModule):  # whose tables are made when asked for
                continue
            for table in (vars(module), module._parameters, module._buffers, module._modules):
                self.tables.append((table, dict(table)))
            hooks += [module._forward_hooks, module._forward_pre_hooks]
            held = (*module._parameters.values(), *module._buffers.values())
            tensors |= {id(t): t for t in held if t is not None and not t.is_inference()}
        self.hooks, self.tensors = hooks, list(tensors.values())
        self.stamp = self._stamp()

    def holds(self) -> bool:
        """Whether nothing has changed."""
        try:
            return self._stamp() == self.stamp and all(now == seen for now, seen in self.tables)
        except Exception:  # other tensors, which are equal to nothing as a whole
            return False

    def _stamp(self) -> tuple[int, int, list[int]]:
        versions = sum([t._version for t in self.tensors])
        return sum(map(len, self.hooks)), versions, [t.data_ptr() for t in self.tensors]


def _help(reason: str) -> str:
    """What makes such calls faster, if anything is known to."""
    if reason != _SIZES:
        return ""
    return (
        ". For these sizes make a copy of their own, winogen.torch.optimize(model, example), or "
        "pad to sizes like the example's outside of the model; the report of optimize(..., "
        "more_inputs=[...]) names beforehand the sizes that a copy leaves to the model"
    )


def _memory(tensor: Tensor) -> int:
    """Where the memory begins that a tensor is a view of."""
    return tensor.untyped_storage().data_ptr()
