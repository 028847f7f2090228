"""Archives: the stream that carries entries from root to root. Begin with `writer`, or with `reader` for its checks.

An archive is a tar inside zstd, so that ``zstd -d | tar t`` lists it. It is written and read in one pass::

    archive   = zstd frames around the tar, with a window of 128 MiB at most: one frame if solid, else frames of 1 MiB
                of content at most, stored where the content is compressed already (`zstd_frames`); larger entries have
                frames of their own; skippable frames may stand between them, but none behind the tar
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

Members are regular files of ustar, with a pax header if the name or the size needs one; mode 0644, all other fields
zero. The manifest lists every member after it but its signature, its digest and the trailer. The trailer lists entries
that changed or vanished while the archive was written; their members are absent, or have other bytes of the declared
size. A stream without a trailer is truncated.

A solid archive may hold an executable decompressed, under a name that says how it was compressed. The writer does so
only if compressing it as JAX does gives the stored bytes again. A reader with the same compression library then
restores the stored bytes, bit by bit; the manifest has the libraries' versions.
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
