# cython: language_level=3, boundscheck=False, wraparound=False, annotation_typing=False, initializedcheck=False
"""The checksum of bytes whose beginning has changed, from the old one: what follows is not looked at again.

A CRC is linear: two runs of bytes of one length that differ in their beginning alone have checksums that differ by
what the difference of the beginnings becomes as the rest passes by, and that depends on the rest's length only. It is
a product of polynomials modulo CRC-32C's, with x to the power of so many bits. A checksum that was wrong stays wrong.

Compiled and interpreted like `record_reader`. Polynomials have their lowest power in the highest of 32 bits.
"""

from __future__ import annotations

POLYNOMIAL = 0x82F63B78
ONE = 0x80000000
X_TO_8 = 0x00800000


def carried(difference: int, length: int) -> int:
    """What a difference of two checksums becomes once `length` equal bytes have followed on both sides.

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
    """Of two polynomials, modulo CRC-32C's."""
    total = 0
    bit = ONE
    while bit:
        if left & bit:
            total ^= right
        right = right >> 1 ^ POLYNOMIAL if right & 1 else right >> 1
        bit >>= 1
    return total
