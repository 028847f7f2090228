"""Programs that use an argument in another way than by constant names of its fields: two values, and two results."""

FROZEN = """
from dataclasses import dataclass
@dataclass(frozen=True)
class C:
    a: int = 1
    b: int = 2
"""
MUTABLE = FROZEN.replace("(frozen=True)", "")
TWO = "A, B = (C(b=2),), (C(b=7),)\n"
DICTS = "A, B = ({'a': 1, 'b': 2},), ({'a': 1, 'b': 7},)\n"

PROGRAMS = {
    "wraps star": FROZEN
    + """
def deco(fn):
    def w(*a): return fn(*a)
    return w
@deco
def h(c): return str(c)
def f(c): return h(c)
"""
    + TWO,
    "local function": FROZEN
    + """
def f(c):
    def h(x): return str(x)
    return h(c)
"""
    + TWO,
    "lambda": FROZEN
    + """
def f(c): return (lambda x: [x])(c)
"""
    + TWO,
    "local import": FROZEN
    + """
def f(c):
    from pprint import pformat
    return pformat(c)
"""
    + TWO,
    "function argument": FROZEN
    + """
def h(x): return x == C()
def apply(fn, c): return fn(c)
def f(c): return apply(h, c)
"""
    + TWO,
    "table": FROZEN
    + """
def h(x): return str(x)
T = {'h': h}
def f(c): return T['h'](c)
"""
    + TWO,
    "class keeps": FROZEN
    + """
class Model:
    def __init__(self, cfg): self.cfg = cfg
def f(c): return Model(c)
"""
    + TWO,
    "class shows": FROZEN
    + """
class Model:
    def __init__(self, cfg): self.t = str(cfg)
def f(c): return Model(c).t
"""
    + TWO,
    "namedtuple state": FROZEN
    + """
from typing import NamedTuple
class State(NamedTuple):
    cfg: object
def f(c): return State(c)
"""
    + TWO,
    "holder compared": FROZEN
    + """
@dataclass
class Box:
    c: object
def f(c): return Box(c) == Box(C())
"""
    + TWO,
    "static by class": FROZEN
    + """
class S:
    @staticmethod
    def g(x): return str(x)
def f(c): return S.g(c)
"""
    + TWO,
    "method alias": FROZEN
    + """
class S:
    def g(self, x): return str(x)
    h = g
def f(c): return S().h(c)
"""
    + TWO,
    "callable object": FROZEN
    + """
class S:
    def __call__(self, x): return str(x)
def f(c): return S()(c)
"""
    + TWO,
    "star args": FROZEN
    + """
def h(*a): return str(a)
def f(c): return h(c)
"""
    + TWO,
    "partial called": FROZEN
    + """
from functools import partial
def h(y, x): return str(x)
def f(c): return partial(h, 1)(c)
"""
    + TWO,
    "exception": FROZEN
    + """
class Bad(Exception): pass
def f(c):
    try: raise Bad(c)
    except Bad as e: return str(e)
"""
    + TWO,
    "queue": FROZEN
    + """
import queue
def f(c):
    q = queue.Queue(); q.put(c)
    return str(q.get())
"""
    + TWO,
    "executor": FROZEN
    + """
from concurrent.futures import ThreadPoolExecutor
def h(x): return str(x)
def f(c):
    with ThreadPoolExecutor(1) as p: return p.submit(h, c).result()
"""
    + TWO,
    "pickler": FROZEN
    + """
import io, pickle
def f(c):
    b = io.BytesIO(); pickle.Pickler(b).dump(c)
    return b.getvalue()
"""
    + TWO,
    "getattr alias": FROZEN
    + """
ga = getattr
NAME = 'b'
def f(c): return ga(c, NAME)
"""
    + TWO,
    "conditional in transform": FROZEN
    + """
import jax
def h(x): return x.a
def k(x): return str(x)
def f(c): return jax.named_call(k if len('ab') == 2 else h)(c)
"""
    + TWO,
    "jit static compares": FROZEN
    + """
import jax
from functools import partial
DEFAULT = C()
@partial(jax.jit, static_argnames='cfg')
def step(x, cfg): return x * 2 if cfg == DEFAULT else x
def f(c): return step(1., cfg=c)
"""
    + TWO,
    "tree leaves": FROZEN
    + """
import jax
def f(c): return jax.tree.leaves(c)
"""
    + TWO,
    "decorated method": """
import functools
def memo(fn):
    @functools.wraps(fn)
    def w(self, cfg): return str(cfg), fn(self, cfg)
    return w
class M:
    @memo
    def build(self, cfg): return cfg['a']
def f(c): return M().build(c)
"""
    + DICTS,
    "self named this": """
class S:
    def g(this, x): return str(x)
def f(c): return S().g(c), c['a']
"""
    + DICTS,
    "classmethod klass": """
class S:
    @classmethod
    def g(klass, x): return str(x)
def f(c): return S().g(c), c['a']
"""
    + DICTS,
    "static self": """
class S:
    @staticmethod
    def g(self, x=0): return str(self)
def f(c): return S().g(c), c['a']
"""
    + DICTS,
    "library same name": """
import queue
class T:
    def put(self, x): return 0
def f(c):
    T().put(c)
    q = queue.Queue(); q.put(c)
    return str(q.get()), c['a']
"""
    + DICTS,
    "lambda same name": """
class T:
    def g(self, x): return 0
class S:
    def __init__(self): self.g = lambda x: str(x)
def f(c): return T().g(c), S().g(c), c['a']
"""
    + DICTS,
    "partialmethod same name": """
import functools
class T:
    def g(self, x): return 0
class S:
    g = functools.partialmethod(lambda self, x: str(x))
def f(c): return T().g(c), S().g(c), c['a']
"""
    + DICTS,
    "own partial": """
def partial(fn, x): return str(x)
def h(x): return 0
def f(c): return partial(h, c), c['a']
"""
    + DICTS,
    "own jax": """
class jax:
    @staticmethod
    def grad(fn): return str
def h(x): return 0
def f(c): return jax.grad(h)(c), c['a']
"""
    + DICTS,
    "recursion dict": """
def total(d):
    return d['w'] + (total(d['sub']) if d['sub'].get('on') else 0)
def f(d): return total(d)
A, B = [({'w': 1, 'sub': {'on': 1, 'w': w, 'sub': {}}},) for w in (2, 7)]
""",
    "field returned": FROZEN
    + """
class L:
    def __init__(self, w): self.w = w
@dataclass(frozen=True)
class W:
    layer: object
    name: str = 'n'
def f(c): return c.layer
A, B = (W(L(2)),), (W(L(7)),)
""",
    "dict item returned": """
class L:
    def __init__(self, w): self.w = w
def f(d): return d['layer']
A, B = ({'layer': L(2), 'z': 1},), ({'layer': L(7), 'z': 1},)
""",
    "list compared": """
from dataclasses import dataclass
@dataclass
class L:
    w: int
@dataclass(frozen=True)
class W:
    layers: object
    name: str = 'n'
def f(c): return c.layers == [L(2)]
A, B = (W([L(2)]),), (W([L(7)]),)
""",
    "list item shown": """
from dataclasses import dataclass
@dataclass
class L:
    w: int
def f(d): return [str(e) for e in d['layers']]
A, B = ({'layers': [L(2)], 'z': 1},), ({'layers': [L(7)], 'z': 1},)
""",
    "plain holder list shown": """
from dataclasses import dataclass
@dataclass
class L:
    w: int
class W:
    def __init__(self, l): self.layers = l
def f(c): return str(c.layers)
A, B = (W([L(2)]),), (W([L(7)]),)
""",
    "field into list of plain holder": """
class L:
    def __init__(self, w): self.w = w
class W:
    def __init__(self, l): self.layer = l
def f(c): return [c.layer]
A, B = (W(L(2)),), (W(L(7)),)
""",
    "method shows self": MUTABLE
    + """
    def summary(self): return f'{self}'
def f(c): return c.summary()
"""
    + TWO,
    "method compares self": MUTABLE
    + """
    def is_default(self): return self == C()
def f(c): return c.is_default()
"""
    + TWO,
    "method returns self": """
class E:
    def __init__(self, a, b): self.a = a; self.b = b
    def fit(self): return self
def f(e): return e.fit()
A, B = (E(1, 2),), (E(1, 7),)
""",
    "property returns self": MUTABLE
    + """
    @property
    def me(self): return self
def f(c): return str(c.me)
"""
    + TWO,
    "descriptor": """
class Shown:
    def __get__(self, o, t=None): return str(o)
from dataclasses import dataclass
@dataclass
class C:
    a: int = 1
    b: int = 2
    shown = Shown()
def f(c): return c.shown
"""
    + TWO,
    "subclass of frozen": FROZEN
    + """
class D(C):
    def me(self): return self
def f(c): return str(c.me())
A, B = (D(b=2),), (D(b=7),)
""",
    "bound frozen wrapped": FROZEN
    + """
    def m(self): return w(self)
def w(*a): return str(a[0])
def f(self): return self.m()
f = C.m
"""
    + TWO,
    "method self": FROZEN
    + """
    def m(self): return self.a
def f(c): return str(c.m.__self__)
"""
    + TWO,
    "getargvalues": """
import inspect
def g(): return str(inspect.getargvalues(inspect.currentframe().f_back).locals['c'])
def f(c): return g(), c['a']
"""
    + DICTS,
    "error obj dataclass": MUTABLE
    + """
def f(c):
    try: c.zzz
    except AttributeError as e: return str(e.obj)
"""
    + TWO,
    "pydantic extra": """
from pydantic import BaseModel
class C(BaseModel, extra='allow'):
    a: int = 1
class Model:
    def __init__(self, cfg): self.w = cfg.width
def f(c): return Model(c).w
A, B = (C(width=2),), (C(width=7),)
""",
    "pydantic private": """
from pydantic import BaseModel, PrivateAttr
class C(BaseModel):
    a: int = 1
    _s: int = PrivateAttr(0)
    def with_s(self, s): self._s = s; return self
class Model:
    def __init__(self, cfg): self.w = cfg._s
def f(c): return Model(c).w
A, B = (C().with_s(2),), (C().with_s(7),)
""",
    "pydantic dict": """
from pydantic import BaseModel
class C(BaseModel):
    a: int = 1
    b: int = 2
class Model:
    def __init__(self, cfg): self.w = dict(cfg)
def f(c): return Model(c).w
"""
    + TWO,
    "dunder eq nested": FROZEN
    + """
@dataclass(frozen=True)
class W:
    n: object
def f(c): return c.n['u'], c.__eq__(W({'u': 1, 'v': 2}))
A, B = (W({'u': 1, 'v': 2}),), (W({'u': 1, 'v': 7}),)
""",
    "conditional callee": """
def h(x, y): return y['a']
def k(x, y): return str(y)
def f(c): return (k if len('ab') == 2 else h)(0, c)
"""
    + DICTS,
    "or callee": """
def h(x): return x['a']
def f(c): return (str or h)(c)
"""
    + DICTS,
    "print raises": FROZEN
    + """
def f(c):
    try: print(1 / (c.b - 2))
    except ZeroDivisionError: return 0
    return c.a
"""
    + TWO,
    "print raises of a dict": """
def f(c):
    try: print(c['q'])
    except KeyError: return 0
    return c['a']
A, B = ({'a': 1},), ({'a': 1, 'q': 2},)
""",
}
