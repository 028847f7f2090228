"""Whatever can be done with `jax.jit`, done with it or with `jcache.jit`; prints what came of it.

python jit_features.py jax|jcache DIRECTORY

Prints JSON: by name what each case gave, its warnings and what it printed; and how often functions were traced and
served.
"""

# ruff: noqa: BLE001, E741 - whatever is raised is what is compared

import collections
import contextlib
import copy
import functools
import inspect
import io
import json
import sys
import threading
import traceback
import warnings
import weakref

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

whose, root = sys.argv[1:]
done = {"_trace": 0, "_stand_in": 0}


def count(cls, name):
    original = getattr(cls, name)

    def counted(*args):
        done[name] += 1
        return original(*args)

    setattr(cls, name, counted)


if whose == "jcache":
    import jcache
    from jcache.traces.resolver import Resolver

    jcache.enable(root, strict=True)
    jit = functools.partial(jcache.jit, check="never")
    for name in done:
        count(Resolver, name)
else:
    jit = jax.jit

CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def show(x):

    def s(l):
        if hasattr(l, "dtype"):
            if jax.dtypes.issubdtype(l.dtype, jax.dtypes.prng_key):
                return ["key", str(l.dtype), np.asarray(jax.random.key_data(l)).tolist()]
            return [
                str(l.dtype),
                list(l.shape),
                bool(getattr(l, "weak_type", False)),
                np.asarray(l, dtype=np.float64 if l.dtype != bool else bool).round(6).tolist()
                if l.size < 20
                else float(np.asarray(l).sum()),
                str(l.sharding) if len(l.sharding.device_set) > 1 else sorted(d.id for d in l.devices()),
            ]
        return repr(l)

    return [str(jax.tree_util.tree_structure(x)), [s(l) for l in jax.tree_util.tree_leaves(x)]]


@case
def debug_print():
    f = jit(lambda x: (jax.debug.print("v {x}", x=x), x * 2)[1])
    a = show((f(jnp.ones(2)), f(jnp.ones(2))))
    jax.effects_barrier()
    return a


@case
def debug_print_ordered():

    def g(x):
        jax.debug.print("a {x}", x=x, ordered=True)
        jax.debug.print("b {x}", x=x + 1, ordered=True)
        return x

    f = jit(g)
    a = show((f(1.0), f(2.0)))
    jax.effects_barrier()
    return a


@case
def pure_callback():
    f = jit(lambda x: jax.pure_callback(lambda v: np.asarray(v) + 1, jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    return show((f(jnp.ones(2)), f(jnp.zeros(2))))


@case
def io_callback():
    from jax.experimental import io_callback as io

    seen = []
    f = jit(lambda x: (io(lambda v: seen.append(float(v)), None, x, ordered=True), x + 1)[1])
    r = (f(1.0), f(2.0))
    jax.effects_barrier()
    return [show(r), seen]


@case
def donate():
    f = jit(lambda s, x: s + x, donate_argnums=0)
    s = jnp.ones(100)
    r = f(s, 1.0)
    d = s.is_deleted()
    try:
        f(s, 1.0)
        e = None
    except Exception as x:
        e = type(x).__name__ + str(x)[:60]
    return [show(r), d, e]


@case
def donate_unusable():
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        f = jit(lambda s: s.sum(), donate_argnums=0)
        r = f(jnp.ones(100))
    return [show(r), [str(x.message)[:90] for x in w]]


@case
def donate_argnames():
    f = jit(lambda s, x: s * x, donate_argnames=("s",))
    s = jnp.ones(8)
    r = f(s=s, x=2.0)
    return [show(r), s.is_deleted()]


@case
def keys():
    f = jit(lambda k: (jax.random.split(k, 2), jax.random.normal(k, (3,)), k))
    return show(f(jax.random.key(3)))


@case
def keys_rbg():
    f = jit(lambda k: jax.random.split(k, 2))
    return show((f(jax.random.key(3, impl="rbg")), f(jax.random.key(4))))


@case
def custom_vjp():

    @jax.custom_vjp
    def h(x):
        return jnp.sin(x)

    h.defvjp(lambda x: (jnp.sin(x), x), lambda r, g: (g * 2 * jnp.cos(r),))
    f = jit(h)
    return show((f(1.0), jax.grad(f)(1.0), jit(jax.grad(h))(1.0)))


@case
def custom_jvp():

    @jax.custom_jvp
    def h(x):
        return x**2

    h.defjvp(lambda p, t: (h(p[0]), 5 * t[0]))
    f = jit(h)
    return show((f(3.0), jax.jvp(f, (3.0,), (1.0,)), jit(lambda x: jax.jvp(h, (x,), (1.0,)))(3.0)))


@case
def nested():
    g = jit(lambda x: x * 2)
    f = jit(lambda x: g(x) + g(x + 1))
    h = jax.jit(lambda x: g(f(x)))
    return show((f(jnp.ones(2)), h(jnp.ones(2)), g(jnp.ones(2))))


@case
def transforms():
    f = jit(lambda x: jnp.sin(x) * x)
    return show(
        (
            jax.vmap(f)(jnp.arange(3.0)),
            jax.grad(f)(1.0),
            jax.jacfwd(f)(1.0),
            jax.hessian(f)(1.0),
            jax.jvp(f, (1.0,), (1.0,)),
            jax.linearize(f, 1.0)[0],
            jax.checkpoint(f)(2.0),
            jax.vmap(jax.grad(f))(jnp.arange(3.0)),
        )
    )


@case
def lax_loops():
    f = jit(lambda x: x * 1.5)
    return show(
        (
            jax.lax.scan(lambda c, _: (f(c), c), 1.0, None, 3),
            jax.lax.fori_loop(0, 3, lambda i, c: f(c), 1.0),
            jax.lax.map(f, jnp.arange(3.0)),
            jax.lax.cond(True, f, lambda x: x, 2.0),
        )
    )


@case
def shard_map():
    mesh = Mesh(np.array(jax.devices()[:4]), ("x",))
    sm = (
        jax.shard_map
        if hasattr(jax, "shard_map")
        else __import__("jax.experimental.shard_map", fromlist=["shard_map"]).shard_map
    )
    f = jit(sm(lambda x: jax.lax.psum(x, "x") * x, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    return show(f(jnp.arange(8.0)))


@case
def sharded():
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))
    a = jax.device_put(jnp.arange(16.0).reshape(4, 4), NamedSharding(mesh, P("x", "y")))
    f = jit(lambda a: a @ a.T)
    g = jit(lambda a: a * 2, out_shardings=NamedSharding(mesh, P("y")))
    h = jit(lambda a: a + 1, in_shardings=NamedSharding(mesh, P("x")), out_shardings=NamedSharding(mesh, P()))
    return show(
        (
            f(a),
            g(jnp.ones((4, 4))),
            h(jnp.ones((4, 4))),
            f(jnp.ones((4, 4))),
            f(jax.device_put(jnp.ones((4, 4)), jax.devices()[2])),
        )
    )


@case
def constraint():
    mesh = Mesh(np.array(jax.devices()[:2]), ("x",))
    f = jit(lambda a: jax.lax.with_sharding_constraint(a * 2, NamedSharding(mesh, P("x"))))
    return show(f(jnp.arange(4.0)))


@case
def mesh_ctx():
    mesh = Mesh(np.array(jax.devices()[:2]), ("x",))
    with mesh:
        f = jit(lambda a: jax.lax.with_sharding_constraint(a * 2, P("x")))
        return show(f(jnp.arange(4.0)))


@case
def set_mesh():
    if not hasattr(jax, "set_mesh"):
        return None
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        a = jax.device_put(jnp.arange(4.0), NamedSharding(mesh, P("x")))
        f = jit(lambda a: a * 2)
        return [show(f(a)), str(jax.typeof(f(a)))]


@case
def aot():
    f = jit(lambda x, n: x * n, static_argnums=1)
    l = f.lower(jnp.ones(3), 2)
    c = l.compile()
    t = f.trace(jnp.ones(3), 2)
    return [
        show(c(jnp.ones(3))),
        str(t.jaxpr),
        str(f.eval_shape(jnp.ones(3), 2)),
        l.as_text()[:60].replace("jcache", ""),
        str(c.in_tree),
    ]


@case
def clear():
    n = [0]

    def g(x):
        n[0] += 0
        return x + 1

    f = jit(g)
    f(1.0)
    jax.clear_caches()
    a = f(1.0)
    f.clear_cache()
    return [show((a, f(1.0), f(jnp.ones(2))))]


@case
def disable():
    f = jit(lambda x: x + 1 if x > 0 else x)
    with jax.disable_jit():
        a = f(jnp.float32(2.0))
    return show(a)


@case
def leaks():
    f = jit(lambda x: x + 1)
    with jax.checking_leaks():
        a = f(1.0)
    box = []
    g = jit(lambda x: (box.append(x), x + 1)[1])
    try:
        with jax.checking_leaks():
            g(2.0)
            e = None
    except Exception as x:
        e = str(x)[:40]
    return [show(a), e]


@case
def guard():
    f = jit(lambda x: x + 1)
    x = jnp.ones(2)
    with jax.transfer_guard("disallow"):
        a = f(x)
        try:
            f(np.ones(2, np.float32))
            e = None
        except Exception as x:
            e = type(x).__name__ + str(x)[:50]
    return [show(a), e]


@case
def x64():
    f = jit(lambda x: x * 2)
    r = [show(f(np.arange(3) / 2))]
    with (
        jax.enable_x64(True)
        if hasattr(jax, "enable_x64") and callable(jax.enable_x64)
        else jax.experimental.enable_x64()
    ):
        r.append(show(f(np.arange(3) / 2)))
    r.append(show(f(np.arange(3) / 2)))
    return r


@case
def precision():
    f = jit(lambda x: x @ x)
    r = [show(f(jnp.ones((2, 2))))]
    with jax.default_matmul_precision("float32"):
        r.append(show(f(jnp.ones((2, 2)))))
    return r


@case
def device_ctx():
    f = jit(lambda x: x + 1)
    with jax.default_device(jax.devices()[1]):
        a = f(1.0)
    return show((a, f(1.0)))


@case
def methods():

    class A:
        k = 3.0

        def __init__(self, v):
            self.v = v

        @functools.partial(jit, static_argnums=0)
        def m(self, x):
            return x * self.v

        @staticmethod
        @jit
        def s(x):
            return x + 1

        @classmethod
        @functools.partial(jit, static_argnums=0)
        def c(cls, x):
            return x * cls.k

        def b(self, x):
            return x + self.v

        def __call__(self, x):
            return x * 10 * self.v

    a = A(2.0)
    f = jit(a.b)
    p = jit(functools.partial(lambda y, x: x * y, 4.0))
    o = jit(a)
    return show((a.m(1.0), A.m(a, 2.0), A.s(1.0), a.s(2.0), A.c(1.0), f(1.0), p(2.0), o(1.0), A(5.0).m(1.0)))


@case
def builtin_fn():
    return show((jit(jnp.sin)(1.0), jit(jax.nn.relu)(-1.0), jit(max)(1, 2) if False else 0))


@case
def statics():
    f = jit(lambda x, n, *, m: x * n * m, static_argnums=(1,), static_argnames=("m",))
    g = jit(lambda x, flag=True: x if flag else -x, static_argnames="flag")
    r = [show((f(1.0, 2, m=3), f(1.0, 3, m=3), g(1.0), g(1.0, flag=False), g(1.0, False)))]
    try:
        f(1.0, [2], m=3)
    except Exception as e:
        r.append(type(e).__name__ + str(e)[:80])
    h = jit(lambda *a: a[0] + a[-1], static_argnums=-1)
    r.append(show(h(1.0, 2.0, 3)))
    return r


@case
def options():
    f = jit(lambda x, y: x * 2, keep_unused=True)
    g = jit(lambda x: x * 2, inline=True)
    r = [show((f(1.0, 2.0), g(2.0), jax.jit(g)(2.0)))]
    k = jit(lambda x: x * 2, compiler_options={"xla_cpu_enable_fast_min_max": True})
    r.append(show(k(1.0)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            h = jit(lambda x: x + 1, device=jax.devices()[1])
            r.append(show(h(1.0)))
    except Exception as e:
        r.append(type(e).__name__)
    return r


@case
def bad_options():
    r = []
    for o in ({"static_argnums": 5}, {"donate_argnums": "a"}, {"nonsense": 1}, {"static_argnames": "zzz"}):
        try:
            with warnings.catch_warnings(record=True) as w:
                warnings.simplefilter("always")
                f = jit(lambda x: x, **o)
                r.append([show(f(1.0)), [str(x.message)[:60] for x in w]])
        except Exception as e:
            r.append(type(e).__name__ + ": " + str(e)[:80].replace("jcache", ""))
    try:
        jit(3)
    except Exception as e:
        r.append(type(e).__name__ + ": " + str(e)[:60])
    return r


@case
def attributes():

    def named(x: int) -> int:
        """doc"""
        return x + 1

    f = jit(named)
    f(1.0)

    return [
        f.__name__,
        f.__doc__,
        f.__qualname__,
        f.__module__,
        f.__wrapped__ is named,
        f._cache_size(),
        str(inspect.signature(f)),
        callable(f),
        hasattr(f, "lower"),
        hasattr(f, "trace"),
        hasattr(f, "nonsense"),
        f.__annotations__ == {"x": int, "return": int} or str(f.__annotations__),
    ]


@case
def hashing():
    f = jit(lambda x: x)

    return [isinstance(hash(f), int), f == f, {f: 1}[f], weakref.ref(f)() is f, bool(f)]


def top(x):
    return x + 1


topj = jit(top)


@case
def pickling():
    try:
        import cloudpickle

        g = cloudpickle.loads(cloudpickle.dumps(topj))
        return ["ok", g is topj, show(g(2.0))]
    except Exception as e:
        return [type(e).__name__]


@case
def copying():

    try:
        return [show(copy.copy(topj)(1.0)), show(copy.deepcopy(topj)(1.0))]
    except Exception as e:
        return [type(e).__name__, str(e)[:80]]


@case
def threads():
    f = jit(lambda x: jnp.sin(x) @ x)
    out = [None] * 8

    def go(i):
        out[i] = float(f(jnp.ones((i % 3 + 2, i % 3 + 2))).sum())

    ts = [threading.Thread(target=go, args=(i,)) for i in range(8)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    return [round(o, 4) for o in out]


@case
def errors_user():

    class Mine(Exception):
        pass

    def g(x):
        raise Mine("of mine")

    f = jit(g)
    try:
        f(1.0)
    except Mine as e:
        tb = traceback.extract_tb(e.__traceback__)
        return [
            str(e),
            [t.name for t in tb if "jcache" not in t.filename and "sweep" in t.filename],
            len([t for t in tb if "/jcache/" in t.filename]) <= 1,
            e.__cause__ is None or type(e.__cause__).__name__,
            e.__context__ is None,
            len(traceback.format_exc()) < 2500,
        ]


@case
def errors_tracer():
    f = jit(lambda x: x + 1 if x > 0 else x)
    r = []
    for _ in range(2):
        try:
            f(1.0)
        except Exception as e:
            r.append([type(e).__name__, str(e).replace("jcache", "")[:160]])
    return r


@case
def errors_args():
    f = jit(lambda x, y: x + y)
    r = []
    for a, k in (
        ((1.0,), {}),
        ((1.0, 2.0, 3.0), {}),
        (("s", 1.0), {}),
        ((1.0,), {"z": 1}),
        ((object(), 1.0), {}),
        ((jnp.ones(2), jnp.ones(3)), {}),
    ):
        try:
            f(*a, **k)
        except Exception as e:
            r.append([type(e).__name__, str(e).split("\n")[0].split(" at 0x")[0][:110]])
    return r


@case
def async_error():

    def boom(v):
        raise ValueError("in callback")

    f = jit(lambda x: jax.pure_callback(boom, jax.ShapeDtypeStruct((), jnp.float32), x))
    try:
        jax.block_until_ready(f(1.0))
        return None
    except Exception as e:
        return [type(e).__name__, "in callback" in str(e)]


@case
def trees():

    NT = collections.namedtuple("NT", "a b")
    f = jit(lambda t: {"x": NT(t["l"][0], None), "y": (t["l"][1], [t["o"]])})
    return show(f({"l": [1.0, jnp.ones(2)], "o": collections.OrderedDict(b=1, a=2.0)}))


@case
def none_out():
    return show(
        (
            jit(lambda x: None)(1.0),
            jit(lambda: 3)(),
            jit(lambda x: x)(5),
            jit(lambda x: (x, x))(jnp.ones(2)),
            jit(lambda x: {})(1.0),
            jit(lambda x: np.arange(3))(1.0),
            jit(lambda x: 2.5)(1.0),
        )
    )


@case
def zero_size():
    return show((jit(lambda x: x * 2)(jnp.ones((0, 3))), jit(lambda x: x.sum())(jnp.ones((0,)))))


@case
def dtypes():
    return show(
        [
            jit(lambda x: x + x)(jnp.ones(2, d))
            for d in ("bool", "int8", "uint32", "float16", "bfloat16", "complex64", "float8_e4m3fn", "int4")
        ]
    )


@case
def py_scalars():
    f = jit(lambda x: x * 2)
    return show((f(1), f(True), f(1.5), f(2j), f(np.float32(1)), f(np.int64(3)), f(np.bool_(True))))


@case
def consts():
    big = jnp.arange(5000.0)
    f = jit(lambda x: (big * x).sum() + np.arange(3.0).sum())
    return show(f(2.0))


@case
def lin():
    a = jnp.eye(4) * 2 + 1
    f = jit(
        lambda a: (
            jnp.linalg.inv(a),
            jnp.linalg.eigh(a)[0],
            jnp.linalg.svd(a)[1],
            jnp.linalg.qr(a)[1],
            jax.scipy.linalg.cholesky(a),
        )
    )
    return show(f(a))


@case
def fftsort():
    return show(
        (
            jit(lambda x: jnp.abs(jnp.fft.fft(x)))(jnp.arange(4.0)),
            jit(jnp.sort)(jnp.array([3.0, 1.0, 2.0])),
            jit(jnp.median)(jnp.array([3.0, 1.0, 2.0])),
            jit(lambda x: jax.lax.top_k(x, 2))(jnp.array([3.0, 1.0, 2.0])),
        )
    )


@case
def while_grad():
    f = jit(lambda x: jax.lax.while_loop(lambda c: c < 10, lambda c: c * 2, x))
    return show((f(1.0), jax.jvp(f, (1.0,), (1.0,))))


@case
def closure_array_mut():
    k = {"v": 2.0}
    f = jit(lambda x: x * k["v"])
    a = f(1.0)
    k["v"] = 3.0
    return show((a, f(1.0), f(jnp.ones(2))))


@case
def eager_consts():

    def g(x):
        return x + jnp.ones(3) * jax.random.normal(jax.random.PRNGKey(0), (3,))

    return show(jit(g)(1.0))


@case
def named_scope_etc():

    @jax.named_call
    def h(x):
        return x * 2

    def g(x):
        with jax.named_scope("a"):
            return h(x)

    return show(jit(g)(1.0))


@case
def ensure_ct():

    def g(x):
        with jax.ensure_compile_time_eval():
            c = jnp.arange(3).sum()
        return x * int(c)

    return show(jit(g)(1.0))


@case
def pmap_like():
    f = jit(lambda x: x * 2)
    return np.asarray(jax.pmap(f)(jnp.arange(4.0))).tolist()


@case
def export():
    from jax import export as ex

    try:
        e = ex.export(jit(lambda x: x * 2))(jax.ShapeDtypeStruct((3,), jnp.float32))
        return show(e.call(jnp.ones(3)))
    except Exception as x:
        return [type(x).__name__, str(x)[:100]]


@case
def refs():
    if not hasattr(jax, "new_ref"):
        return None

    def g(x):
        r = jax.new_ref(x)
        r[...] = r[...] * 2
        return jax.freeze(r) if hasattr(jax, "freeze") else r[...]

    return show(jit(g)(jnp.ones(2)))


@case
def ref_args():
    if not hasattr(jax, "new_ref"):
        return None
    r = jax.new_ref(jnp.ones(2))

    def g(r):
        r[...] = r[...] * 3

    jit(g)(r)
    return show(r[...])


@case
def jit_of_jit():
    f = jit(jit(lambda x: x + 1))
    g = jit(jax.jit(lambda x: x + 2))
    h = jax.jit(jit(lambda x: x + 3))
    return show((f(1.0), g(1.0), h(1.0)))


@case
def lambda_two():
    a, b = (jit(lambda x: x + 1), jit(lambda x: x - 1))
    return show((a(1.0), b(1.0)))


@case
def dec_args():

    @jit
    def f(x):
        return x * 2

    @functools.partial(jit, static_argnames=["n"])
    def g(x, n):
        return x * n

    return show((f(1.0), g(1.0, n=3), g(1.0, 4)))


@case
def defaults():

    def g(x, y=2.0, *, z=3.0):
        return x + y + z

    f = jit(g)
    return show((f(1.0), f(1.0, z=1.0), f(x=1.0)))


@case
def device_put_alias():
    f = jit(lambda x: x)
    x = jnp.ones(3)
    y = f(x)
    return [show(y), y is x, y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()]


@case
def committed():
    f = jit(lambda x: x + 1)
    a = f(jnp.ones(2))
    b = f(jax.device_put(jnp.ones(2), jax.devices()[1]))
    return [a._committed, b._committed, show((a, b))]


@case
def old_options():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        value = jit(lambda x: x + 5, backend="cpu")(1.0)
    return [show(value), [(str(each.message)[:60], each.filename == __file__) for each in told]]


@case
def np_in_out():
    f = jit(lambda t: t)
    return show(f((np.ones(2, np.float32), 1, np.float64(2.0))))


@case
def deleted_argument():
    x = jnp.ones(3)
    jit(lambda x: x + 11, donate_argnums=0)(x)
    return [x.is_deleted(), show(jit(lambda x: x + 11)(x))]


@case
def reprs():
    class Named:
        def __call__(self, x):
            return x + 1

        def __repr__(self):
            return "by its own name"

    class Raising(Named):
        def __repr__(self):
            raise ValueError("no repr")

    f, g = jit(Named()), jit(Raising())
    before = repr(f), show(g(1.0))
    del f.__wrapped__
    try:
        return [before, repr(f), repr(g)]
    except ValueError as error:
        return [before, repr(f), str(error)]


@case
def of_none():
    return str(jit(None))


@case
def without_a_function():
    return show(jit()(lambda x: x + 1)(1.0))


@case
def in_the_place_of_jax_jit():
    before, jax.jit = jax.jit, jit
    try:
        return [show(jax.jit(lambda x: x * 13)(2.0)), show(jax.jit(static_argnums=1)(lambda x, n: x * n)(2.0, 3))]
    finally:
        jax.jit = before


def main():
    said = {}
    for name, case in CASES.items():
        printed = io.StringIO()
        with (
            warnings.catch_warnings(record=True) as heard,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("always")
            try:
                value = case()
            except Exception as error:
                value = ["raised", type(error).__name__, str(error)[:300]]
        said[name] = [
            value,
            sorted({str(each.message)[:100].replace("jcache", "") for each in heard}),
            printed.getvalue(),
        ]
    print(json.dumps([said, done]))


main()
