"""Whose program calls a network: a register with a row for each host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from winogen.errors import InvalidValue, Unsupported
from winogen.records import TARGETS, Target

if TYPE_CHECKING:
    from winogen.network.trial import Program


class HostBuilder(Protocol):
    """What makes the files of a host of the C of a network; making it finds what that takes."""

    def __call__(self, name: str, programs: Sequence[Program], command: str) -> dict[str, bytes]:
        """Return all files by name; ``programs``: the same network for each of its targets."""


@dataclass(frozen=True)
class NetworkHost:
    """A program that networks are written for, of targets, and with weights, of its own choice."""

    name: str
    means: str  # what is written, in the help of `--host`
    builder: str  # module:class, a `HostBuilder`
    targets: Sequence[str]
    weights: str
    threads: str  # whose they are, unless somebody says otherwise

    def check(self, isa: Any, weights: Any, is_quantized: bool) -> None:
        """Raise InvalidValue for what the host chooses itself, Unsupported for models of bytes."""
        if isa is not None:
            raise InvalidValue(
                f"isa: got {isa!r}; allowed: None with host {self.name!r}, which has "
                f"{' and '.join(self.targets)}"
            )
        if weights is not None:
            raise InvalidValue(
                f"weights: got {weights!r}; allowed: None with host {self.name!r}, whose weights "
                f"are a file"
            )
        if is_quantized:
            raise Unsupported(
                f"host: got {self.name!r}; allowed: 'c', as the model is a quantized one"
            )

    def open(self) -> HostBuilder:
        """Return what makes the files; raises CompilerNotFound that says what to install."""
        module, name = self.builder.split(":")
        made: HostBuilder = getattr(import_module(module), name)()
        return made

    @property
    def own_targets(self) -> list[Target]:
        """Its targets, the plain one first."""
        return [TARGETS[name] for name in self.targets]


# Beside "c", the folder of C for anyone's program.
HOSTS: Mapping[str, NetworkHost] = {
    host.name: host
    for host in (
        NetworkHost(
            "web",
            "a module for browsers and node",
            "winogen.network.web:WebBuilder",
            ("wasm", "wasm-relaxed"),
            weights="file",
            threads="caller",
        ),
    )
}
