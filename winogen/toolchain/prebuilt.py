"""Libraries that were compiled elsewhere, in archives: with them nothing need be compiled here.

An archive is a file ``<target>.kernels`` beside the package's code, in ``prebuilt/``, or in one of
the folders that WINOGEN_PREBUILT names::

    8 bytes   b"WINOGEN\\n"
    8 bytes   length of the index, little-endian
    index     JSON, packed by xz
    blocks    several libraries behind one another each, packed by xz

Kernels have so much in common that a block of ten is a third as large as each packed alone. It is
small enough to be unpacked within 20 ms, and waits for the next kernel of the same net.

The index says which winogen made the libraries, and for which kind of machine and system. It has
each library's key, block, place in it, size and SHA-256. Who has no text of a kernel at hand finds
it by its recipe, a digest of what the text is made from, so that no template need be filled in to
know what is there.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import platform
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from winogen import environment, resources
from winogen.toolchain import trust
from winogen.toolchain.cache import LIBRARY, KernelStore, path_of, write_whole
from winogen.toolchain.system import system_name

FORMAT = 2
SUFFIX = ".kernels"
# Bytes of the libraries of a block, about: what is unpacked within 20 ms.
BLOCK = 320 << 10

_MAGIC = b"WINOGEN\n"
_FILTERS: list[dict[str, Any]] = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
_DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError, lzma.LZMAError)


class ArchiveItem(NamedTuple):
    """A library to be packed."""

    key: str  # the loader's, of a library that CC has no say in
    name: str  # what people see; libraries of like names share blocks
    data: bytes
    recipe: str | None = None  # what it is known by as long as there is no text, if anything


class ArchiveEntry(NamedTuple):
    """Where a library lies in an archive."""

    block: int
    offset: int  # in the unpacked block
    size: int
    sha256: str


class Maker(NamedTuple):
    """The winogen that made an archive: another one finds what did not change since."""

    version: str
    code: str  # a digest of what makes the text of kernels

    @classmethod
    def here(cls) -> Maker:
        """Return this winogen."""
        from winogen import __version__
        from winogen.codegen.render import renderer_digest

        return cls(__version__, renderer_digest()[:32])


class Archive:
    """An archive of libraries. Raises one of many errors if the file is none, or damaged."""

    def __init__(self, path: Path, trusted: bool = False) -> None:
        self.path, self._trusted = path, trusted
        start = self._read(0, 16)
        if start[:8] != _MAGIC:
            raise ValueError("no archive of kernels")
        length = int.from_bytes(start[8:], "little")
        index = json.loads(lzma.decompress(self._read(16, length)))
        if index["format"] != FORMAT:
            raise ValueError(f"format {index['format']}, of another version of winogen")
        self.maker = Maker(*index["winogen"])
        self.compiler: str = index["compiler"]
        self.machine: str = index["machine"]
        self.system: str = index["system"]
        self.recipes: dict[str, str] = index["recipes"]  # -> the key of the library
        self.entries = {key: ArchiveEntry(*entry) for key, entry in index["libraries"].items()}
        self._blocks, place = [], 16 + length
        for size in index["blocks"]:
            self._blocks.append((place, size))
            place += size

    @property
    def serves_here(self) -> bool:
        """Whether its libraries are for this kind of machine and system."""
        return (self.machine, self.system) == (platform.machine(), system_name())

    def library(self, key: str) -> bytes:
        """Return the library of a key; raises ValueError if it is damaged."""
        entry = self.entries[key]
        data = _unpacked(self, entry.block)[entry.offset : entry.offset + entry.size]
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise ValueError(f"library {key} is damaged")
        return data

    def block(self, number: int) -> bytes:
        """Return a block, unpacked."""
        return lzma.decompress(self._read(*self._blocks[number]))

    def _read(self, place: int, size: int) -> bytes:
        # What lies beside the code of the package is believed as that is.
        with open(self.path, "rb") if self._trusted else trust.opened(self.path) as file:
            if place + size > os.fstat(file.fileno()).st_size:  # no memory would be enough
                raise ValueError("it ends too early")
            file.seek(place)
            return file.read(size)


@lru_cache(maxsize=64)
def _opened(path: Path, trusted: bool) -> Archive:
    return Archive(path, trusted)


@lru_cache(maxsize=4)
def _unpacked(archive: Archive, block: int) -> bytes:
    return archive.block(block)


def forget() -> None:
    """Look again at what the archives hold."""
    for known in (_opened, _tell, _archives):
        known.cache_clear()


def archives(target: str) -> tuple[Archive, ...]:
    """Return the archives of a target's libraries that serve here, those of WINOGEN_PREBUILT first.

    What is wrong with one comes as a warning, and so does what makes the folders of
    WINOGEN_PREBUILT useless here. Raises InvalidValue for WINOGEN_PREBUILT.
    """
    return _archives(target, _tell(environment.value("WINOGEN_PREBUILT")))


def folders() -> list[Path]:
    """Return the folders that WINOGEN_PREBUILT names; raises InvalidValue."""
    return _folders(environment.value("WINOGEN_PREBUILT"))


def _folders(chosen: str) -> list[Path]:
    return [path_of("WINOGEN_PREBUILT", name) for name in chosen.split(os.pathsep) if name]


@lru_cache(maxsize=32)
def _tell(chosen: str) -> str:
    """Return ``chosen``, after warnings where its folders serve this process in part or not."""
    from winogen.toolchain.host import host_targets

    if not chosen:
        return chosen
    named = _folders(chosen)
    absent = [folder for folder in named if not folder.is_dir()]
    paths = [path for folder in named for path in folder.glob(f"*{SUFFIX}")]
    found = []
    for path in paths:
        with suppress(*_DAMAGED):  # that is told when it is wanted
            found.append(_opened(path, False))
    told = [_no_folder(folder) for folder in absent]
    told += [text for archive in found if (text := _other_maker(archive))]
    runs = [one.name for one in host_targets()]
    serving = [one.path.stem for one in found if one.serves_here and one.path.stem in runs]
    # Kernels for any CPU are in all folders. Of folders for several kinds of CPU one is enough.
    serves = bool(set(serving) - {"generic"}) or len(serving) == len(found) > 0
    if len(found) == len(paths) and not serves and len(absent) < len(named):
        kinds = sorted({f"{one.path.stem} on {one.system} {one.machine}" for one in found})
        told.append(
            f"WINOGEN_PREBUILT: got {chosen}, with kernels for {', '.join(kinds) or 'nothing'}; "
            f"this process runs {', '.join(runs)} on {system_name()} {platform.machine()}: "
            "bundle on such a CPU, or on the other one with WINOGEN_ISA for what both have"
        )
    for text in told:
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    return chosen


def _no_folder(path: Path) -> str:
    """What to tell of a path in WINOGEN_PREBUILT that leads to no folder."""
    wrong = "is no folder" if path.exists() else "does not exist"
    allowed = "folders that `winogen bundle` wrote"
    return f"WINOGEN_PREBUILT: got {path}, which {wrong}; allowed: {allowed}"


def _other_maker(archive: Archive) -> str:
    """What to tell of an archive that another winogen made; "" if this one did."""
    here, maker = Maker.here(), archive.maker
    if maker == here:
        return ""
    who, cure = f"winogen {here.version}", f", or install winogen {maker.version} here"
    if maker.version == here.version:
        who, cure = "another state of its code", ""
    return (
        f"{archive.path} was made by winogen {maker.version}, and this is {who}: only kernels that "
        f"did not change are found there. Make it anew (winogen bundle){cure}"
    )


@lru_cache(maxsize=32)
def _archives(target: str, chosen: str) -> tuple[Archive, ...]:
    own = resources.package() / "prebuilt"
    found = []
    for folder in (*_folders(chosen), own):
        path = folder / f"{target}{SUFFIX}"
        try:
            archive = _opened(path, folder == own)
        except (FileNotFoundError, NotADirectoryError):  # the latter was told
            continue
        except _DAMAGED as problem:
            warnings.warn(f"{path} is not used: {problem}", RuntimeWarning, stacklevel=2)
            continue
        if archive.serves_here:
            found.append(archive)
    return tuple(found)


def key_of(recipe: str, target: str) -> str | None:
    """Return the key of the library of this recipe; None if no archive has it."""
    return next((a.recipes[recipe] for a in archives(target) if recipe in a.recipes), None)


def has(key: str, target: str) -> bool:
    """Return whether an archive has the library of this key."""
    return any(key in archive.entries for archive in archives(target))


def unpack(key: str, target: str, store: KernelStore, entry: Path) -> Path | None:
    """Publish a library in a store; return its path, None if no archive has it whole.

    Two processes may do so at once. Raises OSError if the store cannot be written.
    """
    for archive in archives(target):
        if key not in archive.entries:
            continue
        try:
            data = archive.library(key)
        except _DAMAGED as problem:
            warnings.warn(f"{archive.path} is not used: {problem}", RuntimeWarning, stacklevel=2)
            continue
        with store.workbench(None) as folder:
            (folder / LIBRARY).write_bytes(data)
            facts = {
                "archive": str(archive.path),
                "compiler": archive.compiler,
                "target": target,
            }
            return store.publish(folder, entry, facts)
    return None


def write(
    path: Path,
    items: Iterable[ArchiveItem],
    compiler: str,
    machine: str = platform.machine(),
    system: str = system_name(),
    block: int = BLOCK,
) -> None:
    """Write an archive; the same items give the same bytes.

    ``compiler``: what it calls itself, with its version. ``machine``, ``system``: what the
    libraries are for, as `platform.machine` and `system_name` have it. ``block``: bytes of
    libraries to be packed together, about. Raises OSError.
    """
    blocks: list[bytearray] = []
    libraries: dict[str, ArchiveEntry] = {}
    recipes: dict[str, str] = {}
    for item in sorted(items, key=lambda item: (item.name, item.key)):
        if item.recipe:
            recipes[item.recipe] = item.key
        if item.key in libraries:
            continue
        if not blocks or len(blocks[-1]) + len(item.data) > block:
            blocks.append(bytearray())
        place = len(blocks) - 1, len(blocks[-1]), len(item.data)
        libraries[item.key] = ArchiveEntry(*place, hashlib.sha256(item.data).hexdigest())
        blocks[-1] += item.data
    packed = [_packed(bytes(block)) for block in blocks]
    index = {
        "format": FORMAT,
        "winogen": Maker.here(),
        "compiler": compiler,
        "machine": machine,
        "system": system,
        "blocks": list(map(len, packed)),
        "libraries": dict(sorted(libraries.items())),
        "recipes": dict(sorted(recipes.items())),
    }
    head = _packed(json.dumps(index, separators=(",", ":")).encode())
    write_whole(path, b"".join((_MAGIC, len(head).to_bytes(8, "little"), head, *packed)))
    path.chmod(0o644)  # for whoever installs it


def _packed(data: bytes) -> bytes:
    # Without a checksum: each library has its SHA-256.
    return lzma.compress(data, check=lzma.CHECK_NONE, filters=_FILTERS)
