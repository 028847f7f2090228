"""What a function reads while it is traced or built, in real processes: unchanged it is served, changed it is not."""

from pathlib import Path

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

HEAD = """
import asyncio, contextlib, functools, io, json, mmap, multiprocessing.pool, os, pathlib, sqlite3, sys, threading
from concurrent.futures import ThreadPoolExecutor
import jax, jax.numpy as jnp, numpy as np
root, value = sys.argv[1], float(sys.argv[3])
AT = os.path.dirname(root)
P = AT + "/t.txt"
def write(path, text):
    if not os.path.exists(f"{path}.made-{value}"):  # which is not read: it would be an input from the second start on
        pathlib.Path(path).write_text(text)
        open(f"{path}.made-{value}", "w").close()
write(P, str(value))
import jcache
entry = getattr(jcache, sys.argv[2])
jcache.enable(root, strict=True)
def read(path):
    with open(path) as file:
        return float(file.read())
def unchanged(make):
    if not os.path.exists(f"{P}.all-{value}"):
        make()
        open(f"{P}.all-{value}", "w").close()
class Held:
    def __init__(self, pool): self.pool = pool
    def __cache_key__(self): return ""
x = jnp.arange(4.0)
"""
TAIL = """
def traced_and_value():
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        result = entry(f)(x)
    return [printed.getvalue().count("traced"), float(result[1])]
print(json.dumps(traced_and_value()))
"""
STEP = """
def f(x):
    print("traced")
    return x * {}
"""
DATABASE = """
def table(path):
    def make():
        with contextlib.closing(sqlite3.connect(path)) as c:
            c.execute("drop table if exists t"); c.execute("create table t(a)")
            c.execute("insert into t values(?)", (value,)); c.commit()
    unchanged(make)
"""
PROGRAMS = {
    "a pool of threads": """
def f(x):
    print("traced")
    with ThreadPoolExecutor(2) as pool:
        return x * list(pool.map(read, [P, P]))[0]
""",
    "a pool that was there before": """
held = Held(ThreadPoolExecutor(2))
list(held.pool.map(str, range(9)))
def f(x):
    print("traced")
    return x * held.pool.submit(read, P).result()
""",
    "a thread of asyncio": """
def f(x):
    print("traced")
    async def main():
        return await asyncio.to_thread(read, P)
    return x * asyncio.run(main())
""",
    "a thread": """
def f(x):
    print("traced")
    found = []
    thread = threading.Thread(target=lambda: found.append(read(P)))
    thread.start(); thread.join()
    return x * found[0]
""",
    "a thread of a thread": """
def f(x):
    print("traced")
    found = []
    inner = lambda: found.append(read(P))
    def outer():
        thread = threading.Thread(target=inner)
        thread.start(); thread.join()
    thread = threading.Thread(target=outer)
    thread.start(); thread.join()
    return x * found[0]
""",
    "multiprocessing's pool of threads": """
held = Held(multiprocessing.pool.ThreadPool(2))
def f(x):
    print("traced")
    return x * held.pool.map(read, [P, P])[0]
""",
    "variables in a thread": """
os.environ["RATE_IN_A_THREAD"] = str(value)
def f(x):
    print("traced")
    with ThreadPoolExecutor(1) as pool:
        return x * float(pool.submit(lambda: os.environ["RATE_IN_A_THREAD"]).result())
""",
    "r+": STEP.format("float(open(P, 'r+').read())"),
    "memmap": "unchanged(lambda: np.array([value]).tofile(P + '.bin'))"
    + STEP.format("float(np.memmap(P + '.bin', 'f8')[0])"),
    "mmap": """
def f(x):
    print("traced")
    with open(P, "rb+") as file, mmap.mmap(file.fileno(), 0) as mapped:
        return x * float(mapped[:])
""",
    "shared memory": """
P = "/dev/shm/jcache-test" + AT.replace("/", "-")
write(P, str(value))
import atexit
atexit.register(lambda: os.remove(P) if value == 3 else None)
"""
    + STEP.format("read(P)"),
    "a database": DATABASE
    + """
table(P + ".db")
def f(x):
    print("traced")
    with contextlib.closing(sqlite3.connect(P + ".db")) as c:
        return x * c.execute("select a from t").fetchone()[0]
""",
    "a database with a log": DATABASE
    + """
with contextlib.closing(sqlite3.connect(P + ".db")) as c:
    c.execute("pragma journal_mode = wal")
table(P + ".db")
def f(x):
    print("traced")
    c = sqlite3.connect(P + ".db")
    return x * c.execute("select a from t").fetchone()[0]
""",
    "an attached database": DATABASE
    + """
table(P + ".db")
M = pathlib.Path(AT, "m.db")
if not os.path.exists(M):
    sqlite3.connect(M).close()
def f(x):
    print("traced")
    c = sqlite3.connect(M)
    c.execute("/* here */ attach database ? as o", (P + ".db",))
    return x * c.execute("select a from o.t").fetchone()[0]
""",
    "exists": """
pathlib.Path(P + ".flag").touch() if value == 3 else None
def f(x):
    print("traced")
    return x * (3.0 if os.path.exists(P + ".flag") else 2.0)
""",
    "size": "write(P + '.size', 'x' * int(value))" + STEP.format("float(os.path.getsize(P + '.size'))"),
    "time": "write(P + '.time', '')\nos.utime(P + '.time', (value, value))"
    + STEP.format("os.path.getmtime(P + '.time')"),
    "realpath": """
for name in "23": pathlib.Path(AT, name).touch()
L = AT + "/link"
if not os.path.islink(L) or os.readlink(L) != str(int(value)):
    if os.path.islink(L): os.remove(L)
    os.symlink(str(int(value)), L)
"""
    + STEP.format("float(os.path.basename(os.path.realpath(L)))"),
    "an inner jit that was traced before": """
@jax.jit
def h(x): return x * read(P)
h(x)
def f(x):
    print("traced")
    return h(x) + 0
""",
    "an inner function of jcache that was traced before": """
@jcache.jit
def h(x): return x * read(P)
h(x)
def f(x):
    print("traced")
    return h(x) + 0
""",
    "a scan that was traced before": """
def body(c, x): return c, x * read(P)
jax.lax.scan(body, 0.0, x)
def f(x):
    print("traced")
    return jax.lax.scan(body, 0.0, x)[1]
""",
    "results that are kept": """
@functools.lru_cache
def load(path): return read(path)
load(P)
"""
    + STEP.format("load(P)"),
    "results of a method that are kept": """
class Config:
    @staticmethod
    @functools.cache
    def load(path): return read(path)
Config.load(P)
"""
    + STEP.format("Config.load(P)"),
    "a variable in results that are kept": """
os.environ["KEPT_RATE"] = str(value)
@functools.cache
def load(): return float(os.environ.get("KEPT_" + "RATE"))
load()
"""
    + STEP.format("load()"),
}
LIBRARIES = {
    "h5py": """
import h5py
def make():
    with h5py.File(P + ".h5", "w") as file: file["x"] = value
unchanged(make)
def f(x):
    print("traced")
    with h5py.File(P + ".h5") as file: return x * float(file["x"][()])
""",
    "h5py, imported late": """
def make():
    import numpy as np, subprocess
    subprocess.run([sys.executable, "-c", f"import h5py; h5py.File({P + '.h5'!r}, 'w')['x'] = {value}"], check=True)
unchanged(make)
def f(x):
    print("traced")
    import h5py
    with h5py.File(P + ".h5") as file: return x * float(file["x"][()])
""",
    "netCDF4": """
import netCDF4
def make():
    with netCDF4.Dataset(P + ".nc", "w") as file:
        file.createDimension("n", 1); file.createVariable("x", "f8", ("n",))[:] = value
unchanged(make)
def f(x):
    print("traced")
    with netCDF4.Dataset(P + ".nc") as file: return x * float(file["x"][0])
""",
    "joblib": """
import joblib
def f(x):
    print("traced")
    return x * joblib.Parallel(n_jobs=2, backend="threading")(joblib.delayed(read)(each) for each in [P, P])[0]
""",
}


def check(program: str, entry: str, root: Path) -> None:
    """Run a program cold, warm and changed."""
    for value, traced in ((2, 1), (2, 0), (3, 1)):
        assert run(HEAD + program + TAIL, root, entry, value).value == [traced, value]


@pytest.mark.parametrize("entry", ["jit", "graph"])
@pytest.mark.parametrize("what", PROGRAMS)
def test_what_is_read_counts_wherever_it_is_read(what: str, entry: str, tmp_path: Path) -> None:
    """A second process is served what the first one stored, and a third one is not after the file has changed."""
    check(PROGRAMS[what], entry, tmp_path / "root")


@pytest.mark.parametrize("entry", ["jit", "graph"])
@pytest.mark.parametrize("what", LIBRARIES)
def test_what_libraries_read_counts(what: str, entry: str, tmp_path: Path) -> None:
    """So it is with files that a library opens in C code, or in threads of its own."""
    pytest.importorskip(what.partition(",")[0])
    check(LIBRARIES[what], entry, tmp_path / "root")


BESIDE = """
import uuid
@jcache.jit
def h(x): return x * os.path.getsize(P + ".size")
h(x)
def f(x):
    print("traced", str(uuid.uuid4())[:0])
    return x * 2.0
"""


def test_a_graph_does_not_depend_on_what_another_function_has_read(tmp_path: Path) -> None:
    """It uses an identifier, so two more starts build it; they find the same, although the other function is served."""
    size, found = tmp_path / "t.txt.size", []
    for text in ("22", "22", "22", "22", "333"):
        if not size.exists() or size.read_text() != text:
            size.write_text(text)
        found.append(run(HEAD + BESIDE + TAIL, tmp_path / "root", "graph", 2).value[0])
    assert found == [1, 1, 1, 0, 0]
