"""An array that a generated layer is given, as Rust has it."""

from __future__ import annotations

from dataclasses import dataclass

# By the type in C.
TYPES = {
    "float": "f32", "double": "f64", "uint16_t": "u16", "uint8_t": "u8", "int8_t": "i8",
    "int32_t": "i32", "void": "c_void",
}  # fmt: skip


@dataclass(frozen=True)
class RustArray:
    """An array that a layer is given, and how Rust has it."""

    name: str
    type: str
    numbers: int
    optional: bool  # None adds nothing

    @property
    def constant(self) -> str:
        """What says how many numbers it has."""
        return f"{self.name.upper()}_NUMBERS"

    @property
    def means(self) -> str:
        """What that constant is."""
        article = "what is added" if self.name.startswith("add") else f"the {self.name}"
        return f"How many numbers {article} has."

    @property
    def zero(self) -> str:
        """The number 0."""
        return "0.0" if self.type in ("f32", "f64") else "0"

    @property
    def sample(self) -> str:
        """Some number, which the example in the docs has."""
        return "0.5" if self.type in ("f32", "f64") else "1"

    @property
    def view(self) -> str:
        """How functions take it."""
        return f"Option<&[{self.type}]>" if self.optional else f"&[{self.type}]"

    @property
    def field(self) -> str:
        """The same where it has to outlive a call."""
        return self.view.replace("&", "&'a ")

    def pointer(self, owner: str = "") -> str:
        """Return what C gets of it."""
        if self.optional:
            return f"{owner}{self.name}.map_or(ptr::null(), <[{self.type}]>::as_ptr)"
        return f"{owner}{self.name}.as_ptr()"
