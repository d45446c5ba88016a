"""The cache: broken files, killed builders, many builders, nowhere to write."""

import os
import signal
import time
import warnings

import pytest
from kernels.turns import first

from winogen.errors import CacheUnavailable
from winogen.toolchain import cache as cache_module
from winogen.toolchain import cache_dir, compiler, find_compiler, host_target, load, loader
from winogen.toolchain.cache import STALE_SECONDS, KernelStore


def wait_for(condition, what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def test_the_cache_folder_is_the_users_unless_the_environment_says_otherwise(cache, monkeypatch):
    assert cache_dir() == cache
    monkeypatch.delenv("WINOGEN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "xdg"))
    assert cache_dir().name == "winogen" and cache_dir() != cache


def truncate(library):
    library.write_bytes(library.read_bytes()[:1000])


def flip_a_byte(library):
    data = bytearray(library.read_bytes())
    data[len(data) // 2] ^= 1
    library.write_bytes(data)


def empty(library):
    library.write_bytes(b"")


def remove(library):
    library.unlink()


def remove_manifest(library):
    (library.parent / "manifest.json").unlink()


def spoil_manifest(library):
    (library.parent / "manifest.json").write_text("[1, 2")


def foreign_manifest(library):
    (library.parent / "manifest.json").write_text("[1, 2]")


@pytest.mark.parametrize(
    "damage",
    first(3, zip((flip_a_byte, remove, spoil_manifest, truncate, empty, remove_manifest,
                  foreign_manifest))),
)  # fmt: skip
def test_a_damaged_entry_is_built_again(damage, cache, fake_cc, python):
    cc = fake_cc()
    path = python().finish()
    (library,) = cache.glob("twice-*/kernel.so")
    good = library.read_bytes()
    damage(library)
    assert python().finish() == path  # the process itself checks the result
    assert len(cc.builds()) == 2
    assert library.read_bytes() == good
    python().finish()
    assert len(cc.builds()) == 2
    assert not list(cache.glob("building-*"))


def test_a_second_process_runs_no_compiler_at_all(fake_cc, python):
    cc = fake_cc()
    python().finish()
    before = len(cc.runs())
    assert before >= 1
    python().finish()
    assert len(cc.runs()) == before


def test_a_warm_start_does_not_import_what_only_building_needs(python):
    python().finish()
    code = """
    import sys
    from winogen.toolchain import host_target, load
    load("int twice(int x) { return 2 * x; }\\n", "int twice(int x);", host_target(), name="twice")
    print([name for name in ("filelock", "sympy", "typer", "asyncio") if name in sys.modules])
    """
    assert python(code).finish() == "[]"


def test_a_killed_builder_leaves_nothing_that_is_loaded(cache, tmp_path, fake_cc, python):
    # The compiler writes half a library and hangs; the builder is killed; the compiler lives on.
    hang, gate = tmp_path / "hang", tmp_path / "gate"
    hang.touch()
    cc = fake_cc(
        f"""case "$*" in *kernel.c*) if [ -e {hang} ]; then
            echo half a library > kernel.so
            while [ ! -e {gate} ]; do sleep 0.05; done
        fi;; esac"""
    )
    builder = python()
    half = lambda: list(cache.glob("building-*/kernel.so"))
    wait_for(half, "half a library")
    os.kill(builder.pid, signal.SIGKILL)
    builder.process.wait()
    try:
        assert half() and not list(cache.glob("twice-*"))
        hang.unlink()
        python().finish()  # gets the lock that died with its holder, sweeps, builds, runs
        assert len(cc.builds()) == 2
        assert not list(cache.glob("building-*"))
    finally:
        gate.touch()


def test_eight_processes_compile_one_kernel_once(cache, tmp_path, fake_cc, python):
    cc = fake_cc('case "$*" in *kernel.c*) sleep 0.5;; esac')
    gate = tmp_path / "gate"
    code = f"""
    import os, time
    from winogen.toolchain import host_target, load, on_compile
    import filelock, cffi
    target = host_target()
    open({str(tmp_path)!r} + f"/ready-{{os.getpid()}}", "w").close()
    while not os.path.exists({str(gate)!r}):
        time.sleep(0.01)
    stages = []
    with on_compile(lambda event: stages.append(event.stage)):
        library = load("int twice(int x) {{ return 2 * x; }}", "int twice(int);", target)
    assert library.lib.twice(21) == 42
    print(stages)
    """
    crowd = [python(code) for _ in range(8)]
    wait_for(lambda: len(list(tmp_path.glob("ready-*"))) == 8, "eight processes")
    gate.touch()
    stages = sorted(one.finish() for one in crowd)
    assert len(cc.builds()) == 1
    assert stages.count("['start', 'finish']") == 1
    assert set(stages) <= {"['start', 'finish']", "['wait']", "[]"}
    assert not list(cache.glob("building-*"))


def test_old_rubbish_is_swept_and_the_work_of_others_is_not(cache, twice):
    old, fresh = cache / "building-abc-1", cache / "building-def-2"
    for folder in (old, fresh):
        folder.mkdir(parents=True)
        (folder / "kernel.so").write_text("half")
    long_ago = time.time() - STALE_SECONDS - 60
    os.utime(old, (long_ago, long_ago))
    load(twice.source, twice.cdef, host_target())
    assert not old.exists() and fresh.exists()


def test_without_file_locks_it_builds_all_the_same(monkeypatch, twice):
    import filelock

    def refuse(*args, **kwargs):
        raise NotImplementedError("this file system has no locks")

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    assert load(twice.source, twice.cdef, host_target()).lib.twice(3) == 6


def draft(store: KernelStore, content: bytes):
    folder = store.root / f"building-unlocked-{content.decode()}"
    folder.mkdir(parents=True)
    (folder / "kernel.so").write_bytes(content)
    return folder


def test_of_two_unlocked_builders_the_first_wins(tmp_path):
    store = KernelStore(tmp_path)
    entry = store.entry("k", "0")
    assert store.publish(draft(store, b"first"), entry, {}) == entry / "kernel.so"
    assert store.publish(draft(store, b"second"), entry, {}) == entry / "kernel.so"
    assert store.find(entry).read_bytes() == b"first"


def test_publishing_replaces_a_broken_entry(tmp_path):
    store = KernelStore(tmp_path)
    entry = store.entry("k", "0")
    store.publish(draft(store, b"first"), entry, {})
    (entry / "kernel.so").write_bytes(b"fir")
    assert store.find(entry) is None
    store.publish(draft(store, b"second"), entry, {})
    assert store.find(entry).read_bytes() == b"second"
    assert not list(tmp_path.glob("building-rubbish-*"))


@pytest.fixture
def unwritable(tmp_path, monkeypatch):
    """A cache that no one can write, not even root: it would lie inside a file."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "file" / "cache"))


def test_an_unwritable_cache_gives_a_warning_and_a_private_folder(unwritable, twice):
    with pytest.warns(RuntimeWarning, match="WINOGEN_CACHE"):
        library = load(twice.source, twice.cdef, host_target())
    assert library.lib.twice(21) == 42


def test_the_warning_comes_once(unwritable, twice):
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        load(twice.source, twice.cdef, host_target())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(twice.source + "\n", twice.cdef, host_target())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_cache_still_serves_what_it_has(cache, twice, python):
    python().finish()
    for folder in (cache, *cache.iterdir()):
        folder.chmod(0o555)
    try:
        assert str(cache) in python(PYTHONWARNINGS="error").finish()
        with pytest.warns(RuntimeWarning, match="Permission denied"):
            load(twice.source + "\n", twice.cdef, host_target())
    finally:
        for folder in (cache, *cache.iterdir()):
            folder.chmod(0o755)


def test_the_private_folder_goes_with_the_process(unwritable, tmp_path, python):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    assert str(temporary) in python(TMPDIR=str(temporary)).finish()
    assert not list(temporary.iterdir())


@pytest.fixture
def full_cache(cache, fake_cc):
    """A compiler that finds no space left as long as it works inside the cache."""
    return fake_cc(
        f"""case "$PWD" in {cache}/*)
            case "$*" in *kernel.c*)
                echo half > kernel.so; echo "ld: final link failed: No space left on device" >&2
                exit 1;;
            esac;;
        esac"""
    )


def test_a_full_cache_gives_a_warning_and_a_private_folder(full_cache, cache, twice):
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        library = load(twice.source, twice.cdef, host_target())
    assert library.lib.twice(21) == 42
    assert not library.path.is_relative_to(cache)
    assert not list(cache.glob("building-*")) and not list(cache.glob("kernel-*"))


def test_a_build_whose_folder_is_swept_meanwhile_is_made_again(cache, tmp_path, fake_cc, twice):
    """As by another process, whose clock is an hour ahead."""
    swept = tmp_path / "swept"
    cc = fake_cc(
        f'case "$*" in *kernel.c*) [ -e {swept} ] || {{ touch {swept}; rm -r "$PWD"; }};; esac'
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        library = load(twice.source, twice.cdef, host_target())
    assert library.lib.twice(21) == 42 and library.path.is_relative_to(cache)
    assert len(cc.builds()) == 2


def test_a_build_that_is_swept_again_and_again_says_so(cache, fake_cc, twice):
    fake_cc(f'case "$PWD" in {cache}/*) case "$*" in *kernel.c*) rm -r "$PWD";; esac;; esac')
    with pytest.warns(RuntimeWarning, match="was removed during a build"):
        assert load(twice.source, twice.cdef, host_target()).lib.twice(21) == 42


def test_a_disk_that_fills_up_while_publishing_leaves_no_entry(cache, twice, monkeypatch):
    def refuse(store, folder, *rest):
        if store.root == cache:
            raise OSError(28, "No space left on device", str(folder))
        return publish(store, folder, *rest)

    publish = KernelStore.publish
    monkeypatch.setattr(KernelStore, "publish", refuse)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        library = load(twice.source, twice.cdef, host_target())
    assert library.lib.twice(21) == 42
    assert not list(cache.glob("building-*")) and not list(cache.glob("kernel-*"))


def test_when_no_file_may_grow_the_error_says_so(python):
    # A limit on the size of files, as a full disk is: both the cache and the private folder fail.
    code = """
    import resource, warnings
    warnings.simplefilter("ignore")
    from winogen.toolchain import find_compiler, host_target, load
    from winogen.errors import CacheUnavailable
    find_compiler()
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    try:
        load("int twice(int x) { return 2 * x; }", "int twice(int);", host_target())
    except CacheUnavailable as error:
        print(error)
    """
    assert "cannot be used" in python(code).finish()


@pytest.mark.parametrize("compilers", (None, {}), ids=("a known compiler", "a new one"))
def test_when_nothing_is_writable_the_error_says_so(unwritable, twice, monkeypatch, compilers):
    def refuse(*args, **kwargs):
        raise FileNotFoundError(2, "No usable temporary directory found")

    find_compiler()
    if compilers is not None:
        monkeypatch.setattr(compiler, "_compilers", compilers)
    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    cache_module._private_root.cache_clear()
    with pytest.raises(CacheUnavailable, match="cannot be used"):
        load(twice.source, twice.cdef, host_target())


def test_a_noexec_cache_falls_back(cache, twice, monkeypatch):
    ffi = loader.ffi_of(twice.cdef)

    class Picky:
        def dlopen(self, path):
            if path.startswith(str(cache)):
                raise OSError("failed to map segment from shared object")
            return ffi.dlopen(path)

    monkeypatch.setattr(loader, "ffi_of", lambda cdef: Picky())
    with pytest.warns(RuntimeWarning, match="failed to map segment"):
        library = load(twice.source, twice.cdef, host_target())
    assert library.lib.twice(21) == 42
