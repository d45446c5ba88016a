"""Types of numbers as C and numpy know them, and which of them a kernel uses where."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class NumberType:
    """A type of number. Types for storage alone are widened before anything is computed.

    They are rounded to nearest, ties to even; integers are saturated, too. Flytes are the first
    bytes of a wider number (Keane's thesis, chapter 8).
    """

    name: str  # numpy's, where it knows the type
    itemsize: int  # bytes
    c: str  # the type that holds one
    bits: int  # of the significand, with the one that is not stored; of the size of an integer
    exponent: int  # bits of the exponent; 0: an integer
    flip: int = 0  # of an unsigned integer: what is flipped of it in memory
    # Of the types that kernels compute in:
    integer: str = ""  # the integer of the same size, for masks
    avx512: str = ""  # the suffix of its intrinsics
    register: str = ""  # the type of a vector of 64 bytes there
    # Of flytes: the type that they have the first bytes of, and whether the others are dropped
    # without rounding.
    wide: str = ""
    cut: bool = False

    @property
    def computed(self) -> str:
        """The type that its numbers are computed in."""
        return self.wide or (self.name if self.name == "float64" else "float32")

    @property
    def is_odd(self) -> bool:
        """Whether no integer of C has as many bytes."""
        return self.itemsize not in (1, 2, 4, 8)


def _flyte(size: int, wide: str = "float32", cut: bool = False) -> NumberType:
    """The first bytes of a type: flyte24 and flyte24_cut of float32, flyte24d of float64."""
    exponent, end = (8, "") if wide == "float32" else (11, "d")
    c = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t"}.get(size) or (
        f"struct {{ uint8_t bytes[{size}]; }}"
    )
    # One bit is the sign's. Of one byte the last bits of the exponent are lost, too.
    bits = 8 * size - exponent
    return NumberType(
        f"flyte{8 * size}{end}{'_cut' * cut}", size, c, bits, exponent, wide=wide, cut=cut
    )


FLYTES = (
    *(_flyte(size, cut=cut) for cut in (False, True) for size in (3, 2, 1)),
    *(_flyte(size, "float64") for size in range(7, 0, -1)),
)
NUMBERS: dict[str, NumberType] = {
    number.name: number
    for number in (
        NumberType("float32", 4, "float", 24, 8, 0, "int32_t", "ps", "__m512"),
        NumberType("float64", 8, "double", 53, 11, 0, "int64_t", "pd", "__m512d"),
        NumberType("float16", 2, "uint16_t", 11, 5),
        NumberType("bfloat16", 2, "uint16_t", 8, 8),
        *FLYTES,
        NumberType("int32", 4, "int32_t", 31, 0),
        NumberType("int16", 2, "int16_t", 15, 0),
        NumberType("int8", 1, "int8_t", 7, 0),
        NumberType("uint8", 1, "uint8_t", 8, 0),
        NumberType("uint16", 2, "uint16_t", 16, 0),
        NumberType("offset8", 1, "uint8_t", 8, 0, 128),
    )
}

# What is computed in, and what the arrays of a convolution may be of besides: of fewer bits, while
# everything is computed in float32, or in the type that a flyte has the first bytes of.
COMPUTED_TYPES = ("float32", "float64")
FLYTE_TYPES = tuple(one.name for one in FLYTES)
NARROW_TYPES = ("float16", "bfloat16", *FLYTE_TYPES)
ARRAY_TYPES = (*COMPUTED_TYPES, *NARROW_TYPES)
# What the pixels of pictures may be of besides: they are read as float32, and sums are rounded.
PIXEL_TYPES = ("uint8", "uint16")
# The same for codes of int8 in networks, each of which stands for 128 more: numbers of uint8.
CODE_TYPE = "offset8"
# What filters may be packed in besides the type of the arrays, and what of it is tried in searches
# and reports on float32.
FILTER_TYPES = NARROW_TYPES
TRIED_FILTER_TYPES = ("float16", "bfloat16", "flyte24", "flyte16", "flyte8")


@dataclass(frozen=True)
class ProductFormat:
    """How numbers are multiplied: what the templates and the kernels of a format are made by.

    Numbers narrower than a lane come in words of 32 bits: those of neighbouring channels. A
    multiply-add takes a word of one operand, a vector of words of the other, and sums that are
    "kept" as numbers that are computed with; or "short", which are widened after a few terms; or
    integers, which become floats by the steps of both operands, "stepped"; or stay integers,
    "whole", and "paired" where an instruction multiplies words of two rows by those of two columns.
    """

    name: str  # that of its header in csrc/parts/formats/
    together: int = 1  # numbers of a word; 1: numbers are multiplied as they are computed with
    summing: str = "kept"
    extensions: frozenset[str] = frozenset()  # each multiplies and adds words by one instruction
    instructions: int = 1  # that do so where none of these is
    # ... and on cores where one instruction takes as long as so many that multiply and add floats.
    slow: tuple[tuple[str, int], ...] = ()
    portable: bool = True  # whether targets without any of them multiply such words, too
    option: bool = True  # whether `product_dtype` may ask for it


# By the type of products; those of any other are "real", of the numbers that are computed with.
PRODUCT_FORMATS: dict[str, ProductFormat] = {
    form.name: form
    for form in (
        ProductFormat("real", option=False),
        ProductFormat("int16", 2, "stepped", frozenset({"vnni", "avxvnni"})),
        ProductFormat("int8", 4, "stepped", frozenset({"vnni", "avxvnni", "dotprod"})),
        ProductFormat("float16", 2, "short", frozenset({"fp16"}), portable=False),
        ProductFormat("bfloat16", 2, "kept", frozenset({"bf16"}), 3, (("skylake_avx512", 4),)),
        ProductFormat("bytes", 4, "whole", option=False),
    )
}
PRODUCT_TYPES = tuple(name for name, form in PRODUCT_FORMATS.items() if form.option)


@dataclass(frozen=True)
class Precision:
    """The types of all numbers of a kernel.

    >>> Precision.of("float32").lanes(64)
    16
    >>> Precision.of("float32", products="int16").name
    'float32, products int16'
    """

    arrays: str  # input, output, and what the epilogue adds
    filters: str  # packed: U
    tiles: str  # transformed: V
    products: str  # what a multiplication takes: U and V as they are, or widened
    sums: str  # of products, between chunks of channels
    transforms: str  # arithmetic of the input and output transform

    @classmethod
    def of(cls, arrays: str, filters: str | None = None, products: str | None = None) -> Precision:
        """Return the precision of a layer on such arrays; None for what is computed in anyway.

        Quantised operands are packed as they are multiplied.
        """
        real = NUMBERS[arrays].computed
        if products:
            return cls(arrays, products, products, products, real, real)
        return cls(arrays, filters or real, real, real, real, real)

    @property
    def real(self) -> NumberType:
        """The type that kernels compute in."""
        return NUMBERS[self.transforms]

    @property
    def itemsize(self) -> int:
        """Bytes of one number of the arrays."""
        return NUMBERS[self.arrays].itemsize

    @property
    def filter_itemsize(self) -> int:
        """Bytes of one number of the packed filters."""
        return NUMBERS[self.filters].itemsize

    @property
    def stored(self) -> tuple[NumberType, ...]:
        """The types that numbers are widened from, or rounded to: each once."""
        names = dict.fromkeys((self.arrays, self.filters, self.tiles))
        narrow = (NUMBERS[name] for name in names if name != self.real.name)
        return tuple(one for one in narrow if one.exponent or one.name in (*PIXEL_TYPES, CODE_TYPE))

    @property
    def floating(self) -> Precision:
        """The same without the last step, the rounding to integers: errors are those of floats."""
        if NUMBERS[self.arrays].exponent:
            return self
        return replace(self, arrays=self.transforms)

    @property
    def format(self) -> ProductFormat:
        """How numbers are multiplied."""
        return PRODUCT_FORMATS.get(self.products, PRODUCT_FORMATS["real"])

    @property
    def narrow_filter(self) -> str:
        """The type that packed filters are widened from before they are multiplied, or ""."""
        return "" if self.products == self.filters else self.filters

    @property
    def mixed(self) -> bool:
        """Whether packed filters are computed in another type than the transforms."""
        return self.transforms != NUMBERS[self.filters].computed

    @property
    def scaled(self) -> bool:
        """Whether every packed filter has a scale, as its type has so small a range."""
        return 0 < NUMBERS[self.filters].exponent < self.real.exponent

    @property
    def plain(self) -> bool:
        """Whether all numbers are of one type."""
        return self == Precision.of(self.arrays) and self.arrays == self.transforms

    @property
    def narrow(self) -> bool:
        """Whether arrays hold other numbers than are computed with: each is widened when it is
        read, and rounded once when it is written.
        """
        return self.arrays != self.transforms

    @property
    def name(self) -> str:
        """The types other than the arrays', in words."""
        if self.products != self.transforms:
            return f"{self.arrays}, products {self.products}"
        if self.filters != self.transforms:
            return f"{self.arrays}, filters {self.filters}"
        return self.arrays

    def lanes(self, vector_bytes: int) -> int:
        """How many numbers a vector of so many bytes holds."""
        return vector_bytes // self.real.itemsize
