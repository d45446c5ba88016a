"""The size of the cache: what goes, in which order, and what never does."""

import os
import time

import filelock
import pytest

from winogen.errors import InvalidValue
from winogen.records import Machine
from winogen.toolchain import blobs, derived, host_target, kept, load, loader, machine, pruning
from winogen.toolchain.cache import STALE_SECONDS
from winogen.toolchain.pruning import census, prune

HOUR = 3600


def aged(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


def fake(cache, number: int, size: int, age: float, kind="."):
    """An entry of ``size`` bytes that was last used ``age`` seconds ago."""
    entry = cache / kind / f"fake-{number:032x}"
    entry.mkdir(parents=True)
    (entry / "kernel.c").write_bytes(bytes(size))
    return aged(entry, age)


@pytest.mark.parametrize(
    "text, size",
    [
        ("", 1 << 30),
        ("0", 0),
        ("1000000", 10**6),
        ("500M", 500 << 20),
        (" 2g ", 2 << 30),
        ("3 KB", None),
        ("3KiB", 3 << 10),
        ("1T", 1 << 40),
        *((text, None) for text in ("-1", "1.5G", "many", "1e9", "M", "9" * 5000, "٣")),
    ],
    ids=lambda value: str(value)[:9],
)
def test_the_limit_is_read(monkeypatch, text, size):
    monkeypatch.setenv("WINOGEN_CACHE_LIMIT", text)
    if size is None:
        with pytest.raises(InvalidValue, match="^WINOGEN_CACHE_LIMIT: got .*; allowed: "):
            pruning.limit()
    else:
        assert pruning.limit() == size


def test_a_wrong_limit_is_told_before_anything_is_compiled(fake_cc, monkeypatch, twice):
    cc = fake_cc()
    monkeypatch.setenv("WINOGEN_CACHE_LIMIT", "many")
    with pytest.raises(InvalidValue):
        load(twice.source, twice.cdef, host_target())
    assert not cc.builds()


def test_what_was_not_used_for_longest_goes_first(cache):
    ages = (5, 3, 9, 7)
    entries = {age: fake(cache, age, 1000, age * HOUR) for age in ages}
    assert prune(cache, 2500) == 2000
    assert {age for age, entry in entries.items() if entry.exists()} == {3, 5}
    assert prune(cache, 2500) == 0


def test_using_a_kernel_or_a_text_counts(cache, twice, python):
    python().finish()
    (entry,) = cache.glob("twice-*")
    kept("key", lambda: "a text")
    for path in (entry, cache / "texts" / "key"):
        aged(path, 9 * HOUR)
    other = fake(cache, 1, 100, 5 * HOUR)
    python().finish()
    kept("key", lambda: "never")
    prune(cache, sum(item.size for item in census(cache)) - 50)
    assert entry.exists() and (cache / "texts" / "key").exists() and not other.exists()


def test_what_is_in_use_or_being_made_stays(cache):
    recent = fake(cache, 1, 1000, 60)
    mine = fake(cache, 2, 1000, 9 * HOUR)
    building = cache / f"building-unlocked-{3:012x}"
    building.mkdir()
    (building / "kernel.so").write_bytes(bytes(1000))
    assert prune(cache, 0, spare={mine}) == 0
    assert recent.exists() and mine.exists() and building.exists()


def test_what_killed_processes_left_goes_in_any_case(cache):
    old, young = STALE_SECONDS + 60, STALE_SECONDS - 600
    rubbish, work = [], []
    for number, age, into in ((1, old, rubbish), (2, young, work)):
        folder = cache / f"building-unlocked-{number:012x}"
        folder.mkdir(parents=True)
        (folder / "half").touch()
        drafts = [
            cache / f"machine-abc.json.{number:012x}",
            cache / "texts" / f"key.{number:012x}",
            cache / "compilers" / f"{0:032x}.json.{number:012x}",
        ]
        for draft in drafts:
            draft.parent.mkdir(exist_ok=True)
            draft.touch()
        into += [aged(path, age) for path in (folder, *drafts)]
    prune(cache, 1 << 30)
    assert not any(path.exists() for path in rubbish) and all(path.exists() for path in work)


def test_old_locks_go_unless_they_are_held(cache):
    locks = cache / "locks"
    locks.mkdir(parents=True)
    free, held = locks / "1.lock", locks / "2.lock"
    free.touch()
    with filelock.FileLock(held):
        for path in (free, held):
            aged(path, STALE_SECONDS + 60)
        prune(cache, 1 << 30)
        assert held.exists() and not free.exists()


def test_failures_texts_and_compilers_count_and_go(cache):
    failure = fake(cache, 1, 1000, 9 * HOUR, kind="failed")
    kept("key", lambda: "a text")
    aged(cache / "texts" / "key", 8 * HOUR)
    memo = cache / "compilers" / f"{1:032x}.json"
    memo.parent.mkdir()
    memo.write_text("{}")
    aged(memo, 7 * HOUR)
    blobs.write("plans", "0" * 64, b"a plan")
    (cache / "plans" / "a plan of a house").write_text("not ours")
    aged(cache / "plans" / ("0" * 64), 6 * HOUR)
    derived.kept(["a search"], lambda: [1], list)
    (found,) = (cache / "derived").iterdir()
    (cache / "derived" / "thesis.json").write_text("not ours")
    aged(found, 5 * HOUR)
    kinds = [item.kind for item in census(cache)]
    assert kinds == ["failed", "texts", "compilers", "plans", "derived"]
    prune(cache, 0)
    assert [path.name for path in (cache / "derived").iterdir()] == ["thesis.json"]
    assert [path.name for path in (cache / "plans").iterdir()] == ["a plan of a house"]
    assert not failure.exists() and not memo.exists() and not list((cache / "texts").iterdir())


def test_what_is_not_ours_is_never_touched(cache):
    """WINOGEN_CACHE may be somebody's home."""
    machine.save(Machine(), cache)
    for name in (
        *("thesis.txt", "texts/letter", "locks/door", "compilers/gcc.json", "failed/exam.txt"),
        *("texts/key.000000000001.txt", "building-plans/house", "photos-2020/kernel.so"),
        f"backup-{1:032x}/thesis.txt",
        f"failed/backup-{1:032x}/thesis.txt",
    ):
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).write_text("precious")
    (cache / "precious").mkdir()
    (cache / "precious" / ("a" * 32 + ".json")).touch()
    before = sorted(path for path in cache.rglob("*"))
    for path in before:
        aged(path, 99 * HOUR)
    prune(cache, -1, recent=0)
    assert [path for path in cache.rglob("*") if path not in before] == [cache / "locks/prune.lock"]
    assert all(path.exists() for path in before)
    assert not census(cache) or {item.kind for item in census(cache)} == {"locks"}


def test_links_are_not_followed(cache, tmp_path):
    outside = tmp_path / "outside"
    fake(outside, 1, 1000, 9 * HOUR, kind="failed")
    cache.mkdir()
    (cache / "failed").symlink_to(outside / "failed")
    link = cache / f"link-{1:032x}"
    link.symlink_to(outside)
    prune(cache, -1, recent=0)
    assert list(outside.glob("failed/*/kernel.c"))


def test_publishing_prunes(cache, twice, monkeypatch):
    old, recent = fake(cache, 1, 1000, 9 * HOUR), fake(cache, 2, 1000, 60)
    first = load(twice.source, twice.cdef, host_target()).path
    assert old.exists()
    aged(first.parent, 9 * HOUR)
    monkeypatch.setenv("WINOGEN_CACHE_LIMIT", "1")
    path = load(twice.source + "\n", twice.cdef, host_target()).path
    assert not old.exists() and recent.exists()
    assert path.exists() and first.exists()  # loaded by this process


def test_a_cache_is_looked_at_again_once_an_eighth_of_its_room_is_filled(cache, monkeypatch):
    looks, look = [], pruning.census
    monkeypatch.setattr(pruning, "census", lambda root: looks.append(root) or look(root))
    counts = []
    for number in range(12):
        pruning.prune_after(fake(cache, number, 1000, 9 * HOUR), cache, 30_000)
        counts.append(len(looks))
    # 29,000 bytes of room, then 25,000, 21,000 and 18,000: 3, 3, 2 and 2 more entries fit.
    assert counts == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4]
    aged(cache / "locks" / "prune.lock", 2 * HOUR)
    pruning.prune_after(fake(cache, 12, 1, HOUR), cache, 30_000)
    assert len(looks) == 5


@pytest.mark.parametrize("most", (0, 5_500))
def test_entries_that_do_not_fit_are_never_many(most, cache):
    for number in range(12):
        pruning.prune_after(fake(cache, number, 1000, 9 * HOUR), cache, most)
        assert sum(item.size for item in census(cache)) <= most + most / 8


def test_only_one_process_prunes_at_a_time(cache):
    old = fake(cache, 1, 1000, 9 * HOUR)
    (cache / "locks").mkdir()
    with filelock.FileLock(cache / "locks" / "prune.lock"):
        assert prune(cache, 0) == 0 and old.exists()
    assert prune(cache, 0) == 1000


def test_a_kernel_that_is_pruned_before_it_is_loaded_is_built_again(cache, twice, monkeypatch):
    ffi, pruned = loader.ffi_of(twice.cdef), []

    class Late:
        def dlopen(self, path):
            if not pruned:
                pruned.append(prune(cache, -1, recent=0))
            return ffi.dlopen(path)

    monkeypatch.setattr(loader, "ffi_of", lambda cdef: Late())
    library = load(twice.source, twice.cdef, host_target())
    assert pruned[0] > 0 and library.lib.twice(2) == 4 and library.path.is_relative_to(cache)


def test_a_text_takes_less_in_the_cache_than_it_is_long(cache):
    text = "for (int i = 0; i < n; i++) sum += x[i];\n" * 1000
    assert kept("key", lambda: text) == text == kept("key", lambda: "never")
    assert (cache / "texts" / "key").stat().st_size < len(text) / 10
