"""`winogen cache`: what it shows and removes."""

import json
import re

import pytest

from winogen.records import Machine
from winogen.toolchain import host_target, load, machine


@pytest.fixture
def cache(tmp_path, monkeypatch):
    host_target()  # asks the compiler once, and keeps what it says
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WINOGEN_CACHE_LIMIT", raising=False)
    return tmp_path / "cache"


def shown(result) -> dict[str, str]:
    assert result.exit_code == 0, result.output
    return {line.split()[0]: line.split(None, 1)[1] for line in result.stdout.splitlines()}


def compiled(value: int) -> None:
    load(f"int f(void) {{ return {value}; }}", "int f(void);", host_target())


def test_an_empty_cache_is_shown_and_not_made(winogen, cache):
    lines = shown(winogen("cache"))
    assert lines["folder"] == str(cache)
    assert lines["size"] == "0 bytes of at most 1,073,741,824"
    assert lines["kernels"] == "0 bytes in 0"
    found = json.loads(winogen("cache", "--json").stdout)
    assert (found["folder"], found["size"]) == (str(cache), 0)
    assert found["kernels"] == {"size": 0, "count": 0}
    assert lines["machine"] == "none, and WINOGEN_CALIBRATE=0 forbids to measure one"
    winogen("cache", "--clear")
    assert not cache.exists()


def test_kernels_are_counted_pruned_and_cleared(winogen, cache, monkeypatch):
    machine.save(Machine(), cache)
    compiled(1), compiled(2)
    lines = shown(winogen("cache"))
    size = sum(path.stat().st_size for path in cache.glob("kernel-*/*"))
    assert lines["kernels"] == f"{size:,} bytes in 2"
    monkeypatch.setenv("WINOGEN_CACHE_LIMIT", str(size - 1))
    lines = shown(winogen("cache", "--prune"))
    assert re.fullmatch(r"measured [\d-]{10} \(today\)", lines["machine"])
    assert re.fullmatch(r"[\d,]+ bytes", lines["removed"]) and lines["kernels"].endswith(" in 1")
    lines = shown(winogen("cache", "--clear"))
    assert lines["size"].startswith("0 bytes")
    assert [path.name for path in cache.glob("*-*")] == [next(cache.glob("machine-*")).name]


def test_a_machine_is_forgotten(winogen, cache, monkeypatch):
    monkeypatch.delenv("WINOGEN_CALIBRATE", raising=False)
    path = machine.save(Machine(), cache)
    lines = shown(winogen("calibrate", "--forget"))
    assert lines == {"machine": "none yet: the first plan measures this machine"}
    assert not path.exists()


def test_prune_and_clear_exclude_each_other(refused, cache):
    assert "--prune: got --clear as well" in refused("cache", "--prune", "--clear")


def test_a_wrong_limit_or_folder_is_refused(refused, cache, monkeypatch):
    monkeypatch.setenv("WINOGEN_CACHE_LIMIT", "many")
    assert "WINOGEN_CACHE_LIMIT: got 'many'; allowed: " in refused("cache")
    monkeypatch.delenv("WINOGEN_CACHE_LIMIT")
    cache.mkdir()
    (cache / "letter").touch()  # no cache of ours, then
    cache.chmod(0o777)
    assert "can be written by others" in refused("cache", "--clear")
