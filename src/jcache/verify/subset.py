"""The part of a root that one run of `jcache verify` checks.

    subset = count "/" count | number "%" | size        "1/7", "5%", "10GiB"

A share is a share of the number of entries, rounded up; a size limits their bytes. Each run takes the least recently
verified entries, so seven runs with ``1/7`` check all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from jcache.errors import InvalidValue
from jcache.units import parse_size

_SHARE = re.compile(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", re.ASCII)
_PERCENT = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*%\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Subset:
    """A part of the entries, by their number or by their size.

    Attributes:
        share: share of the number of entries, over 0 and up to 1; None for a size.
        bytes: size of the entries; None for a share.
    """

    share: Fraction | None = None
    bytes: int | None = None

    @classmethod
    def parse(cls, text: str) -> Subset:
        """Return the subset that a text such as ``1/7``, ``5%`` or ``10GiB`` means.

        Raises:
            InvalidValue: the text has none of these forms, or means nothing or more than everything.
        """
        if match := _SHARE.fullmatch(text):
            share = Fraction(int(match[1]), int(match[2])) if int(match[2]) else Fraction(0)
        elif match := _PERCENT.fullmatch(text):
            share = Fraction(match[1]) / 100
        else:
            try:
                size = parse_size(text)
            except InvalidValue:
                raise InvalidValue(f"'{text}' is not a subset: write a share or a size: 1/7, 5% or 10GiB.") from None
            if size == 0:
                raise InvalidValue(f"'{text}' is a subset of nothing: write a share or a size: 1/7, 5% or 10GiB.")
            return cls(bytes=size)
        if not 0 < share <= 1:
            raise InvalidValue(
                f"'{text}' is not a share of a whole: write a share over 0 and up to 1, such as 1/7 or 5%."
            )
        return cls(share=share)

    def count(self, sizes: Sequence[int]) -> int:
        """Return how many of the entries of these sizes, from the first on, are in the subset; at least one if any."""
        if self.share is not None:
            return -(-len(sizes) * self.share.numerator // self.share.denominator)
        left = self.bytes or 0
        for number, size in enumerate(sizes):
            left -= size
            if left < 0:
                return max(number, 1)
        return len(sizes)
