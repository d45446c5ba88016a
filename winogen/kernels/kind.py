"""What all kinds of kernels have in common: a struct, its values, and buffers in a workspace.

A kind is a class that derives from `Spec`. It lists the fields of its struct and the arrays of a
call; the C, cffi's declarations, the layout of the workspace and the values follow from that.
"""

from __future__ import annotations

import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from functools import cache
from itertools import chain
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from winogen.kernels.work import round_up
from winogen.records import Epilogue, Strides, Target
from winogen.records.machine import LINE

_Spec = TypeVar("_Spec", bound="Spec")
_Field = tuple[str, str, tuple[str, ...]]  # (a sentence, type in C, names)
Fields = tuple[_Field, ...]
_PLANES = ("plane", "planes")  # of volumes

# What a call has done where its sums are, and after they were stored.
EPILOGUE: Fields = (
    ("ReLU gives at most that, if capped.", "double", ("cap",)),
    (
        "Whether more follows the store, and its activation: 0 for none.",
        "int",
        ("after_store", "activation"),
    ),
    ("Parameters of the activation.", "double", ("activation_a", "activation_b")),
)
# Fields that say what a call wants. A kernel that is made for one call does that and nothing else:
# it needs none of these, and further ones only if the call wants what their key says.
WISHES: Mapping[str, tuple[str, ...]] = {
    "padding_mode": (),
    "add": ("add",),
    "add_early": (),
    "add_after": ("add_after",),
    "relu": (),
    "capped": ("cap",),
    "after_store": (),
    "activation": ("activation_a", "activation_b"),
    "flush_denormals": (),
}
# How the work is divided: every kernel has these.
SCHEDULE: Fields = (("Phases of the work, and parts of each.", "int64_t", ("phases", "parts")),)
MEMORY: Fields = (
    (
        "Bytes of what is packed, of a thread's buffers, and of those that all share.",
        "int64_t",
        ("packed_bytes", "thread_bytes", "shared_bytes"),
    ),
)

# Fields that are one item of an attribute of the work.
_ITEMS = {
    name: (attribute, index)
    for attribute, names in {
        "size": ("height", "width"),
        "output_size": ("out_height", "out_width"),
        "kernel": ("kernel_height", "kernel_width"),
        "stride": ("stride_h", "stride_w"),
        "dilation": ("dilation_h", "dilation_w"),
        "padding": ("pad_top", "pad_left"),
        "deep": ("in_depth", "out_depth", "kernel_depth", "stride_d", "dilation_d", "pad_front"),
        "part": ("row_begin", "row_end", "col_begin", "col_end"),
        "block": ("block_rows", "block_cols"),
        "grid": ("grid_rows", "grid_cols"),
        "tiles": ("tile_rows", "tile_cols"),
        "step": ("step_h", "step_w"),
        "limits": ("lowest", "highest"),
        "a": ("a_row", "a_column"),
        "b": ("b_row", "b_column"),
        "schedule": ("phases", "parts"),
    }.items()
    for index, name in enumerate(names)
}


@dataclass(frozen=True)
class Buffer:
    """A piece of the workspace, in bytes: one per thread, or one that all threads share."""

    bytes: Any
    shared: Any = False


class Spec(ABC):
    """All that is fixed when the C of a kernel is written: the base of every kind."""

    # The arrays a call reads, in the order of its struct, and the array it writes.
    inputs: ClassVar[tuple[str, ...]]
    output: ClassVar[str] = "output"
    # The arrays that are packed before; none where kernels read all of them as they are.
    packs: ClassVar[tuple[str, ...]] = ()
    target: Target
    profile: bool = False  # whether it exports `<prefix>_profile`, nanoseconds per stage
    rank: int = 2  # 3 where images are planes of volumes

    @property
    @abstractmethod
    def name(self) -> str:
        """What files of its kernel are called."""

    @property
    @abstractmethod
    def fields(self) -> Fields:
        """The fields of its struct."""

    @property
    def transforms(self) -> tuple[Any, ...]:
        """The transforms that are compiled in, along height and width."""
        return ()

    def profiled(self: _Spec) -> _Spec:
        """Return its twin that counts the time of each stage."""
        return cast(_Spec, replace(cast(Any, self), profile=True))

    def buffers(self, work: Any) -> Mapping[str, Buffer]:
        """Return the buffers of a call by name."""
        buffers: Mapping[str, Buffer] = work.buffers
        return buffers

    def given(self, work: Any) -> Mapping[str, Any]:
        """Return the fields for a call that are not attributes of ``work`` by the same name."""
        return {}

    def values(self, work: Any, *, flush_denormals: bool = False) -> dict[str, Any]:
        """Return the fields of the struct for one call, in its order; structs as tuples."""
        given = {"flush_denormals": flush_denormals, **layout(self.buffers(work))}
        given |= self.given(work)
        return {
            name: _value(name, c_type, work, given, self.rank)
            for _, c_type, names in self.fields
            for name in names
        }

    def workspace_bytes(self, work: Any) -> int:
        """Return the bytes of scratch memory of one call, on all its threads."""
        return int(workspace_bytes(self.buffers(work), work.threads))


def _value(name: str, c_type: str, work: Any, given: Mapping[str, Any], rank: int) -> Any:
    if name in given:
        value = given[name]
    elif name in _ITEMS:
        attribute, index = _ITEMS[name]
        value = getattr(work, attribute)[index]
    else:
        value = getattr(work, name)
    if isinstance(value, Strides):
        value = astuple(value)[: None if rank == 3 else -2]  # planes are of volumes
    if c_type == "double":
        return value
    return tuple(map(int, value)) if isinstance(value, tuple) else int(value)


def finish(epilogue: Epilogue, early: bool, narrow: bool = False) -> dict[str, Any]:
    """Return the fields that say what becomes of sums.

    ``early``: whether all of it is done where the sums are. ``narrow``: whether a second pass
    stores them as narrower numbers; it has no activation left to apply then.
    """
    parameters = (*epilogue.parameters, 0.0, 0.0)
    return {
        "relu": early and epilogue.activation is not None,
        "capped": early and epilogue.cap is not None,
        "cap": epilogue.cap or 0.0,
        "after_store": narrow or not early,
        "activation": 0 if narrow and early else epilogue.code,
        "activation_a": parameters[0],
        "activation_b": parameters[1],
    }


def wishes_of(values: Mapping[str, Any]) -> dict[str, int]:
    """Return what a call wants, by the names of `WISHES`; 0 for nothing.

    ``values``: of the fields of its struct. An array that is not added has strides of zero.
    """
    wanted = {name: values.get(name, 0) for name in WISHES}
    wishes = {
        name: int(value[0] > 0 if isinstance(value, tuple) else value)
        for name, value in wanted.items()
    }
    # ReLU where the sums are is not done again.
    return {**wishes, "activation": wishes["activation"] * wishes["after_store"]}


def fields_for(fields: Fields, wishes: Mapping[str, int]) -> Fields:
    """Return the fields of the struct of a kernel whose only call wants ``wishes``."""
    unread = set(WISHES) | {name for names in WISHES.values() for name in names}
    unread -= {name for wish, names in WISHES.items() if wishes[wish] for name in names}
    kept = (
        (means, c_type, tuple(name for name in names if name not in unread))
        for means, c_type, names in fields
    )
    return tuple(field for field in kept if field[-1])


def declaration(fields: Iterable[_Field], rank: int = 2) -> str:
    """Return the C of a struct with these fields, and of the structs that it is made of."""
    strides: tuple[_Field, ...] = (
        ("Numbers from one of each to the next.", "int64_t", ("image", "row", "pixel", "channel")),
    )
    if rank == 3:
        strides += (("From plane to plane, and how many there are.", "int64_t", _PLANES),)
    sizes: tuple[_Field, ...] = (
        ("Bytes before it, and up to the next one.", "int64_t", ("offset", "step")),
    )
    structs: dict[str, tuple[str, Iterable[_Field]]] = {
        "winogen_strides": ("Where the numbers of an array lie.", strides),
        "winogen_buffer": ("A buffer of the workspace.", sizes),
        "winogen_conv": ("", fields),
    }
    texts = []
    for name, (about, some) in structs.items():
        lines = [f"/* {about} */"] * bool(about)
        lines += [f"typedef struct {name} {{", *chain(*map(_declared, some)), f"}} {name};"]
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


_COMMENT = 54  # the column that comments on fields begin in
_WIDE = 40  # letters of a line of them


@cache  # kernels share nearly all of them
def _declared(field: _Field) -> tuple[str, ...]:
    """The lines of some fields and of the sentence on them."""
    means, c_type, names = field
    first, *rest = textwrap.wrap(means, _WIDE)
    text = f"    {c_type} {', '.join(names)};"
    more = (f"{'':<{_COMMENT}} * {line}" for line in rest)
    *lines, last = f"{text:<{_COMMENT - 1}} /* {first}", *more
    return *lines, f"{last} */"


def room(buffers: Mapping[str, Buffer]) -> tuple[Any, Any]:
    """Return the bytes of the buffers of a thread, and of the shared buffers."""
    per_thread: Any = 0
    shared: Any = 0
    for buffer in buffers.values():
        size = round_up(buffer.bytes, LINE)
        per_thread = per_thread + np.where(buffer.shared, 0, size)
        shared = shared + np.where(buffer.shared, size, 0)
    return per_thread, shared


def workspace_bytes(buffers: Mapping[str, Buffer], threads: int) -> Any:
    """Return the bytes of all buffers, on so many threads."""
    per_thread, shared = room(buffers)
    return per_thread * threads + shared


def layout(buffers: Mapping[str, Buffer]) -> dict[str, Any]:
    """Return the fields that say where each buffer lies: first the shared, then each thread's."""
    per_thread, shared = map(int, room(buffers))
    fields: dict[str, Any] = {"thread_bytes": per_thread, "shared_bytes": shared}
    next_shared, next_private = 0, shared
    for name, buffer in buffers.items():
        size = int(round_up(buffer.bytes, LINE))
        if buffer.shared:
            fields[name] = (next_shared, 0)
            next_shared += size
        else:
            fields[name] = (next_private, per_thread)
            next_private += size
    return fields
