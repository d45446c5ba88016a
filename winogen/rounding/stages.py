"""Which number format every stage of a convolution has."""

from __future__ import annotations

from dataclasses import dataclass

from winogen.errors import InvalidType, InvalidValue
from winogen.records import Precision
from winogen.rounding.formats import Format, format_named
from winogen.rounding.quantised import QUANTISED, Quantised


@dataclass(frozen=True)
class Stages:
    """The formats that numbers are stored in and computed in, stage by stage."""

    arrays: Format  # inputs and outputs
    weights: Format  # filters as they are given
    filter: Format  # arithmetic of the filter transform
    packed: Format  # transformed filters are stored in it
    transform: Format  # arithmetic of the transforms of inputs and outputs
    tiles: Format  # transformed inputs are stored in it
    product: Format  # arithmetic of products and of their sums within a block
    sums: Format  # arithmetic of the sum of blocks
    quantised: Quantised | None = None  # products of integers instead

    @classmethod
    def of(
        cls,
        dtype: str = "float32",
        storage: str | None = None,
        transforms: str | None = None,
        filters: str | None = None,
        precision: Precision | None = None,
    ) -> Stages:
        """Return the formats that arguments of `measure` and `estimate` ask for.

        A ``precision`` says all but the arithmetic of the filter transform; then ``dtype``,
        ``storage`` and ``transforms`` are not given. Raises InvalidValue, InvalidType.

        >>> stages = Stages.of(precision=Precision.of("float32", "float16"), filters="float64")
        >>> print(stages.packed, stages.tiles, stages.filter)
        float16 float32 float64
        """
        if precision is None:
            product = format_named(dtype)
            transform = format_named(transforms or dtype, "transforms")
            in_filters = format_named(filters or transforms or dtype, "filters")
            kept = format_named(storage or dtype, "storage")
            return cls(kept, kept, in_filters, kept, transform, kept, product, product)
        if not isinstance(precision, Precision):
            raise InvalidType(f"precision: got {precision!r}; allowed: a Precision, or None")
        others = {"storage": storage, "transforms": transforms}
        others["dtype"] = None if dtype == "float32" else dtype
        for name, value in others.items():
            if value is not None:
                raise InvalidValue(f"{name}: got {value!r} with a precision; allowed: not both")
        real = format_named(precision.transforms)
        quantised = QUANTISED.get(precision.products)
        short = precision.format.summing == "short"
        products = precision.products if short else precision.sums

        def stored(name: str) -> Format:
            return real if quantised else format_named(name)

        return cls(
            arrays=format_named(precision.arrays),
            weights=real,
            filter=format_named(filters, "filters") if filters else real,
            packed=stored(precision.filters),
            transform=real,
            tiles=stored(precision.tiles),
            product=format_named(products),
            sums=format_named(precision.sums),
            quantised=quantised,
        )

    @property
    def narrowings(self) -> list[Format]:
        """The formats to which a product's factors are rounded on their way with a loss of bits.

        Filters come first: from the arithmetic of their transform into memory, from there into the
        multiplication.
        """
        formats = []
        for ways in ((self.filter, self.packed), (self.transform, self.tiles)):
            before, kept = ways
            for after in (kept, self.product):
                if after.bits < before.bits:
                    formats.append(after)
                before = after
        return formats
