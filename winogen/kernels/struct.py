"""The struct `winogen_conv` that a kernel takes: declared once, for C, cffi and Python."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple
from typing import Any, get_args

from winogen.kernels.variant import Variant
from winogen.kernels.work import Work
from winogen.typing import PaddingMode

PADDING_MODES: tuple[PaddingMode, ...] = get_args(PaddingMode)  # the index is the C's number

# Fields that all kernels have: (meaning, type, names).
COMMON = (
    ("", "int64_t", ("batch", "groups")),
    ("per group: C and M", "int64_t", ("channels", "filters")),
    ("", "int64_t", ("height", "width", "out_height", "out_width")),
    ("", "int64_t", ("kernel_height", "kernel_width")),
    ("", "int64_t", ("stride_h", "stride_w", "dilation_h", "dilation_w")),
    ("mode: see source_index()", "int64_t", ("pad_top", "pad_left", "padding_mode")),
    ("the outputs to compute", "int64_t", ("row_begin", "row_end", "col_begin", "col_end")),
    ("of the arrays", "winogen_strides", ("input", "output", "add", "add_after")),
    ("of the input, in all", "int64_t", ("input_numbers",)),
    ("done where the sums are", "int64_t", ("add_early", "relu", "capped")),
    ("max(y, 0) is at most that, if capped", "double", ("cap",)),
    ("activation: 0 for none", "int64_t", ("after_store", "activation")),
    ("its parameters", "double", ("activation_a", "activation_b")),
    ("in tiles or outputs", "int64_t", ("block_rows", "block_cols", "block_images")),
    ("blocks of a group and image", "int64_t", ("grid_rows", "grid_cols")),
    ("of a block, if threads share it", "int64_t", ("shares",)),
    ("of the work, see the end", "int64_t", ("phases", "parts")),
    ("terms of a chain of additions", "int64_t", ("depth",)),
    ("flags", "int64_t", ("non_temporal", "flush_denormals")),
    ("", "int64_t", ("packed_bytes", "thread_bytes", "shared_bytes")),
)  # fmt: skip


# Fields of those whose arrays hold narrower numbers than are computed with.
NARROW = (
    ("of the array, where output is the buffer", "winogen_strides", ("results",)),
    ("outputs that wait for it", "winogen_buffer", ("unit",)),
)


def declaration(variant: Variant, border: str, narrow: bool = False) -> str:
    """Return the C of the struct, and of those that it is made of."""
    special = [(means, "int64_t", (name,)) for name, means in variant.fields_used.items()]
    buffers = variant.buffer_names(border)
    special += [(means, "winogen_buffer", (name,)) for name, means in buffers.items()]
    return struct_of((*COMMON, *special, *(NARROW if narrow else ())))


def struct_of(fields: Iterable[tuple[str, str, tuple[str, ...]]]) -> str:
    """Return the C of a struct with these fields, (meaning, type, names) each."""
    lines = [
        "/* From one image, row, pixel and channel of an array to the next. */",
        "typedef struct winogen_strides {",
        "    int64_t image, row, pixel, channel;",
        "} winogen_strides;",
        "",
        "/* A buffer of the workspace, in bytes: from its beginning, and from one thread's to the "
        "next. */",
        "typedef struct winogen_buffer {",
        "    int64_t offset, step;",
        "} winogen_buffer;",
        "",
        "typedef struct winogen_conv {",
    ]
    for means, kind, names in fields:
        text = f"    {kind} {', '.join(names)};"
        lines.append(f"{text:<54}/* {means} */" if means else text)
    return "\n".join([*lines, "} winogen_conv;"])


def values(variant: Variant, work: Work, *, flush_denormals: bool = False) -> dict[str, Any]:
    """Return the fields for one call; structs as tuples."""
    phases, parts = variant.schedule(work)
    narrow = work.precision.narrow
    adds_early = variant.adds_early and not narrow
    epilogue, early = work.epilogue, work.epilogue.ends_early(adds_early)
    parameters = (*epilogue.parameters, 0.0, 0.0)
    row_begin, row_end, col_begin, col_end = work.part
    fields = {
        "batch": work.batch,
        "groups": work.groups,
        "channels": work.channels,
        "filters": work.filters,
        "height": work.size[0],
        "width": work.size[1],
        "out_height": work.output_size[0],
        "out_width": work.output_size[1],
        "kernel_height": work.kernel[0],
        "kernel_width": work.kernel[1],
        "stride_h": work.stride[0],
        "stride_w": work.stride[1],
        "dilation_h": work.dilation[0],
        "dilation_w": work.dilation[1],
        "pad_top": work.padding[0],
        "pad_left": work.padding[1],
        "padding_mode": PADDING_MODES.index(work.padding_mode),
        "row_begin": row_begin,
        "row_end": row_end,
        "col_begin": col_begin,
        "col_end": col_end,
        "input": astuple(work.input),
        "output": astuple(work.output),
        "add": astuple(work.add),
        "add_after": astuple(work.add_after),
        "input_numbers": work.input_numbers,
        "add_early": int(adds_early),
        "relu": int(early and epilogue.activation is not None),
        "cap": epilogue.cap or 0.0,
        "capped": int(early and epilogue.cap is not None),
        "after_store": int(narrow or not early),
        "activation": 0 if narrow and early else epilogue.code,
        "activation_a": parameters[0],
        "activation_b": parameters[1],
        "block_rows": int(work.block[0]),
        "block_cols": int(work.block[1]),
        "block_images": int(work.images),
        "grid_rows": int(work.grid[0]),
        "grid_cols": int(work.grid[1]),
        "shares": int(variant.shares(work)),
        "phases": phases,
        "parts": parts,
        "depth": variant.depth(work),
        "non_temporal": int(variant.streams(work)),
        "flush_denormals": int(flush_denormals),
        "packed_bytes": variant.packed_room(work),
    }
    if narrow:
        unit = variant.unit_strides(work)
        fields |= {"results": fields["output"], "output": tuple(map(int, astuple(unit)))}
    fields |= variant.layout(work)
    fields |= {name: int(value) for name, value in variant.fields(work).items()}
    return fields
