# SPDX-License-Identifier: Apache-2.0
"""Kubernetes quantities as exact integers: "100m" of cpu, "1.5Gi" of memory.

Decides which texts are quantities and what they are worth, from the text alone and as Kubernetes' own
parser does: the suffixes n u m k M G T P E and Ki Mi Gi Ti Pi Ei, decimal exponents (``1e3``; ``1E`` alone
is exa), a sign, ``.5`` and ``5.``. What is finer than a nano unit is rounded away from zero, and binary
values stop at the largest int64. A value is one integer, its count of nano units, so sums never drift; the
format (binary, decimal, exponent) is kept for printing.

Printing follows Kubernetes too: ``str()`` gives what the API server would store, which for some texts is
the text itself ("+5", "1.500"), while ``canonical()`` always gives the normal form ("5", "1500m").

Three things are done better than there. Where its 64-bit numbers overflow it answers 0 or wraps round, and
some negative fractions it rounds towards zero; our integers are exact and always round away from zero. A
decimal value of 1000E and more it prints without any suffix; we keep the E. On exponents like ``1e999999999``
it spends unbounded memory; beyond 999, or 1000 digits, we refuse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn

from karpenter.errors import KarpenterError

__all__ = [
    "Format",
    "Quantity",
    "QuantityError",
    "SuffixMistake",
    "parse_milli",
    "parse_quantity",
    "parse_value",
    "suffix_mistake",
]

_NANO: Final = 10**9
_LARGEST_INT64: Final = 2**63 - 1
_MOST_DIGITS: Final = 1000
_LARGEST_EXPONENT: Final = 999


class QuantityError(KarpenterError):
    """A text or number that is not a Kubernetes quantity."""


class Format(Enum):
    """How a quantity is printed; the names are Kubernetes' own."""

    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"
    DECIMAL_EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount; equal amounts are equal, however they were written.

    Attributes:
        nano: The amount in billionths of a unit.
        format: How to print it.
        written: The text it was read from, where Kubernetes prints that text back unchanged; otherwise empty.
    """

    nano: int
    format: Format = Format.DECIMAL_SI
    written: str = ""

    @classmethod
    def from_value(cls, value: int, unit_format: Format = Format.DECIMAL_SI) -> Quantity:
        """Makes a quantity of whole units: bytes, cores, pods."""
        return cls(value * _NANO, unit_format)

    @classmethod
    def from_milli(cls, milli: int, unit_format: Format = Format.DECIMAL_SI) -> Quantity:
        """Makes a quantity of thousandths, as cpu is counted."""
        return cls(milli * 10**6, unit_format)

    def value(self) -> int:
        """Gives whole units; a fraction is rounded away from zero, so that who asked for some gets some."""
        return _divide_away_from_zero(self.nano, _NANO)

    def milli(self) -> int:
        """Gives thousandths of a unit; what is finer is rounded away from zero."""
        return _divide_away_from_zero(self.nano, 10**6)

    def scaled(self, exponent: int) -> int:
        """Gives the amount in units of ten to the ``exponent`` (-3: milli, 6: mega), away from zero."""
        if exponent < -9:
            return self.nano * _ten_to(-9 - exponent)
        return _divide_away_from_zero(self.nano, _ten_to(exponent + 9))

    @property
    def is_zero(self) -> bool:
        """Tells whether this is nothing at all."""
        return self.nano == 0

    def canonical(self) -> str:
        """Gives the normal form: no fraction, the largest suffix that needs none.

        A binary quantity below 1024, or one that is not whole, is printed in decimal, so that nothing is
        rounded.
        """
        if self.nano == 0:
            return "0"
        if self.format is Format.BINARY_SI and abs(self.nano) >= 1024 * _NANO and self.nano % _NANO == 0:
            number, times = _take_out(self.nano // _NANO, 1024, most=len(_BINARY_NAMES) - 1)
            return f"{number}{_BINARY_NAMES[times]}"
        if self.format is Format.DECIMAL_EXPONENT:
            number, times = _take_out(self.nano, 1000, most=_LARGEST_EXPONENT // 3 + 3)
            return f"{number}e{3 * times - 9}" if times != 3 else str(number)
        number, times = _take_out(self.nano, 1000, most=len(_DECIMAL_NAMES) - 1)
        return f"{number}{_DECIMAL_NAMES[times]}"

    def __str__(self) -> str:
        return self.written or self.canonical()

    def __add__(self, other: Quantity) -> Quantity:
        # As in Kubernetes: zero has no format of its own and takes the other's.
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: Quantity) -> bool:
        return self.nano > other.nano

    def __ge__(self, other: Quantity) -> bool:
        return self.nano >= other.nano


def parse_quantity(raw: str | float) -> Quantity:
    """Reads a quantity from the text, integer or float that stood in a manifest.

    Raises:
        QuantityError: It is none, with a hint of what may have been meant.
    """
    if isinstance(raw, str):
        return _parse_text(raw)
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise QuantityError(
            f"{raw!r} is not a quantity: expected a text or a number, got {type(raw).__name__}",
            hint='write a text such as "500m" or "1Gi"',
        )
    if isinstance(raw, int) and raw.bit_length() > _MOST_DIGITS:
        raise QuantityError("quantity is too large: a number of more than 300 digits", hint=_SHAPE_HINT)
    # repr() of a float is the shortest text that gives the same float, which is what the manifest said.
    return _parse_text(repr(raw))


@lru_cache(maxsize=8192, typed=True)
def parse_milli(raw: str | float) -> int:
    """Reads a quantity as thousandths, remembered: a scheduler sees the same few texts all the time."""
    return parse_quantity(raw).milli()


@lru_cache(maxsize=8192, typed=True)
def parse_value(raw: str | float) -> int:
    """Reads a quantity as whole units, remembered like ``parse_milli``."""
    return parse_quantity(raw).value()


@dataclass(frozen=True, slots=True)
class SuffixMistake:
    """A quantity that is valid but hardly meant: ``m`` and ``M`` confused.

    Attributes:
        resource: The name of the resource, e.g. ``cpu``.
        written: What the manifest says.
        amounts_to: What that is worth, in words.
        meant: What was probably meant.
    """

    resource: str
    written: str
    amounts_to: str
    meant: str

    def __str__(self) -> str:
        return (
            f'{self.resource} "{self.written}" is {self.amounts_to}; "{self.meant}" was probably meant '
            "(m is a thousandth, M a million)"
        )


def suffix_mistake(resource: str, quantity: str | Quantity) -> SuffixMistake | None:
    """Finds millicores written as mega ("100M" of cpu) and mebibytes written as milli ("512m" of memory).

    A cpu amount counts as a mistake from 1000 cores on when written with M or Mi; an amount of bytes when
    written with m and below one mebibyte, less than any container can live in. Both bounds are a judgement,
    not a rule.
    """
    amount = _parse_text(quantity) if isinstance(quantity, str) else quantity
    written = quantity if isinstance(quantity, str) else str(quantity)
    name = resource.removeprefix("requests.").removeprefix("limits.")
    number = written.rstrip("Mim")
    suffix = written[len(number) :]
    if name == "cpu" and suffix in ("M", "Mi") and abs(amount.value()) >= 1000:
        return SuffixMistake(resource, written, f"{amount.value()} cores", f"{number}m")
    counts_bytes = name in ("memory", "storage", "ephemeral-storage") or name.startswith("hugepages-")
    if counts_bytes and suffix == "m" and 0 < abs(amount.value()) < 2**20:
        return SuffixMistake(resource, written, f"{amount.nano / _NANO:g} bytes", f"{number}Mi")
    return None


class _Suffix(NamedTuple):
    """What a suffix multiplies by: ten to the ``exponent``, or two to the ``shift``."""

    format: Format
    exponent: int = 0
    shift: int = 0
    # Kubernetes remembers the text of a binary quantity only up to this many digits.
    most_kept_digits: int = 18


_DECIMAL_NAMES: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY_NAMES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SUFFIXES: Final = {
    name: _Suffix(Format.DECIMAL_SI, exponent=3 * index - 9) for index, name in enumerate(_DECIMAL_NAMES)
} | {
    name: _Suffix(Format.BINARY_SI, shift=10 * index, most_kept_digits=14 - 3 * index)
    for index, name in enumerate(_BINARY_NAMES)
    if name
}
_SHAPE: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")


def _parse_text(text: str) -> Quantity:
    match = _SHAPE.fullmatch(text) if text else None
    if match is None:
        _refuse(text)
    sign, whole, fraction, name = match.groups(default="")
    suffix = _SUFFIXES.get(name) or _exponent_suffix(text, name)
    digits = (whole.lstrip("0") or "0") + fraction
    if len(digits) > _MOST_DIGITS:
        raise QuantityError(
            f'quantity "{text[:20]}..." has more than {_MOST_DIGITS} digits', hint=_SHAPE_HINT
        )
    magnitude = int(digits)
    finest = suffix.exponent - len(fraction)
    nano = _nano(magnitude << suffix.shift, finest)
    unit_format = suffix.format
    if unit_format is Format.BINARY_SI:
        nano = min(nano, _LARGEST_INT64 * _NANO)
        # Kubernetes takes its short way for whole binary numbers alone, and not for long ones.
        short_way = not fraction and len(digits) <= suffix.most_kept_digits
        kept = short_way and magnitude % 8 != 0
        if 0 < nano < _NANO:
            unit_format = Format.DECIMAL_SI
    else:
        short_way = len(digits) <= suffix.most_kept_digits and finest >= -9
        kept = short_way and finest % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    if not (whole or fraction or short_way):
        # On its short way Kubernetes reads a suffix without digits ("Mi") as zero, on its long way ("Pi")
        # not.
        _refuse(text)
    return Quantity(-nano if sign == "-" else nano, unit_format, text if kept else "")


def _exponent_suffix(text: str, name: str) -> _Suffix:
    match = _EXPONENT.fullmatch(name)
    if match is None:
        _refuse(text)
    digits = match[1].lstrip("+-").lstrip("0")
    if len(digits) > len(str(_LARGEST_EXPONENT)):
        raise QuantityError(
            f'quantity "{text[:40]}" has an exponent beyond {_LARGEST_EXPONENT}',
            hint="use an exponent between -999 and 999",
        )
    return _Suffix(Format.DECIMAL_EXPONENT, exponent=int(match[1]))


def _nano(magnitude: int, exponent: int) -> int:
    if exponent >= -9:
        return magnitude * _ten_to(exponent + 9)
    return _divide_away_from_zero(magnitude, _ten_to(-9 - exponent))


def _ten_to(exponent: int) -> int:
    power: int = 10**exponent
    return power


def _divide_away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


def _take_out(number: int, factor: int, *, most: int) -> tuple[int, int]:
    """Divides by ``factor`` while nothing remains, at most ``most`` times; gives the rest and how often."""
    times = 0
    while times < most and number % factor == 0:
        number //= factor
        times += 1
    return number, times


_SHAPE_HINT: Final = (
    'write a number with an optional suffix (n u m k M G T P E, Ki Mi Gi Ti Pi Ei), e.g. "500m" or "1.5Gi"'
)
_WORDS: Final = re.compile(r"\s*([+-]?[0-9]+(?:[.,][0-9]*)?)\s*([A-Za-z]*)\s*")
_BINARY_WORDS: Final = {
    spelling: name
    for name in _BINARY_NAMES
    if name
    for spelling in (name[0].lower(), name.lower(), f"{name[0].lower()}b", f"{name.lower()}b")
}
_UNIT_WORDS: Final = frozenset({"", "b", "byte", "bytes", "core", "cores", "cpu", "cpus", "vcpu", "vcpus"})


def _refuse(text: str) -> NoReturn:
    raise QuantityError(f'"{text[:80]}" is not a quantity', hint=_hint(text[:80]))


def _hint(text: str) -> str:
    match = _WORDS.fullmatch(text)
    if match is None:
        return _SHAPE_HINT
    number, word = match[1].replace(",", "."), match[2]
    binary = _BINARY_WORDS.get(word.lower())
    if word in _SUFFIXES or word.lower() in _UNIT_WORDS:
        return f'write "{number}{word if word in _SUFFIXES else ""}"'
    if binary is not None:
        decimal = "k" if binary == "Ki" else binary[0]
        return f'write "{number}{binary}" (powers of 1024) or "{number}{decimal}" (powers of 1000)'
    return _SHAPE_HINT
