"""The cache holds code that runs: whoever else could have written it is not believed."""

import hashlib
import json
import os
import stat
import tempfile
import warnings
from pathlib import Path

import pytest

from winogen.errors import CacheUnavailable, CompilerNotFound, InvalidValue
from winogen.records import Machine, costs_of
from winogen.toolchain import (
    cache_dir,
    compiler,
    find_compiler,
    host_target,
    kept,
    load,
    machine,
    trust,
)
from winogen.toolchain.cache import stores

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
NOBODY = 65534


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def planted(cache, twice):
    """A kernel in the cache whose library is another, with a manifest that says it is right."""
    library = load(twice.source, twice.cdef, host_target(), name="twice").path
    other = load(twice.source.replace("2 *", "3 *"), twice.cdef, host_target(), name="thrice").path
    library.unlink()  # this process has it loaded
    library.write_bytes(other.read_bytes())
    manifest = json.loads(library.with_name("manifest.json").read_text())
    manifest["size"] = library.stat().st_size
    manifest["sha256"] = hashlib.sha256(library.read_bytes()).hexdigest()
    library.with_name("manifest.json").write_text(json.dumps(manifest))
    return library.parent


RESULT = """
import warnings
from winogen.toolchain import host_target, load
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    source = "int twice(int x) { return 2 * x; }\\n"
    library = load(source, "int twice(int x);", host_target(), name="twice")
print(library.lib.twice(21), library.path)
for one in caught: print(one.message)
"""


def test_folders_are_made_for_the_user_alone(open_umask, cache, twice):
    load(twice.source, twice.cdef, host_target())
    kept("key", lambda: "a text")
    machine.save(Machine(), cache)
    folders = [cache, *(path for path in cache.rglob("*") if path.is_dir())]
    assert len(folders) >= 4 and {mode(path) for path in folders} == {0o700}
    assert mode(cache / "texts" / "key") == mode(next(cache.glob("machine*"))) == 0o600


@AS_ROOT
def test_a_folder_of_somebody_else_is_not_used(cache, twice, python):
    entry = planted(cache, twice)
    for path in (cache, entry, *entry.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    result, *said = python(RESULT).finish().splitlines()
    assert result.startswith("42 ") and str(cache) not in result
    (warning,) = said
    assert str(cache) in warning and "nobody" in warning and "WINOGEN_CACHE" in warning


@AS_ROOT
def test_an_entry_of_somebody_else_is_not_used(cache, twice, python):
    entry = planted(cache, twice)
    for victim in (entry, entry / "kernel.so", entry / "manifest.json"):
        os.chown(victim, NOBODY, NOBODY)
        result, *said = python(RESULT).finish().splitlines()
        assert result.startswith("42 ") and str(cache) not in result
        assert any(str(victim) in warning for warning in said)
        os.chown(victim, 0, 0)


def test_a_folder_open_to_all_is_closed_and_what_lies_there_made_anew(cache, twice, python):
    entry = planted(cache, twice)
    for path in (cache, entry):
        path.chmod(0o777)
    result, warning = python(RESULT).finish().splitlines()
    assert result == f"42 {entry / 'kernel.so'}"
    assert str(cache) in warning and "mode 777" in warning and "closed to others now" in warning
    assert mode(cache) == 0o755 and mode(entry) == 0o700
    assert python(RESULT).finish() == result  # said once


def test_a_folder_open_to_a_group_is_closed_without_a_word(cache, twice, python):
    """As a umask of 002 leaves it where each user is a group."""
    entry = planted(cache, twice)
    for path in (cache, entry):
        path.chmod(0o775)
    assert python(RESULT).finish() == f"42 {entry / 'kernel.so'}"
    assert mode(cache) == 0o755 and mode(entry) == 0o700


def test_a_folder_open_to_all_that_is_no_cache_of_ours_is_left_as_it_is(tmp_path, twice, python):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "letter").touch()
    for bits in (0o777, 0o1777):
        shared.chmod(bits)
        result, *said = python(RESULT, WINOGEN_CACHE=str(shared)).finish().splitlines()
        assert result.startswith("42 ") and str(shared) not in result
        assert any(f"mode {bits:o}" in warning and "chmod go-w" in warning for warning in said)
        assert mode(shared) == bits and [path.name for path in shared.iterdir()] == ["letter"]


def test_an_empty_folder_of_ours_is_closed(tmp_path, python):
    """Such as `mkdir` makes with a umask of 002."""
    folder = tmp_path / "empty"
    folder.mkdir()
    folder.chmod(0o775)
    assert str(folder) in python(RESULT, WINOGEN_CACHE=str(folder)).finish()
    assert mode(folder) == 0o755
    folder = tmp_path / "like-tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    assert str(folder / "twice") not in python(RESULT, WINOGEN_CACHE=str(folder)).finish()
    assert mode(folder) == 0o1777


def test_a_folder_in_one_that_is_open_to_all_is_fine(tmp_path, python):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    result = python(RESULT, WINOGEN_CACHE=str(shared / "mine")).finish()
    assert result.startswith(f"42 {shared / 'mine'}") and "\n" not in result


def test_a_link_to_a_folder_of_ours_is_fine(tmp_path, monkeypatch, twice):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "link"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(twice.source, twice.cdef, host_target()).lib.twice(1) == 2


def test_a_linked_library_is_not_loaded(cache, twice, python, tmp_path):
    library = planted(cache, twice) / "kernel.so"
    library.rename(tmp_path / "elsewhere.so")
    library.symlink_to(tmp_path / "elsewhere.so")
    manifest = json.loads(library.with_name("manifest.json").read_text())
    manifest["size"] = library.lstat().st_size
    library.with_name("manifest.json").write_text(json.dumps(manifest))
    assert python(RESULT).finish() == f"42 {library}"


@pytest.mark.parametrize("harm", (lambda path: path.chmod(0o666), "chown", "link", "pipe"))
def test_texts_and_machines_that_others_may_write_are_not_believed(harm, cache, tmp_path):
    mine = Machine(l3_rate=7.5)
    machine.save(mine, cache)
    kept("key", lambda: "a text")
    for path in (next(cache.glob("machine*")), cache / "texts" / "key"):
        if harm == "chown":
            if os.geteuid():
                pytest.skip("only root can give files away")
            os.chown(path, NOBODY, NOBODY)
        elif harm == "link":
            path.rename(tmp_path / path.name)
            path.symlink_to(tmp_path / path.name)
        elif harm == "pipe":
            path.unlink()
            os.mkfifo(path)
        else:
            harm(path)
    assert machine.stored(cache) is None
    assert kept("key", lambda: "made again") == "made again"
    assert kept("key", lambda: "never") == "made again"


@AS_ROOT
def test_machines_and_compilers_of_a_foreign_folder_are_not_believed(cache, monkeypatch):
    machine.save(Machine(l3_rate=7.5), cache)
    compiler._compilers.clear()
    find_compiler()
    assert list(cache.glob("compilers/*"))
    os.chown(cache, NOBODY, NOBODY)
    machine._known.cache_clear()
    with pytest.warns(RuntimeWarning, match="nobody"):
        assert machine.current() == Machine(costs=costs_of(host_target().core))
    machine._known.cache_clear()
    monkeypatch.setattr(compiler, "_recall", lambda memo, command: asked.append(memo))
    compiler._compilers.clear()
    asked = []
    find_compiler()
    assert asked and not asked[0].is_relative_to(cache)
    with pytest.raises(trust.Untrusted, match="nobody"):
        machine.save(Machine(), cache)


@AS_ROOT
def test_with_no_other_place_a_foreign_folder_is_an_error(cache, twice, monkeypatch):
    cache.mkdir()
    os.chown(cache, NOBODY, NOBODY)

    def refuse():
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("winogen.toolchain.cache._private_root", refuse)
    with pytest.warns(RuntimeWarning), pytest.raises(CacheUnavailable, match="cannot be used"):
        load(twice.source, twice.cdef, host_target())
    assert not list(stores())
    assert kept("key", lambda: "a text") == "a text"


def test_a_planted_link_is_not_emptied(cache, twice, tmp_path, python):
    """filelock before 3.20.1 follows links and truncates what they point to."""
    import filelock

    precious = tmp_path / "precious"
    precious.write_text("a thesis")
    (cache / "locks").mkdir(parents=True)
    (cache / "locks" / "0.lock").symlink_to(precious)
    with pytest.raises((OSError, filelock.Timeout)):
        filelock.FileLock(cache / "locks" / "0.lock", timeout=0).acquire()
    assert precious.read_text() == "a thesis"


@pytest.mark.parametrize("folder", ("~no-such-user/x", "/some/\udcff"))
def test_a_cache_that_cannot_be_a_folder_is_refused(folder, monkeypatch, twice):
    monkeypatch.setenv("WINOGEN_CACHE", folder)
    with pytest.raises(InvalidValue, match="^WINOGEN_CACHE: got .*; allowed: "):
        cache_dir()
    with pytest.raises(InvalidValue) as caught:
        load(twice.source, twice.cdef, host_target())
    str(caught.value).encode()


def test_a_user_without_a_home_has_a_cache_of_temporary_files(monkeypatch):
    """Not a folder named ~ wherever the process happens to be."""
    for name in ("HOME", "XDG_CACHE_HOME", "WINOGEN_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    assert cache_dir() == Path(tempfile.gettempdir()) / f"winogen-{os.geteuid()}"


def test_a_home_that_is_no_text_gives_a_private_folder(tmp_path, twice, monkeypatch):
    monkeypatch.delenv("WINOGEN_CACHE")
    home = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    with pytest.warns(RuntimeWarning, match="cannot be loaded"):
        assert load(twice.source, twice.cdef, host_target()).lib.twice(2) == 4


def test_an_unbalanced_quote_in_cc_is_refused(monkeypatch):
    monkeypatch.setenv("CC", "gcc 'oops")
    with pytest.raises(CompilerNotFound, match="^CC: got .*No closing quotation"):
        find_compiler()
