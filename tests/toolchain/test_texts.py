"""Texts kept in the cache folder: made once, and never taken for what they are not."""

import os
import subprocess
import sys

import pytest

from winogen.toolchain import kept, write_whole


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))
    return tmp_path / "texts"


def never():
    raise AssertionError("made again")


def test_a_text_is_made_once(folder):
    assert kept("key", lambda: "ä\n\ntext\n") == "ä\n\ntext\n"
    assert kept("key", never) == "ä\n\ntext\n"
    assert kept("other", lambda: "other") == "other"
    assert sorted(path.name for path in folder.iterdir()) == ["key", "other"]


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data.replace(b"text", b"test"),
        lambda data: b"\xff\xfe" + data,
        lambda data: data.replace(b"\n", b""),
    ],
)
def test_a_damaged_text_is_made_again(folder, harm):
    kept("key", lambda: "a text")
    path = folder / "key"
    path.write_bytes(harm(path.read_bytes()))
    assert kept("key", lambda: "a text") == "a text"
    assert kept("key", never) == "a text"


def test_a_folder_that_cannot_be_written_only_costs_time(folder):
    folder.write_text("a file in its place")
    assert kept("key", lambda: "a text") == kept("key", lambda: "a text") == "a text"
    assert folder.is_file()


def test_processes_that_make_the_same_text_do_not_disturb_each_other(folder):
    script = "from winogen.toolchain import kept; print(len(kept('key', lambda: 'text' * 100_000)))"
    command, alone = [sys.executable, "-c", script], dict(os.environ)
    running = [subprocess.Popen(command, env=alone, stdout=subprocess.PIPE) for _ in range(4)]
    assert {one.communicate()[0] for one in running} == {b"400000\n"}
    assert [path.name for path in folder.iterdir()] == ["key"]
    assert kept("key", never) == "text" * 100_000


def test_what_cannot_be_put_in_place_leaves_nothing_behind(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError):
        write_whole(tmp_path / "taken", b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
