"""Which tests run, and in which order: options of pytest for whoever works and for CI's stages."""

import os
import subprocess
import time
from collections import Counter
from pathlib import Path
from zlib import crc32

from kept.folders import kept

LATE = "not run: no time is left"
HELP = {
    "--unnamed-isa": "only tests that name no instruction set: WINOGEN_ISA changes no others",
    "--each-value": "of a test's cases as few as have every value of each parameter, other ones "
    "after each commit",
    "--first-case": "of each test's cases the first one",
    "--one-draw-of": "of tests marked `draws` each N-th case alone, other ones after each commit",
    "--not-yet": "only tests that have not passed since the file PASSED was begun",
}


def add_options(parser):
    """Options of this project's tests."""
    for name in ("--unnamed-isa", "--each-value", "--first-case"):
        parser.addoption(name, action="store_true", help=HELP[name])
    parser.addoption("--one-draw-of", metavar="N", type=int, help=HELP["--one-draw-of"])
    parser.addoption("--not-yet", metavar="PASSED", help=HELP["--not-yet"])


def chosen(config, items):
    """Return the items that the options ask for; what the last changes touch comes first."""
    if config.getoption("--unnamed-isa"):
        items = [item for item in items if not names_isa(item)]
    if config.getoption("--first-case"):
        items = list({_function(item): item for item in reversed(items)}.values())[::-1]
    turn = source_digest(config.rootpath)
    number = config.getoption("--one-draw-of")
    if config.getoption("--each-value"):
        items = each_value(items, turn, but_draws=bool(number))
    if number:
        items = one_draw(items, number, int(turn, 16))
    if path := config.getoption("--not-yet"):
        passed = set(Path(path).read_text("utf-8").splitlines()) if Path(path).exists() else set()
        items = [item for item in items if item.nodeid not in passed]
    changed, before = changed_rooms(config.rootpath), set()
    if late() and Path(f"{late()}.before").exists():
        before = set(Path(f"{late()}.before").read_text("utf-8").splitlines())

    def order(item):
        return item.nodeid not in before, room_of(item.nodeid) not in changed

    return sorted(items, key=order)


def names_isa(item):
    """Whether one of a test's parameters is a target, or the name of one with its extensions."""
    from winogen.records import TARGETS, Target
    from winogen.records.target import spelled

    return any(
        isinstance(value, Target) or (isinstance(value, str) and spelled(value)[0] in TARGETS)
        for value in _parameters(item).values()
    )


def each_value(items, turn="", but_draws=False):
    """Return items that have every value of each parameter of their test; ``turn`` says which.

    They are looked through in an order that changes with it. Kept are those with a value that none
    before has. ``but_draws``: draws stay, of which there are fewer anyway.
    """
    seen, found = set(), set()
    for item in sorted(items, key=lambda item: crc32(f"{turn} {item.nodeid}".encode())):
        # Values by what is printed of them: they need no hash.
        given = _parameters(item).items()
        values = {(_function(item), name, repr(value)) for name, value in given}
        values = values or {_function(item)}
        is_draw = but_draws and item.get_closest_marker("draws")
        if is_draw or not values <= seen:
            found.add(id(item))
        seen |= values
    return [item for item in items if id(item) in found]


def one_draw(items, number, turn):
    """Return the items; of the draws of a test those of this ``turn``, at least one."""
    every, places, found = Counter(map(_function, items)), Counter(), []
    for item in items:
        if item.get_closest_marker("draws"):
            name = _function(item)
            turns, place = min(number, every[name]), places[name]
            places[name] += 1
            if place % turns != turn % turns:
                continue
        found.append(item)
    return found


def source_digest(folder):
    """Return git's digest of the files that were committed; "0" where git knows nothing of them."""
    command = ["git", "-C", str(folder), "rev-parse", "--verify", "--quiet", "HEAD^{tree}"]
    try:
        found = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    except OSError:
        found = ""
    return found.strip() or "0"


def is_late():
    """Whether WINOGEN_TESTS_UNTIL, in seconds as time.time() has them, is over."""
    return time.time() > float(os.environ.get("WINOGEN_TESTS_UNTIL") or "inf")


def late():
    """Return the file of the tests that there was no time for, if there is to be one.

    With ".before" after its name it has those of the last run, which this one begins with.
    """
    return os.environ.get("WINOGEN_TESTS_LATE")


def changed_rooms(root):
    """Return the rooms of files that changed since CI was last green here, or the last commit."""
    green = kept("ci") / "green"
    try:
        since = green.read_text("utf-8").strip() if green.exists() else "HEAD"
        words = ["git", "-C", str(root), "diff", "--name-only", since, "--"]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
    except OSError:
        return set()
    return {room_of(name) for name in done.stdout.splitlines()}


def room_of(name):
    """Return the room of a file, of a test, or of the tests of a file.

    That of both winogen/conv/plan.py and tests/conv/test_plan.py is "conv"; lab/ is one room, too.
    """
    folder, *below = [*name.split("/"), ""]
    return "laboratory" if folder == "lab" else below[0]


def note(path, nodeid):
    """Add a test that passed to the file."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(nodeid + "\n")


def _parameters(item):
    return item.callspec.params if hasattr(item, "callspec") else {}


def _function(item):
    return item.nodeid.partition("[")[0]
