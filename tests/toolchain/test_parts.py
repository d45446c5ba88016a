"""Parts that libraries have in common: compiled once, linked to each."""

import os

import pytest

from winogen.errors import CompileFailed
from winogen.toolchain import host_target, jobs, load, on_compile
from winogen.toolchain.loader import Build
from winogen.toolchain.pruning import prune

DOUBLED = '__attribute__((visibility("hidden"))) int doubled(int x) { return 2 * x; }\n'


def library(number):
    """A library that adds ``number`` to what the part makes."""
    source = f"int doubled(int x);\nint f(int x) {{ return doubled(x) + {number}; }}\n"
    return source, "int f(int x);", host_target()


def parts():
    return {"doubled": DOUBLED}


def test_a_part_is_compiled_once_for_all_libraries(fake_cc, cache):
    cc, events = fake_cc(), []
    with on_compile(events.append):
        answers = [load(*library(n), parts=parts).lib.f(10) for n in (1, 2)]
    assert answers == [21, 22]
    assert ["-c" in line.split() for line in cc.builds()].count(True) == 1
    assert len(list(cache.glob("doubled-*/kernel.o"))) == 1
    # What people wait for is the libraries.
    assert [event.stage for event in events] == ["start", "finish"] * 2


@pytest.mark.parametrize("declared, last", (("x", "finish"), ("y", "fail")))
def test_a_build_begins_with_its_parts(fake_cc, declared, last):
    cc, seen = fake_cc(), []
    broken = {"doubled": DOUBLED.replace("int x", f"int {declared}")}
    with on_compile(lambda event: seen.append((event.stage, len(cc.builds())))):
        try:
            load(*library(8), parts=lambda: broken)
        except CompileFailed:
            assert last == "fail"
    assert seen == [("start", 0), (last, 2 if last == "finish" else 1)]


def test_what_is_loaded_stays_while_parts_are_compiled(cache, monkeypatch):
    first, second = (load(*library(number), parts=parts).path for number in (20, 21))
    for path in (first, second):
        os.utime(path.parent, (0, 0))
    monkeypatch.setenv("WINOGEN_CACHE_LIMIT", "1")
    other = {"doubled": DOUBLED + "\n"}
    assert load(*library(22), parts=lambda: other).lib.f(10) == 42
    assert first.exists() and second.exists()


def test_a_library_at_hand_wants_no_parts(python):
    assert not Build(*library(3)).at_hand()
    load(*library(3), parts=parts)
    source, cdef, _ = library(3)
    code = f"""
    from winogen.toolchain import host_target, load
    print(load({source!r}, {cdef!r}, host_target(), parts=lambda: 1 / 0).lib.f(10))
    """
    assert python(code).finish().strip() == "23" and Build(*library(3)).at_hand()


def test_a_damaged_part_is_made_anew(cache):
    load(*library(4), parts=parts)
    (part,) = cache.glob("doubled-*/kernel.o")
    part.write_bytes(b"not an object")
    assert load(*library(5), parts=parts).lib.f(10) == 25
    assert part.read_bytes() != b"not an object"


def test_a_part_that_does_not_compile_is_told():
    with pytest.raises(CompileFailed, match="doubled"):
        load(*library(6), parts=lambda: {"doubled": "int doubled(int x) { return y; }"})


def test_a_cache_that_is_emptied_during_a_build_makes_the_part_anew(cache, monkeypatch):
    """As by `winogen cache --clear`, between the compile of a part and the one that links it."""

    def emptied(*job):
        path = part(*job)
        if not left:
            prune(cache, -1, recent=0)
            left.append(path.exists())
        return path

    part, left = jobs._part, []
    monkeypatch.setattr(jobs, "_part", emptied)
    assert load(*library(7), parts=parts).lib.f(10) == 27
    assert left == [False] and not list(cache.glob("failed/*"))
