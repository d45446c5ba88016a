"""The header of intrinsics: read by gcc once, from the third library of a process on."""

import platform

import pytest

from winogen.errors import CompileFailed
from winogen.toolchain import find_compiler, host_target, jobs, load
from winogen.toolchain.pruning import prune

pytestmark = pytest.mark.skipif(
    find_compiler().family != "gcc" or platform.machine() != "x86_64",
    reason="other compilers read their header themselves",
)


def library(number):
    """Load a library that calls an intrinsic; returns where it lies."""
    source = f"""#include <immintrin.h>
float f(float x)
{{
    return _mm_cvtss_f32(_mm_add_ss(_mm_set_ss(x), _mm_set_ss({number})));
}}
"""
    made = load(source, "float f(float x);", host_target())
    assert made.lib.f(2) == 2 + number
    return made.path


@pytest.fixture(autouse=True)
def none_compiled(monkeypatch):
    monkeypatch.setattr(jobs, "_compiled", [])


def headers(cache):
    return sorted(cache.glob("intrinsics-*/kernel.c.gch"))


def test_a_process_of_few_libraries_reads_no_header_ahead(cache):
    paths = [library(number) for number in (1, 2)]
    assert not headers(cache)
    assert not any("-include" in (path.parent / "manifest.json").read_text() for path in paths)


def test_the_third_library_has_it_read_and_all_later_ones_take_it(fake_cc, cache):
    cc = fake_cc()
    for number in range(1, 6):
        library(number)
    (header,) = headers(cache)
    reads = ["c-header" in line.split() for line in cc.builds()]
    takes = [str(header.parent) in line for line in cc.builds()]
    assert reads == [False] * 2 + [True] + [False] * 3 and takes == [False] * 3 + [True] * 3


def test_the_same_code_comes_of_it(cache, monkeypatch):
    monkeypatch.setattr(jobs, "_FEW", 0)
    with_header = library(7).read_bytes()
    assert headers(cache)
    monkeypatch.setattr(jobs, "_FEW", 9)
    prune(cache, -1, recent=0)
    monkeypatch.setenv("WINOGEN_CACHE", str(cache / "other"))
    assert library(7).read_bytes() == with_header


@pytest.mark.parametrize("left", (b"", b"gpch not by this compiler"))
def test_a_damaged_one_is_made_anew(left, cache, monkeypatch):
    monkeypatch.setattr(jobs, "_FEW", 0)
    library(8)
    (header,) = headers(cache)
    header.write_bytes(left)
    library(9)
    assert headers(cache) == [header] and header.read_bytes() != left


def test_what_does_not_fit_is_read_as_text(cache, monkeypatch):
    """As after an update of the compiler that its version does not show."""
    monkeypatch.setattr(jobs, "_FEW", 0)
    monkeypatch.setattr("winogen.toolchain.cache.KernelStore.find", lambda *a: None)
    build = jobs.build

    def spoiled(job, store, entry, *rest):
        path = build(job, store, entry, *rest)
        if job.product == jobs.HEADER:
            path.write_bytes(b"not a header")
        return path

    monkeypatch.setattr(jobs, "build", spoiled)
    library(10)


def test_where_it_cannot_be_read_ahead_libraries_are_compiled_without(cache, monkeypatch):
    monkeypatch.setattr(jobs, "_FEW", 0)
    monkeypatch.setattr(jobs, "_HEADER", "/* {} */\n#error there is none\n")
    library(11)
    assert not headers(cache)
    with pytest.raises(CompileFailed):
        load("#include <immintrin.h>\nint f(int x) { return y; }", "int f(int x);", host_target())


def test_an_emptied_cache_does_not_stop_a_build(cache, monkeypatch):
    monkeypatch.setattr(jobs, "_FEW", 0)
    header, left = jobs.intrinsics, []

    def emptied(*job):
        path = header(*job)
        if path and not left:
            prune(cache, -1, recent=0)
            left.append(path.exists())
        return path

    monkeypatch.setattr(jobs, "intrinsics", emptied)
    library(12)
    assert left == [False]
