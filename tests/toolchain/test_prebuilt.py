"""Archives of libraries: found without a compiler, believed as far as they are whole."""

import json
import os
import platform
import time
import warnings

import pytest

from winogen.errors import CompilerNotFound, InvalidValue
from winogen.toolchain import find_compiler, host_target, prebuilt
from winogen.toolchain.loader import Build
from winogen.toolchain.system import system_name
from winogen.toolchain.texts import Text

CDEF = "int f(int x);"


def build(number, source=None):
    """A library that adds ``number``, whose text is never made twice."""
    text = f"int f(int x) {{ return x + {number}; }}\n"
    source = Text(f"recipe-{number}", lambda: text) if source is None else source
    return Build(source, CDEF, host_target(), name=f"adds-{number}")


def unmade(number):
    """The same, of which nobody may make the text."""
    return build(number, Text(f"recipe-{number}", lambda: 1 / 0))


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """The folder of an archive of three libraries; then an empty cache."""
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "other"))
    items = [build(number).compiled() for number in (1, 2, 3)]
    folder = tmp_path / "shelf"
    prebuilt.write(folder / f"{host_target().name}.kernels", items, "cc of somebody 1.0")
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WINOGEN_PREBUILT", str(folder))
    return folder


def archive(shelf):
    return shelf / f"{host_target().name}.kernels"


@pytest.mark.parametrize("text", (True, False))
def test_a_library_is_taken_from_an_archive(shelf, cache, text, no_compiler_on_path):
    wanted = unmade(1) if text else build(1, str(build(1).source))
    assert wanted.at_hand()
    library = wanted.load()
    assert library.lib.f(10) == 11
    manifest = json.loads((library.path.parent / "manifest.json").read_text())
    assert library.path.is_relative_to(cache)
    assert manifest["compiler"] == "cc of somebody 1.0" and manifest["archive"] == str(
        archive(shelf)
    )


def test_what_no_archive_has_needs_a_compiler_and_says_so(shelf, no_compiler_on_path):
    assert not build(9).at_hand()
    with pytest.raises(CompilerNotFound, match=r"adds-9 for .* neither .* prebuilt: no C compiler"):
        build(9).load()


def test_a_full_cache_needs_no_compiler(tmp_path, monkeypatch, python):
    build(4).load()
    monkeypatch.setenv("PATH", "")
    code = f"""
    from winogen.toolchain import host_target
    from winogen.toolchain.loader import Build
    source = {str(build(4).source)!r}
    print(Build(source, {CDEF!r}, host_target(), name="adds-4").load().lib.f(10))
    """
    assert python(code).finish() == "14"


def test_nothing_is_compiled_that_must_not_be(shelf, monkeypatch, fake_cc):
    cc = fake_cc()
    monkeypatch.setenv("WINOGEN_COMPILE", "off")
    assert unmade(2).load().lib.f(10) == 12
    with pytest.raises(CompilerNotFound, match="adds-8 .*WINOGEN_COMPILE=off; allowed: missing"):
        build(8).load()
    assert not cc.runs()


def test_the_code_of_a_compiler_that_is_named_comes_from_no_archive(shelf, fake_cc):
    cc = fake_cc()
    assert not build(3).at_hand()
    assert build(3).load().lib.f(10) == 13 and len(cc.builds()) == 1


@pytest.mark.parametrize(
    "program, refusal",
    [
        ("", "CC: got '.*', which is not a program"),
        ("exit 1", "does not run"),
        ("echo", "is neither gcc nor clang"),
        ("echo '#define __GNUC__ 8'", "is gcc 8, too old"),
    ],
)
def test_a_compiler_that_cannot_be_had_has_no_say(shelf, monkeypatch, tmp_path, program, refusal):
    cc, log = tmp_path / "some-cc", tmp_path / "log"
    if program:
        cc.write_text(f"#!/bin/sh\necho >> {log}\n{program}\n")
        cc.chmod(0o755)
    monkeypatch.setenv("CC", str(cc))
    assert unmade(3).load().lib.f(10) == 13
    for _ in range(9):
        assert not build(7).at_hand()
    assert not log.exists() or len(log.read_text()) <= 2  # runs
    with pytest.raises(CompilerNotFound, match=f"adds-7 .*{refusal}"):
        build(7).load()


def test_the_same_items_make_the_same_archive(shelf, tmp_path):
    items = [build(number).compiled() for number in (3, 1, 2, 1)]
    prebuilt.write(tmp_path / "again", items, "cc of somebody 1.0")
    assert (tmp_path / "again").read_bytes() == archive(shelf).read_bytes()


def test_blocks_hold_what_fits(shelf, tmp_path):
    items = [prebuilt.ArchiveItem(str(n), "any", bytes([n]) * 100) for n in range(7)]
    prebuilt.write(tmp_path / "many", items, "cc", block=250)
    many = prebuilt.Archive(tmp_path / "many", trusted=True)
    assert [many.library(item.key) for item in items] == [item.data for item in items]
    assert {entry.block for entry in many.entries.values()} == {0, 1, 2, 3}


def test_an_archive_is_opened_once(shelf, monkeypatch):
    opened, begin = [], prebuilt.Archive.__init__

    def counted(self, path, *rest):
        opened.append(path)
        begin(self, path, *rest)

    monkeypatch.setattr(prebuilt.Archive, "__init__", counted)
    prebuilt.forget()
    assert build(1).at_hand() and opened.count(archive(shelf)) == 1


@pytest.mark.parametrize("place", (3, 8, 15, 20, -1000, -5))
def test_a_damaged_archive_is_not_used(shelf, place, no_compiler_on_path):
    data = bytearray(archive(shelf).read_bytes())
    data[place] ^= 1
    archive(shelf).write_bytes(data)
    prebuilt.forget()
    with pytest.warns(RuntimeWarning, match="is not used"), pytest.raises(CompilerNotFound):
        build(1).load()


def test_an_archive_of_another_kind_of_machine_is_left_alone(shelf, tmp_path):
    items = [build(5).compiled()._replace(data=b"of another machine")]
    prebuilt.write(archive(shelf), items, "cc", machine="pdp11")
    prebuilt.forget()
    with pytest.warns(RuntimeWarning, match=" on Linux pdp11; this process runs "):
        assert build(5).load().lib.f(10) == 15
    prebuilt.write(archive(shelf), items, "cc", machine=platform.machine(), system="Plan9")
    assert not prebuilt.archives(host_target().name)


def test_an_archive_that_others_can_write_to_is_not_believed(shelf, no_compiler_on_path):
    archive(shelf).chmod(0o666)
    with pytest.warns(RuntimeWarning, match="only you can write"), pytest.raises(CompilerNotFound):
        build(1).load()


def test_libraries_for_another_c_library_are_for_another_system(shelf, monkeypatch):
    if system_name() != "Linux":
        pytest.skip("needs glibc")
    prebuilt.write(shelf / "generic.kernels", [build(5).compiled()], "cc", system="Linux musl")
    assert not prebuilt.archives("generic")
    for answer in ("", None):  # of musl, and of a system that does not know the name
        monkeypatch.setattr(os, "confstr", lambda name, answer=answer: answer)
        system_name.cache_clear()
        assert system_name() == "Linux musl"
    monkeypatch.delattr(os, "confstr")
    system_name.cache_clear()
    assert system_name() == "Linux musl"
    monkeypatch.undo()
    system_name.cache_clear()
    assert system_name() == "Linux"


@pytest.mark.parametrize("folder", ("~no-such-user/x", "/some/\udcff"))
def test_folders_that_cannot_be_are_refused(folder, monkeypatch):
    monkeypatch.setenv("WINOGEN_PREBUILT", folder)
    with pytest.raises(InvalidValue, match="^WINOGEN_PREBUILT: got .*; allowed: "):
        build(1).load()


def test_two_processes_unpack_the_same_library(shelf, python):
    code = f"""
    from winogen.toolchain import host_target
    from winogen.toolchain.loader import Build
    from winogen.toolchain.texts import Text
    build = Build(Text("recipe-1", None), {CDEF!r}, host_target(), name="adds-1")
    print(build.load().lib.f(10), build.load().path)
    """
    runs = [python(code, PATH="") for _ in range(4)]
    assert len({run.finish() for run in runs}) == 1
    assert not list((shelf.parent / "cache").glob("building-*"))


def test_a_cache_that_cannot_be_written_costs_a_private_folder(shelf, cache, no_compiler_on_path):
    cache.write_text("a file in its place")
    with pytest.warns(RuntimeWarning, match="a private folder takes its place"):
        library = unmade(2).load()
    assert library.lib.f(10) == 12 and not library.path.is_relative_to(cache)


def test_a_library_for_elsewhere_is_packed_by_its_own_key(shelf):
    here, there = build(1).compiled(), build(1).compiled(machine="pdp11")
    assert here.key != there.key and here.recipe == there.recipe
    os.environ["CC"] = find_compiler().command[0]  # whose words are in no key of an archive
    try:
        assert build(1).compiled().key == here.key
    finally:
        del os.environ["CC"]


@pytest.mark.parametrize(
    "version, code, told",
    [
        ("0.0.9", None, "made by winogen 0.0.9, and this is winogen .* install winogen 0.0.9 here"),
        (None, "other", "made by winogen .*, and this is another state of its code: .*bundle.$"),
    ],
)
def test_kernels_of_another_winogen_are_told_once(shelf, monkeypatch, version, code, told):
    here = prebuilt.Maker.here()
    other = prebuilt.Maker(version or here.version, code or here.code)
    items = [build(number).compiled() for number in (1, 2)]
    with monkeypatch.context() as patch:
        patch.setattr(prebuilt.Maker, "here", lambda: other)
        prebuilt.write(archive(shelf), items, "cc")
    prebuilt.forget()
    with pytest.warns(RuntimeWarning, match=told) as said:
        assert unmade(1).load().lib.f(10) == 11  # what did not change is found
        assert unmade(2).load().lib.f(10) == 12
    assert len(said) == 1


def test_folders_for_other_machines_are_told_once(shelf, tmp_path, monkeypatch):
    items = [build(5).compiled()]
    other, empty = tmp_path / "other", tmp_path / "empty"
    prebuilt.write(other / "power9.kernels", items, "cc", machine="ppc64le")
    prebuilt.write(other / "generic.kernels", items, "cc")  # in every bundle
    empty.mkdir()
    for folder, kinds in ((other, "generic on .*, power9 on Linux ppc64le"), (empty, "nothing")):
        monkeypatch.setenv("WINOGEN_PREBUILT", str(folder))
        with pytest.warns(RuntimeWarning, match=f"with kernels for {kinds}; this process runs "):
            assert not build(9).at_hand()
    monkeypatch.setenv("WINOGEN_PREBUILT", os.pathsep.join(map(str, (other, shelf))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert unmade(1).at_hand()


def test_folders_that_are_not_there_are_told_as_such(shelf, tmp_path, monkeypatch):
    absent, file = tmp_path / "absent", tmp_path / "file"
    file.touch()
    for path, wrong in ((absent, "does not exist"), (file, "is no folder")):
        monkeypatch.setenv("WINOGEN_PREBUILT", str(path))
        with pytest.warns(RuntimeWarning) as said:
            assert not build(9).at_hand()
        (line,) = (str(warning.message) for warning in said)
        assert line.startswith(f"WINOGEN_PREBUILT: got {path}, which {wrong}; allowed: ")
    monkeypatch.setenv("WINOGEN_PREBUILT", os.pathsep.join(map(str, (absent, shelf))))
    with pytest.warns(RuntimeWarning, match="absent, which does not exist"):
        assert unmade(1).at_hand()


def test_what_is_unpacked_is_pruned_once_an_hour_when_the_process_ends(shelf, cache, python):
    code = f"""
    from winogen.toolchain import host_target
    from winogen.toolchain.loader import Build
    from winogen.toolchain.texts import Text
    Build(Text("recipe-NUMBER", None), {CDEF!r}, host_target(), name="adds-NUMBER").load()
    """
    old = time.time() - 9 * 3600
    for number, left in ((1, 0), (2, 1), (3, 0)):
        entry = cache / f"old-{number:032x}"
        entry.mkdir(parents=True)
        (entry / "kernel.so").write_bytes(bytes(1000))
        os.utime(entry, (old, old))
        if number == 3:
            os.utime(cache / "locks" / "prune.lock", (old, old))
        python(code.replace("NUMBER", str(number)), PATH="", WINOGEN_CACHE_LIMIT="1").finish()
        assert len(list(cache.glob("old-*"))) == left
    assert len(list(cache.glob("adds-*"))) == 3  # which were used just now
