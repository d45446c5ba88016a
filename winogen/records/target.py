"""The instruction sets that kernels are written for: vector width, register count, flags.

A target is only data. One C source serves them all through GNU vector extensions, so a new
instruction set is a new entry in `TARGETS`; which of them the running CPU has is the business of
the toolchain's `host_target`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from winogen.errors import InvalidValue
from winogen.records.precision import FLYTES, NUMBERS, ProductFormat

# The first major versions of compilers that all kernels are written for.
OLDEST = {"gcc": 9, "clang": 10}


@dataclass(frozen=True)
class Extension:
    """Instructions that some CPUs of a target have, and what it takes to use them."""

    name: str
    targets: tuple[str, ...]  # that it belongs to
    reported: str  # as the CPU calls it (archspec's feature name)
    flags: tuple[str, ...]  # what the compiler needs to emit it
    gcc: int  # the first major version that knows the flags
    clang: int


# Some of different targets have the same name.
EXTENSIONS: tuple[Extension, ...] = (
    # Dot products of 8-bit and of 16-bit integers, added to 32-bit sums.
    Extension("vnni", ("avx512",), "avx512_vnni", ("-mavx512vnni",), 8, 7),
    Extension("avxvnni", ("avx2",), "avx_vnni", ("-mavxvnni",), 11, 12),
    Extension("dotprod", ("neon",), "asimddp", ("-march=armv8.2-a+dotprod",), 8, 7),
    # Products of matrices of bytes, 2 x 8 by 8 x 2.
    Extension("i8mm", ("neon",), "i8mm", ("-march=armv8.2-a+i8mm",), 10, 11),
    # Products of matrices of bytes, 16 x 64 by 64 x 16, which Linux has to permit.
    Extension("amx", ("avx512",), "amx_int8", ("-mamx-tile", "-mamx-int8"), 11, 12),
    # float16 to float32 and back.
    Extension("f16c", ("avx512", "avx2"), "f16c", ("-mf16c",), 5, 4),
    # Shuffles of bytes across a whole vector.
    Extension("vbmi", ("avx512",), "avx512vbmi", ("-mavx512vbmi",), 5, 4),
    # Dot products of two bfloat16, added to sums of float32.
    Extension("bf16", ("avx512",), "avx512_bf16", ("-mavx512bf16",), 10, 9),
    # Arithmetic in float16.
    Extension("fp16", ("avx512",), "avx512_fp16", ("-mavx512fp16",), 12, 14),
    Extension("fp16", ("neon",), "asimdhp", ("-march=armv8.2-a+fp16",), 8, 7),
)


# What widens a type of numbers in fewer instructions, by target.
_WIDENERS = {
    ("avx2", "float16"): "f16c",
    **{("avx512", one.name): "vbmi" for one in FLYTES if one.is_odd},
}


def _joined(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Flags of which one names the architecture with all features: of several the last counts."""
    named = [flag for flag in flags if flag.startswith("-march=")]
    if len(named) < 2:
        return flags
    features = dict.fromkeys(name for flag in named for name in flag.split("+")[1:])
    joined = "+".join((named[0].split("+")[0], *features))
    others = (flag for flag in flags if flag not in named)
    return (*others, joined)


@dataclass(frozen=True)
class Target:
    """An instruction set as the code generator sees it.

    >>> from winogen.records import TARGETS
    >>> TARGETS["avx2"].lanes("float32"), TARGETS["avx512"].lanes("float64")
    (8, 8)
    """

    name: str  # what WINOGEN_ISA and `--isa` call it
    vector_bytes: int  # width of one vector register
    registers: int  # vector registers the instruction set names
    flags: tuple[str, ...]  # what the compiler needs to emit it
    # Arithmetic takes one number for all lanes, from memory or from a register of scalars.
    broadcasts: bool = False
    # Arithmetic takes one lane of a register for all lanes. On 32-bit ARM such a multiply-add
    # rounds twice, which bounds of errors allow.
    by_lane: bool = False
    # So do multiply-adds of transforms, whose constants registers have room for.
    lane_constants: bool = False
    dots: str = ""  # sums of two products of 16 bits: "madd", "smlal", "dot_i16x8", "" for none
    masks: bool = False  # loads and stores of some lanes, non-temporal stores of a whole line
    load_mask: int = 0  # bytes of what says which lanes a load reads; 0: it reads all
    flushes: bool = True  # can be told to take denormals for zeros
    halves: bool = False  # instructions make float32 of float16 and back
    shuffles: bool = False  # an instruction shuffles bytes
    # "x86", "arm", "arm32", "riscv" or "wasm"; "" for any CPU.
    family: str = field(default="", repr=False)
    # What a CPU must report before code for the target may run on it: archspec's feature names.
    reported: frozenset[str] = field(default=frozenset(), repr=False)
    # A target all of whose instructions it has, and uses where it has no better ones.
    includes: str = ""
    # The micro-architecture whose measured sizes of blocks it takes, "" if none is known, and what
    # the CPU has besides, names of EXTENSIONS. Neither is in the text by which caches know kernels:
    # its tuning shows the sizes that a kernel has, the flags what it uses.
    core: str = field(default="", repr=False)
    extensions: frozenset[str] = field(default=frozenset(), repr=False)

    def lanes(self, dtype: str) -> int:
        """Return how many "float32" or "float64" numbers one vector holds."""
        return self.vector_bytes // NUMBERS[dtype].itemsize

    def multiplying(self, form: ProductFormat) -> tuple[str, ...]:
        """Return its extensions that multiply words of a format by one instruction.

        >>> from winogen.records import PRODUCT_FORMATS
        >>> TARGETS["avx2"].adjusted("+avxvnni+f16c").multiplying(PRODUCT_FORMATS["int16"])
        ('avxvnni',)
        """
        return tuple(sorted(self.extensions & form.extensions))

    def multiplies(self, form: ProductFormat) -> bool:
        """Whether there are kernels for it that multiply numbers of a format."""
        return form.portable or bool(self.multiplying(form))

    def using(self, *names: str) -> Target:
        """Return the target whose flags allow these extensions, for kernels that need them.

        >>> TARGETS["avx2"].using("f16c").flags
        ('-mavx2', '-mfma', '-mf16c')
        >>> TARGETS["neon"].using("dotprod", "i8mm").flags
        ('-march=armv8.2-a+dotprod+i8mm',)
        """
        if not names:  # mostly, and planners ask for each way that they consider
            return self
        flags = (flag for name in names for flag in self.known[name].flags)
        return replace(self, flags=_joined((*self.flags, *flags)))

    @property
    def told(self) -> tuple[str, ...]:
        """All that a compiler is told for its CPUs: the core of a microcontroller, too."""
        return MICROCONTROLLERS.get(self.core, self.flags)

    @property
    def known(self) -> dict[str, Extension]:
        """All extensions that its CPUs may have, by name."""
        return {one.name: one for one in EXTENSIONS if self.name in one.targets}

    @property
    def used(self) -> tuple[Extension, ...]:
        """The extensions that its flags allow.

        >>> [one.name for one in TARGETS["neon"].using("i8mm").used]
        ['i8mm']
        """
        words = {word for flag in self.flags for word in flag.split("+")}
        return tuple(
            one
            for one in self.known.values()
            if words.issuperset(word for flag in one.flags for word in flag.split("+"))
        )

    @property
    def bare(self) -> bool:
        """Whether it is a microcontroller, with little memory and no operating system."""
        return self.core in MICROCONTROLLERS

    @property
    def portable(self) -> Target:
        """The target "generic" with vectors as wide, whose C packs filters for this one on any CPU.

        How filters lie depends on the width of vectors, and on whether one lane multiplies all
        others. No instruction of this target is among what the C uses.

        >>> TARGETS["avx512"].portable.vector_bytes, TARGETS["avx512"].portable.masks
        (64, False)
        """
        return replace(
            TARGETS["generic"],
            vector_bytes=self.vector_bytes,
            registers=self.registers,
            by_lane=self.by_lane,
        )

    def storing(self, *numbers: str) -> Target:
        """Return the target whose flags allow what it has to widen these types of numbers.

        >>> TARGETS["avx2"].adjusted("+f16c").storing("float16").flags
        ('-mavx2', '-mfma', '-mf16c')
        """
        names = (_WIDENERS.get((self.name, number)) for number in numbers)
        return self.using(*(name for name in names if name in self.extensions))

    @property
    def widens_halves(self) -> bool:
        """Whether its flags allow an instruction that makes float32 of float16."""
        return self.halves or "-mf16c" in self.flags

    def widening(self, number: str) -> int:
        """Return how many instructions make a vector of float32 of narrower numbers, about.

        >>> TARGETS["avx512"].widening("float16"), TARGETS["generic"].widening("float16")
        (1, 14)
        """
        if number == "float16":
            return 1 if self.storing(number).widens_halves else 14
        if NUMBERS[number].is_odd:  # else number by number
            return 2 if self.shuffles else 4 * self.lanes(NUMBERS[number].wide)
        return 2

    def adjusted(self, changes: str) -> Target:
        """Return the target with extensions added and taken away.

        ``changes``: "+vnni-f16c", say. Raises InvalidValue for what is no extension of this target.

        >>> sorted(TARGETS["avx512"].adjusted("+vnni+vbmi-vbmi").extensions)
        ['vnni']
        """
        extensions = set(self.extensions)
        words = re.split("([+-])", changes)
        for sign, name in zip(words[1::2], words[2::2]):
            if name not in self.known:
                raise InvalidValue(
                    f"isa: got {self.name + changes!r}; allowed: {self.name} with + or - before "
                    f"each of {', '.join(self.known) or 'no extension'}"
                )
            (extensions.add if sign == "+" else extensions.discard)(name)
        return replace(self, extensions=frozenset(extensions))


# Widest first within a family: `host_target` takes the first that the CPU has.
TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            "avx512",
            64,
            32,
            (
                "-mavx512f",
                "-mavx512vl",
                "-mavx512bw",
                "-mavx512dq",
                "-mfma",
                # Both compilers prefer 256 bits by default, for fear of a clock drop that CPUs
                # since Ice Lake hardly have.
                "-mprefer-vector-width=512",
            ),
            broadcasts=True,
            dots="madd",
            masks=True,
            load_mask=2,
            halves=True,
            shuffles=True,
            family="x86",
            reported=frozenset({"avx512f", "avx512vl", "avx512bw", "avx512dq", "fma"}),
        ),
        Target(
            *("avx2", 32, 16, ("-mavx2", "-mfma")),
            load_mask=32,
            dots="madd",
            shuffles=True,
            family="x86",
            reported=frozenset({"avx2", "fma"}),
        ),
        Target(
            *("sse4.2", 16, 16, ("-msse4.2",)),
            dots="madd",
            shuffles=True,
            family="x86",
            reported=frozenset({"sse4_2", "popcnt"}),
            includes="sse2",
        ),
        Target(
            "sse2", 16, 16, ("-msse2",), dots="madd", family="x86", reported=frozenset({"sse2"})
        ),
        # Vectors of SVE have the length that compilers are told. CPUs do not report theirs, so that
        # none is taken for one of these unasked.
        Target(
            *("sve256", 32, 32, ("-march=armv8.2-a+sve", "-msve-vector-bits=256")),
            family="arm",
            reported=frozenset({"sve_of_256_bits"}),
            includes="generic",
        ),
        Target(
            *("neon", 16, 32, ()),
            by_lane=True,
            lane_constants=True,
            dots="smlal",
            halves=True,
            shuffles=True,
            family="arm",
            reported=frozenset({"asimd"}),
        ),
        Target(
            "armv7",
            16,
            16,
            (
                "-mfpu=neon-vfpv4",
                # gcc makes vectors of float32 scalars unless it may flush denormals, as NEON does.
                # Sums stay in their order.
                "-funsafe-math-optimizations",
                "-fno-associative-math",
                "-fno-reciprocal-math",
                "-fsigned-zeros",
            ),
            by_lane=True,
            shuffles=True,
            family="arm32",
            reported=frozenset({"neon", "vfpv4"}),
            includes="generic",
        ),
        # Vectors of 16 bytes are the least that CPUs with V have, and code that says so runs with
        # longer ones, too, of which it uses 16 bytes. No CPU is known to report V to archspec, so
        # that none is taken for one of these unasked.
        Target(
            *("rvv128", 16, 32, ("-march=rv64gcv",)),
            broadcasts=True,
            flushes=False,
            family="riscv",
            reported=frozenset({"v"}),
            includes="generic",
        ),
        # A product and its sum round twice, which bounds of errors allow. Engines map its locals to
        # the registers of the CPU, of which x86 has 16. No CPU reports it, so none runs it unasked.
        Target(
            *("wasm", 16, 16, ("-msimd128",)),
            dots="dot_i16x8",
            flushes=False,
            shuffles=True,
            family="wasm",
            reported=frozenset({"simd128"}),
            includes="generic",
        ),
        # The same with multiply-adds that round once or twice, as the engine likes: bounds allow
        # rounding twice.
        Target(
            *("wasm-relaxed", 16, 16, ("-msimd128", "-mrelaxed-simd")),
            dots="dot_i16x8",
            flushes=False,
            shuffles=True,
            family="wasm",
            reported=frozenset({"relaxed_simd"}),
            includes="wasm",
        ),
        Target("generic", 16, 16, ()),
    )
}


# The levels of x86-64, as the psABI defines them and compilers know them (-march=x86-64-v3): the
# target of which every CPU of a level has all instructions, and what a level adds to the target.
LEVELS: dict[str, str] = {
    "x86-64-v2": "sse4.2",
    "x86-64-v3": "avx2+f16c",
    "x86-64-v4": "avx512+f16c",
}


# Microcontrollers by the names of their cores, and what their compilers are told. They have no
# vectors of floats: their C is that of "generic".
MICROCONTROLLERS: dict[str, tuple[str, ...]] = {
    core: (f"-mcpu={core}", "-mthumb", *((f"-mfpu={unit}", "-mfloat-abi=hard") if unit else ()))
    for core, unit in {
        "cortex-m0": "",
        "cortex-m0plus": "",
        "cortex-m3": "",
        "cortex-m4": "fpv4-sp-d16",
        "cortex-m7": "fpv5-sp-d16",
        "cortex-m33": "fpv5-sp-d16",
    }.items()
}


def spelled(text: str) -> tuple[str, str]:
    """Return the name of a target and the changes that `Target.adjusted` takes.

    ``text`` begins with the name of a target, which may have a hyphen, or of one of the `LEVELS`.

    >>> spelled("avx512+vnni")
    ('avx512', '+vnni')
    >>> spelled("x86-64-v3-f16c")
    ('avx2', '+f16c-f16c')
    >>> spelled("wasm-relaxed")
    ('wasm-relaxed', '')
    """
    for level, meant in LEVELS.items():
        if re.match(f"{level}([+-]|$)", text):
            text = meant + text[len(level) :]
    hyphened = (name for name in TARGETS if "-" in name and re.match(f"{name}([+-]|$)", text))
    name = next(hyphened, re.split("[+-]", text, maxsplit=1)[0])
    return name, text[len(name) :]
