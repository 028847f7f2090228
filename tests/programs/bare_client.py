"""Move objects with the store's client alone: python bare_client.py push|pull URL DIRECTORY. For benchmarks.

It sends as many at once as jcache does, with metadata as jcache's, and asks for metadata where jcache does.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from obstore.store import S3Store

AT_ONCE = 32
METADATA = {"Content-Type": "application/octet-stream", "digest": "blake3:" + "a" * 64, "seconds": "0.5"}


def main(doing: str, prefix: str, directory: str) -> None:
    store = S3Store("jcache", prefix=prefix, client_options={"allow_http": True})

    def put(file: "os.DirEntry[str]") -> None:
        with open(file.path, "rb") as opened:
            store.put(file.name, opened.read(), mode="create", attributes=METADATA, use_multipart=False)

    def get(name: str) -> None:
        found = store.get(name)
        _ = found.attributes
        with open(os.path.join(directory, name.rpartition("/")[2]), "xb") as opened:
            opened.write(found.bytes())

    with ThreadPoolExecutor(AT_ONCE) as pool:
        if doing == "push":
            list(pool.map(put, [file for file in os.scandir(directory) if file.name.endswith("-cache")]))
        else:
            os.makedirs(directory)
            names = [one["path"] for batch in store.list("v1/executables/") for one in batch]
            list(pool.map(get, names))


if __name__ == "__main__":
    main(*sys.argv[1:])
