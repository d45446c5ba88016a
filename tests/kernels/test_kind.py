"""What all kinds of kernels have in common: the struct, its values, and the layout of buffers."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winogen.kernels.kind import Buffer, Spec, declaration, layout, workspace_bytes
from winogen.records import Strides


class Toy(Spec):
    """A kind with a field of every type."""

    name = "toy"
    fields = (
        ("sizes", "int64_t", ("height", "width", "count", "is_large")),
        ("of the input", "winogen_strides", ("input",)),
        ("The limit.", "double", ("cap",)),
        ("Of all.", "int64_t", ("flush_denormals", "thread_bytes", "shared_bytes")),
        ("one per thread", "winogen_buffer", ("row",)),
        ("of all threads", "winogen_buffer", ("sums",)),
    )

    def given(self, work):
        return {"is_large": work.count > 5}


WORK = SimpleNamespace(
    size=(3, 4),
    count=7,
    input=Strides(12, 4, 1, 1),
    cap=0.5,
    threads=3,
    buffers={"row": Buffer(100), "sums": Buffer(65, shared=True)},
)


def test_values_are_attributes_of_the_work_in_the_order_of_the_struct():
    values = Toy().values(WORK, flush_denormals=True)
    assert list(values) == [name for _, _, names in Toy.fields for name in names]
    assert values == {
        "height": 3, "width": 4, "count": 7, "is_large": 1, "input": (12, 4, 1, 1), "cap": 0.5,
        "flush_denormals": 1, "thread_bytes": 128, "shared_bytes": 128,
        "row": (128, 128), "sums": (0, 0),
    }  # fmt: skip
    assert type(values["is_large"]) is int
    assert Toy().workspace_bytes(WORK) == 3 * 128 + 128


def test_a_field_that_nobody_knows_is_no_zero():
    with pytest.raises(AttributeError, match="count"):
        Toy().values(SimpleNamespace(**{k: v for k, v in vars(WORK).items() if k != "count"}))


def test_the_struct_in_c_has_the_fields_and_their_meanings():
    lines = declaration(Toy.fields).split("\n")
    assert lines[-8].split("/*") == ["typedef struct winogen_conv {"]
    assert lines[-7].split() == "int64_t height, width, count, is_large; /* sizes */".split()
    assert [line.split("/*")[0].rstrip() for line in lines[-5:-3]] == [
        "    double cap;",
        "    int64_t flush_denormals, thread_bytes, shared_bytes;",
    ]
    assert [line.split("/*")[1] for line in lines[-5:-3]] == [" The limit. */", " Of all. */"]


@given(st.lists(st.tuples(st.integers(0, 500), st.booleans()), max_size=6), st.integers(1, 4))
def test_buffers_share_the_workspace_without_overlap(sizes, threads):
    buffers = {f"b{i}": Buffer(size, shared) for i, (size, shared) in enumerate(sizes)}
    fields, pieces = layout(buffers), []
    for name, buffer in buffers.items():
        offset, step = fields[name]
        assert step == (0 if buffer.shared else fields["thread_bytes"])
        members = range(1 if buffer.shared else threads)
        pieces += [(offset + i * step, offset + i * step + buffer.bytes) for i in members]
    pieces.sort()
    assert all(begin % 64 == 0 for begin, _ in pieces)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(pieces))
    whole = fields["shared_bytes"] + threads * fields["thread_bytes"]
    assert whole == workspace_bytes(buffers, threads)
    assert not pieces or pieces[-1][1] <= whole
