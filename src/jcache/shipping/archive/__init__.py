"""The stream that carries entries from root to root; its grammar, and the names that the rest of jcache uses of it.

An archive is a tar inside zstd, so that ``zstd -d | tar t`` lists it. It is written and read in one pass::

    archive   = zstd frames around the tar, with a window of 128 MiB at most: one if solid, else of 1 MiB at most,
                stored where what they hold is compressed already (`zstd_frames`), those of larger entries of their own;
                some may be there to be skipped, but none behind the tar
    tar       = manifest [signature | digest] entry* neighbour* trailer end
    manifest  = "manifest.json"          always first: canonical JSON (`jcache.shipping.archive.manifest_codec`)
    signature = "manifest.json.sig"      armored SSHSIG of the bytes of manifest.json, namespace "jcache-archive"
    digest    = "manifest.json.digest"   of the bytes of manifest.json, where it is not signed
    entry     = DIRECTORY "/" key "-cache" [ ".zstd-content" | ".zlib-content" ]
                                         DIRECTORY is executables, traces-v1 or graphs-v1; in the manifest's order
    neighbour = "xla/" path              a file of XLA's sub-caches, in the manifest's order
    trailer   = "trailer.json"           always last: {"omitted":[[kind,key],...]} and a line feed; for a neighbour
                                         the kind is "xla" and the key its path; sorted
    end       = zeros, at least 1024

Members are regular files of ustar, with a pax header where the name or the size asks for one; mode 0644, everything
else zero. The manifest lists every member after it but its signature, its digest and the trailer. What changed or
vanished while the archive was written is in the trailer; its member is absent, or present with other bytes of the
declared size. A stream without a trailer is truncated.

In a solid archive an executable may be stored as what it holds once decompressed, under a name that says how it was
compressed. That is done only where compressing it as JAX does gave the stored bytes again, so that a reader with the
same compression library gives back what was stored, bit by bit; the manifest says which versions that were.
"""

from jcache.shipping.archive.members import ArchiveMember, Head, PlainTarMember, item_name, neighbour_name
from jcache.shipping.archive.plain_tar import PlainTarReader, open_plain_tar
from jcache.shipping.archive.reader import ArchiveReader, open_archive
from jcache.shipping.archive.recompression import recompressors
from jcache.shipping.archive.writer import ArchiveWriter

__all__ = [
    "ArchiveMember",
    "ArchiveReader",
    "ArchiveWriter",
    "Head",
    "PlainTarMember",
    "PlainTarReader",
    "item_name",
    "neighbour_name",
    "open_archive",
    "open_plain_tar",
    "recompressors",
]
