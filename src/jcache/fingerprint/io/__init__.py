"""What a block of code reads from outside: the files that it opens, the environment variables that it asks for.

    with Reads() as reads:
        build()
    reads.parts     {"environment RATE": "'0.5'", "file /data/rates.yaml": "51 bytes 2c26b46b68ffc68f…"}
    reads.reason    None, or why what was built must not be stored: "wrote the file /tmp/log"
    now(reads.parts) == reads.parts     later, in another process: whether all of it is still the same

Files are seen through Python's audit events, variables through ``os.environ``, in the thread of the block and in those
that work for it (`threads`). A file counts with its content, as it is when it is opened and still is at the end, also
where it could have been written; one that is not there counts as absent. What the block was told of a path counts as
far as it has asked. What cannot be told again is a reason not to store for a strict block: what is written, directories
that are listed, processes, sockets, the environment as a whole; and for every block files that are no regular ones or
too many to digest.

**Whose reading it is** is told by the frames, from the one that reads outwards:

- Python's own modules, and packages that JAX writes its caches through, read for whoever called them.
- What the import system reads, and Python sources that tracebacks and the like look up, is nobody's: imported code is
  code, which the fingerprint covers.
- What jax, jaxlib, their plugins and jcache read is nobody's: their versions and options are in the key. Where they
  read through another package, as `jax.numpy.load` does through numpy, it is the program's.
- While an installed package is imported, what it reads counts, but nothing that it does is a reason: had it been
  imported before, nothing at all would have been seen, and its version is in the key.
- Everything else is the program's: its own code, also that of modules while they are imported, and what it calls.

**Results that are kept** (`memos`): a block that takes a result of an ``lru_cache``, or calls what JAX has traced
before, depends on what was read for that, as far as jcache was there to hear it.

**What is not seen**: files that C code opens by itself, but for those of `libraries` (so dbm, TensorStore, links within
HDF5); ``getenv`` in C code; ``os.environ._data``; what was open before the block; ``stat`` where somebody has taken it
from ``os`` before, or where it is asked for a result that is kept; the clock; what threads read that were there before,
unless an executor or a pool hands them work; and what was read for results that were kept before jcache was imported.
"""
