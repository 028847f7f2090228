"""HighwayHash64 gives the results of its authors' test vectors and of Riegeli's own writer."""

import pytest

from jcache.formats.highwayhash import highwayhash64

KEY = (0x0706050403020100, 0x0F0E0D0C0B0A0908, 0x1716151413121110, 0x1F1E1D1C1B1A1918)
RIEGELI = (0x2F696C6567656952, 0x0A7364726F636572, 0x2F696C6567656952, 0x0A7364726F636572)

# of the bytes 0, 1, 2, … in growing number (google/highwayhash, c/highwayhash_test.c)
PUBLISHED = """
    907A56DE22C26E53 7EAB43AAC7CDDD78 B8D0569AB0B53D62 5C6BEFAB8A463D80 F205A46893007EDA 2B8A1668E4A94541
    BD4CCC325BEFCA6F 4D02AE1738F59482 E1205108E55F3171 32D2644EC77A1584 F6E10ACDB103A90B C3BBF4615B415C15
    243CC2040063FA9C A89A58CE65E641FF 24B031A348455A23 40793F86A449F33B CFAB3489F97EB832 19FE67D2C8C5C0E2
    04DD90A69C565CC2 75D9518E2371C504 38AD9B1141D3DD16 0264432CCD8A70E0 A9DB5A6288683390 D7B05492003F028C
    205F615AEA59E51E EEE0C89621052884 1BFC1A93A7284F4F 512175B5B70DA91D F71F8976A0A2C639 AE093FEF1F84E3E7
    22CA92B01161860F 9FC7007CCF035A68 A0C964D9ECD580FC 2C90F73CA03181FC 185CF84E5691EB9E 4FC1F5EF2752AA9B
    F5B7391A5E0A33EB B9B84B83B4E96C9C 5E42FE712A5CD9B4 A150F2F90C3F97DC 7FA522D75E2D637D 181AD0CC0DFFD32B
    3889ED981E854028 FB4297E8C586EE2D 6D064A45BB28059C 90563609B3EC860C 7AA4FCE94097C666 1326BAC06B911E08
    B926168D2B154F34 9919848945B1948D A2A98FC534825EBE E9809095213EF0B6 582E5483707BC0E9 086E9414A88A6AF5
    EE86B98D20F6743D F89B7FF609B1C0A7 4C7D9CC19E22C3E8 9A97005024562A6F 5DD41CF423E6EBEF DF13609C0468E227
    6E0DA4F64188155A B755BA4B50D7D4A1 887A3484647479BD AB8EEBE9BF2139A0 75542C5D4CD2A6FF
"""


@pytest.mark.parametrize(("size", "expected"), list(enumerate(PUBLISHED.split())))
def test_published_vectors(size: int, expected: str) -> None:
    """Every published hash comes out; among them is each length of the last packet."""
    assert f"{highwayhash64(bytes(range(size)), KEY):016X}" == expected


def test_the_published_vector_of_another_key() -> None:
    """Another key gives another hash, and bytes above 127 are not taken for negative numbers."""
    assert highwayhash64(bytes(range(128, 161)), (1, 2, 3, 4)) == 0x53C516CCE478CAD7


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("0000000000000000 4000000000000000", "83af70d10d884a3f"),
        ("", "e19f13c0e9b1c372"),
        ("0000000000000000 e19f13c0e9b1c372 7300000000000000 0000000000000000", "91bac23c9287e1a9"),
        ("63e7000000000000 522a000000000000", "30fa1782181279e3"),
    ],
)
def test_hashes_in_riegeli_files(data: str, expected: str) -> None:
    """The hashes of block headers, of no data and of the signature are those of files that Riegeli's writer made."""
    assert highwayhash64(bytes.fromhex(data), RIEGELI).to_bytes(8, "little").hex() == expected


def test_data_longer_than_a_piece_of_the_work() -> None:
    """A quarter of a megabyte, not a whole number of packets, has the hash that Riegeli's writer gave."""
    chunk = bytes.fromhex("000380d00f") + bytes(range(256)) * 1000
    assert highwayhash64(chunk, RIEGELI).to_bytes(8, "little").hex() == "b1df644d59c4d0b4"
    assert highwayhash64(memoryview(chunk), RIEGELI) == highwayhash64(chunk, RIEGELI)
