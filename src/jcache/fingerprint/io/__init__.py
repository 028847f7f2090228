"""Record what a block of code reads from outside: the files that it opens and the environment variables.

    with Reads() as reads:
        build()
    reads.parts     {"environment RATE": "'0.5'", "file /data/rates.yaml": "51 bytes 2c26b46b68ffc68f…"}
    reads.reason    None, or why what was built must not be stored: "wrote the file /tmp/log"
    now(reads.parts) == reads.parts     later, in another process: whether nothing has changed

Python's audit events report files, and replaced methods of ``os.environ`` report variables, in the thread of the block
and in threads that work for it (`threads`). A file counts with its content, also if it was opened for update. The
content must be the same when the file is opened and at the end of the block. A file that does not exist counts as
absent. If the block asks what there is at a path, the answer counts, but nothing else about the path.

The result of a strict block must not be stored after an action that a later process cannot compare: to write, to list a
directory, to start a process, to open a socket, to read the whole environment. The result of any block must not be
stored after a read of something that is no regular file, or of too many files or bytes to digest.

**Attribution** of a read follows the stack, from the frame that reads outwards:

- Python's own modules, and the packages through which JAX writes its caches, read on behalf of their callers.
- What the import system reads, and what reads Python sources for tracebacks and the like, belongs to nobody: imported
  code is code, which the fingerprint covers.
- What jax, jaxlib, their plugins and jcache read belongs to nobody: their versions and options are in the key. What
  JAX reads through another package, as `jax.numpy.load` does through numpy, belongs to the program.
- While an installed package is imported, what it reads counts, but nothing that it does is a reason not to store. If it
  had been imported before, nothing at all would have been recorded; its version is in the key.
- Everything else belongs to the program: its own code, also in modules that are being imported, and what it calls.

**Memoized results** (`memos`): a block that takes a result from an ``lru_cache``, or calls what JAX has traced before,
depends on what was read when that result was made, as far as jcache has recorded it.

**Not recorded** are files that C code opens by itself, except through `libraries` (so dbm, TensorStore and links within
HDF5 are not); ``getenv`` in C code; ``os.environ._data``; files that were open before the block; ``stat``, if somebody
took the function from ``os`` earlier, or while a memoized result is made; the clock, except as a source of
nondeterminism (`chances`); reads of threads that existed before the block, unless an executor or pool hands them its
work; and reads for results that were memoized before jcache was imported.
"""
