"""What an earlier process has shown of a model, by its numbers: the next one looks at less."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from winogen import resources
from winogen.graph import measured
from winogen.torch.calling import Calls
from winogen.torch.cases import Witness
from winogen.torch.facts import facts_of, numbers_of

# Whose code results follow from, beside what `winogen.graph.measured` knows of.
_CODE = ("torch", "graph", "conv", "rounding")


@dataclass(frozen=True)
class Proof:
    """That a copy was compared with its model."""

    facts: Mapping[str, str]  # by which to make the copy again
    compared: str  # on which inputs
    repeats: bool  # whether the same call of the model gives the same numbers
    is_complete: bool  # whether there was time to measure every layer

    def of(self, witness: Witness) -> Witness:
        """Return the witness of the example alone, with what is known of the model besides."""
        example = str(witness)
        rest = ", ".join(name for name in self.compared.split(", ") if name != example)
        return replace(witness, repeats=self.repeats, earlier=rest)


class Known:
    """What is known of a model with these numbers, inputs and options, in the cache folder.

    Names of files say all that it holds for: a digest of every number, and of the code.
    """

    def __init__(
        self,
        model: nn.Module,
        calls: Calls,
        more: Sequence[Sequence[Tensor]],
        exclude: Collection[Any],
        options: Mapping[str, Any],
    ):
        self._facts = facts_of(model, calls, exclude, options)
        self.numbers = numbers_of(model, calls, more) if measured.key_of("proof") else ""
        self._key: str | None = None
        if self.numbers:
            code = resources.code_digest(*_CODE)
            self._key = measured.key_of("proof", self._facts, self.numbers, code)

    def proof(self) -> Proof | None:
        """Return what an earlier process has shown, None for nothing."""
        kept = measured.recalled(self._key)
        with suppress(KeyError, TypeError, ValueError):
            if kept is not None:
                facts = {str(name): str(fact) for name, fact in dict(kept["facts"]).items()}
                said = bool(kept["repeats"]), bool(kept["complete"])
                return Proof(facts, str(kept["compared"]), *said)
        return None

    def keep(self, witness: Witness, facts: Mapping[str, str] | None, is_complete: bool) -> None:
        """Keep by what ``facts`` to make a draft again that was compared with this model."""
        if facts is not None:
            found = {
                "facts": dict(facts),
                "compared": str(witness),
                "repeats": witness.repeats,
                "complete": is_complete,
            }
            measured.keep(self._key, found, ())

    def alone(self) -> AbstractContextManager[bool]:
        """Let one process at a time measure such a model, whatever its numbers.

        It says whether this one waited for another.
        """
        return measured.alone(self._facts)
