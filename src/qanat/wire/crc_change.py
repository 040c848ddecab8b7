# cython: language_level=3, boundscheck=False, wraparound=False, annotation_typing=False, initializedcheck=False
"""The checksum of bytes whose beginning has changed, from the old one, without reading the rest.

A CRC is linear: two byte strings of one length that differ only at the beginning have checksums that differ by
a value that depends on the difference of the beginnings and on the length of the rest. It is
a product of polynomials modulo CRC-32C's, with x to the power of so many bits. A checksum that was wrong stays wrong.
Compiled and interpreted like `record_reader`. Polynomials have their lowest power in the highest of 32 bits.
"""

from __future__ import annotations

POLYNOMIAL = 0x82F63B78
ONE = 0x80000000
X_TO_8 = 0x00800000


def carried(difference: int, length: int) -> int:
    """The difference of two checksums after `length` equal bytes have followed on both sides.

    >>> carried(0x1234, 0) == 0x1234
    True
    """
    power = X_TO_8
    while length > 0:
        if length & 1:
            difference = product(power, difference)
        power = product(power, power)
        length >>= 1
    return difference


def product(left: int, right: int) -> int:
    """The product of two polynomials, modulo CRC-32C's."""
    total = 0
    bit = ONE
    while bit:
        if left & bit:
            total ^= right
        right = right >> 1 ^ POLYNOMIAL if right & 1 else right >> 1
        bit >>= 1
    return total
