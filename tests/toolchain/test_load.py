"""load: from source to a library that runs, and the errors on the way."""

import json
import threading

import pytest

from winogen.errors import BuildError, CompileFailed
from winogen.records import TARGETS
from winogen.toolchain import Library, find_compiler, host_target, host_targets, load, on_compile
from winogen.toolchain.cache import SOURCE, file_digest


def test_a_loaded_function_runs(twice):
    library = load(twice.source, twice.cdef, host_target())
    assert library.lib.twice(21) == 42


def test_the_same_request_gives_the_same_library(twice):
    first = load(twice.source, twice.cdef, host_target())
    assert load(twice.source, twice.cdef, host_target()) is first


def test_libraries_with_one_cdef_share_their_types(twice):
    one = load(twice.source, twice.cdef, host_target())
    other = load("int twice(int x) { return x + x; }", twice.cdef, host_target())
    assert one.ffi is other.ffi and one.path != other.path


def test_source_and_manifest_lie_beside_the_library(twice, cache):
    library = load(twice.source, twice.cdef, host_target(), name="my kernel/1")
    assert library.path.is_relative_to(cache)
    assert library.path.parent.name.startswith("my-kernel-1-")
    assert library.path.with_name(SOURCE).read_text() == twice.source
    manifest = json.loads((library.path.parent / "manifest.json").read_text())
    assert manifest["sha256"] == file_digest(library.path)
    assert manifest["target"] == host_target().name


def test_flags_contract_but_never_reassociate(twice):
    library = load(twice.source, twice.cdef, host_target(), ("-DUNUSED=1",))
    command = json.loads((library.path.parent / "manifest.json").read_text())["command"]
    for flag in ("-std=gnu11", "-O3", "-ffp-contract=fast", "-fPIC", "-shared", "-DUNUSED=1"):
        assert flag in command
    assert "fast-math" not in command
    for flag in host_target().flags:
        assert flag in command


@pytest.mark.parametrize("target", host_targets(), ids=lambda target: target.name)
def test_every_target_of_this_cpu_compiles_and_runs(target):
    lanes = target.lanes("float32")
    source = f"""
    typedef float vec __attribute__((vector_size({target.vector_bytes})));
    float sum(void) {{
        vec x = {{0}}, s = {{0}};
        for (int i = 0; i < {lanes}; i++) x[i] = i;
        s += x;
        float total = 0;
        for (int i = 0; i < {lanes}; i++) total += s[i];
        return total;
    }}"""
    assert load(source, "float sum(void);", target).lib.sum() == lanes * (lanes - 1) / 2


def test_each_of_source_flags_target_and_compiler_has_its_own_entry(twice, fake_cc):
    def path(source=twice.source, flags=(), target=TARGETS["generic"]) -> str:
        return load(source, twice.cdef, target, flags).path

    paths = [
        path(),
        path(twice.source + "\n"),
        path(flags=("-DA",)),
        path(flags=("-D", "A")),
        path(target=host_target()),
    ]
    fake_cc('[ "$1" = --version ] && echo "fake-cc 99.0" && exit 0')
    assert find_compiler().version == "fake-cc 99.0"
    paths.append(path())
    assert len(set(paths)) == len(paths)


def test_a_failing_compile_shows_the_compilers_words_and_the_kept_source(cache):
    source = "int broken(void) { return missing_name; }\n"
    with pytest.raises(CompileFailed, match="missing_name.*undeclared") as caught:
        load(source, "int broken(void);", host_target(), name="broken")
    (kept,) = cache.glob("failed/broken-*/kernel.c")
    assert str(kept) in str(caught.value)
    assert kept.read_text() == source
    assert "missing_name" in kept.with_name("message.txt").read_text()
    assert not list(cache.glob("building-*")) and not list(cache.glob("broken-*"))


def test_a_long_compiler_message_is_cut_and_says_where_the_rest_is(cache):
    source = "".join(f"int f{i}(void) {{ return missing_{i}; }}\n" for i in range(40))
    with pytest.raises(CompileFailed, match=r"more lines in .*message\.txt") as caught:
        load(source, "int f0(void);", host_target())
    assert len(str(caught.value).splitlines()) < 40


def test_a_library_that_cannot_be_opened_is_a_build_error():
    source = "int elsewhere(void); int here(void) { return elsewhere(); }"
    with pytest.warns(RuntimeWarning, match="elsewhere"), pytest.raises(BuildError) as caught:
        load(source, "int here(void);", host_target())
    assert "cannot be loaded" in str(caught.value) and "elsewhere" in str(caught.value)


def test_progress_is_told_for_a_compile_and_not_for_a_cached_kernel(twice):
    events = []
    with on_compile(events.append):
        load(twice.source, twice.cdef, host_target(), name="told")
        load(twice.source, twice.cdef, host_target(), name="told")
        with pytest.raises(CompileFailed):
            load("not C", "int f(void);", host_target(), name="bad")
    load(twice.source + "\n", twice.cdef, host_target(), name="after the block")
    assert [(event.stage, event.name) for event in events] == [
        ("start", "told"),
        ("finish", "told"),
        ("start", "bad"),
        ("fail", "bad"),
    ]
    assert events[1].seconds > 0 and events[1].target == host_target().name


def test_threads_that_load_one_kernel_compile_it_once(twice, fake_cc):
    cc = fake_cc()
    libraries: list[Library] = []
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        libraries.append(load(twice.source, twice.cdef, host_target()))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cc.builds()) == 1
    assert len(libraries) == 8 and all(library is libraries[0] for library in libraries)
