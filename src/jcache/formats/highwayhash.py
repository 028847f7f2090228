"""HighwayHash64, the keyed 64-bit hash in Riegeli files.

The algorithm is that of J. Alakuijala, B. Cox and J. Wassenberg, "Fast keyed hash/pseudo-random function using SIMD
multiply and permute" (https://arxiv.org/abs/1612.06257), frozen in https://github.com/google/highwayhash:

    state    = v0, v1, mul0, mul1, each of four lanes of 64 bits; all sums are modulo 2^64, lane by lane
    packet   = 32 bytes, four lanes, little-endian:
               v1 += mul0 + packet;  mul0 ^= low half of v1 * high half of v0
               v0 += mul1;           mul1 ^= low half of v0 * high half of v1
               v0 += zipper(v1);     v1 += zipper(v0)             zipper: the 16 bytes of two lanes, reordered
    the last = fewer bytes: their number is added to v0 and rotates v1; they are padded to one packet
    hash     = lane 0 of v0 + v1 + mul0 + mul1, after four packets made of v0

This is jcache's own code, since no maintained package with wheels implements the hash. The speed of plain Python
depends on the number of operations, not on their width: eight lanes lie in one integer of 72 bytes, (v0, v1) in
``state`` and (mul1, mul0) in ``products``. A byte of zeros before each lane takes its carries, and ``bytes.translate``
with the state as its table is the zipper. This hashes 10 to 20 MB/s; lane by lane would hash 7 at best.
"""

from collections.abc import Iterable, Sequence
from struct import Struct, iter_unpack
from typing import Final

_PACKET: Final = 32
_PIECE_BYTES: Final = 1 << 16  # laid out at a time, so that the data are never copied as a whole
_LOW: Final = 0xFFFFFFFF
_FULL: Final = (1 << 64) - 1

_LANE: Final = 9  # bytes, in an integer of several lanes
_FOUR, _EIGHT = 4 * _LANE, 8 * _LANE
_CARRIES_OFF: Final = int.from_bytes(b"\0\xff\xff\xff\xff\xff\xff\xff\xff" * 8)
_LANES: Final = Struct(">" + "xQ" * 8)
_LOW_OF_V0_ALL_OF_V1: Final = Struct(">" + "5xI" * 4 + "xII" * 4)
_HIGH_OF_V0: Final = Struct(">" + "xI4x" * 4 + f"{_FOUR}x")

# the new order of the bytes of two lanes, the lowest first
_ZIPPER: Final = (3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7)
_TABLE_REST: Final = bytes(256 - _EIGHT)
_ZERO: Final = 255  # any place in the rest of the table

_INITIAL_0: Final = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_INITIAL_1: Final = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)


def highwayhash64(data: memoryview | bytes, key: tuple[int, int, int, int]) -> int:
    """Return the hash of some bytes under a key of four 64-bit numbers."""
    state = _join([*map(int.__xor__, _INITIAL_0, key), *map(int.__xor__, _INITIAL_1, map(_swap_halves, key))])
    products = _join([*_INITIAL_1, *_INITIAL_0])
    rest = len(data) % _PACKET
    whole = len(data) - rest
    for start in range(0, whole, _PIECE_BYTES):
        state, products = _mix(state, products, bytes(data[start : min(start + _PIECE_BYTES, whole)]))
    if rest:
        state = _mark_rest(state, rest)
        state, products = _mix(state, products, _pad(bytes(data[whole:])))
    for _ in range(4):
        v0 = _split(state)
        permuted = [_swap_halves(v0[lane]) for lane in (2, 3, 0, 1)]
        state, products = _mix(state, products, b"".join(lane.to_bytes(8, "little") for lane in permuted))
    lanes = _split(state) + _split(products)
    return sum(lanes[::4]) & _FULL


def _mix(state: int, products: int, packets: bytes) -> tuple[int, int]:
    """Return the state after some whole packets; all names are local, for speed."""
    highs, halves, pack = _HIGH_OF_V0.unpack, _LOW_OF_V0_ALL_OF_V1.unpack, _LANES.pack
    from_bytes, carries_off, rest = int.from_bytes, _CARRIES_OFF, _TABLE_REST
    zip_v1, zip_v0 = _ZIP_V1_FOR_V0.translate, _ZIP_V0_FOR_V1.translate
    v0_high = highs(state.to_bytes(_EIGHT))
    for (packet,) in _layout(packets):
        p0, p1, p2, p3 = v0_high
        state = state + products + from_bytes(packet) & carries_off
        table = state.to_bytes(_EIGHT)
        q0, q1, q2, q3, r0, s0, r1, s1, r2, s2, r3, s3 = halves(table)  # v0: q low; v1: r high, s low
        products ^= from_bytes(pack(q0 * r0, q1 * r1, q2 * r2, q3 * r3, s0 * p0, s1 * p1, s2 * p2, s3 * p3))
        state += from_bytes(zip_v1(table + rest))
        table = state.to_bytes(_EIGHT)
        v0_high = highs(table)
        state += from_bytes(zip_v0(table + rest))
    return state & carries_off, products


def _layout(packets: bytes) -> Iterable[tuple[bytes]]:
    """Yield each packet as the big-endian bytes of an integer of four lanes."""
    spread = bytearray(len(packets) // 8 * _LANE)
    for index in range(8):
        spread[8 - index :: _LANE] = packets[index::8]
    return iter_unpack(f"{_FOUR}s", spread)


def _zip_order(base: int) -> bytes:
    """Return the place in the table of each byte of four zipped lanes, where the lanes start at ``base``."""
    order: list[int] = []
    for first in (0, 2):
        places = [base + _LANE * (first + byte // 8) + 8 - byte % 8 for byte in _ZIPPER]
        order += [_ZERO, *places[7::-1], _ZERO, *places[:7:-1]]
    return bytes(order)


_ZIP_V1_FOR_V0: Final = _zip_order(_FOUR) + bytes([_ZERO] * _FOUR)
_ZIP_V0_FOR_V1: Final = _zip_order(0)


def _mark_rest(state: int, size: int) -> int:
    """Put the number of the last bytes into v0 and rotate both halves of every lane of v1 by it."""
    lanes = _split(state)
    v0 = [lane + (size << 32) + size & _FULL for lane in lanes[:4]]
    v1 = [_rotate(lane >> 32, size) << 32 | _rotate(lane & _LOW, size) for lane in lanes[4:]]
    return _join(v0 + v1)


def _pad(rest: bytes) -> bytes:
    """Return the packet of fewer than 32 bytes: whole words in their places, the rest of the last word in its own."""
    words = len(rest) & ~3
    left = rest[words:]
    packet = bytearray(rest[:words].ljust(_PACKET, b"\0"))
    if len(rest) >= 16:
        packet[28:] = rest[-4:]
    elif left:
        packet[16:19] = left[0], left[len(left) >> 1], left[-1]
    return bytes(packet)


def _split(eight: int) -> tuple[int, ...]:
    return _LANES.unpack(eight.to_bytes(_EIGHT))


def _join(lanes: Sequence[int]) -> int:
    return int.from_bytes(_LANES.pack(*lanes))


def _swap_halves(lane: int) -> int:
    return lane >> 32 | (lane & _LOW) << 32


def _rotate(half: int, by: int) -> int:
    return (half << by | half >> 32 - by) & _LOW
