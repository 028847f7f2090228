"""The walk over all that a result depends on: what changes the fingerprint, and what does not, one case each."""

# ruff: noqa: E501 - each case is two short programs

import functools
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from jcache.fingerprint import Fingerprint, digest_of, fingerprint
from jcache.fingerprint.walk import Walk
from tests.helpers.fingerprints import Sources, imported, of

PACKAGE = {
    "model.py": "from near import middle\ndef build(): return middle()",
    "near.py": "import far.away\ndef middle(): return far.away.rate(2)",
    "far/__init__.py": "",
    "far/away.py": "SCALE = 1\ndef rate(x): return x * SCALE",
}

DIFFERENT: dict[str, tuple[Sources, Sources]] = {
    "the body": ("def build(): return 1", "def build(): return 2"),
    "a module global": ("N = 1\ndef build(): return N", "N = 10\ndef build(): return N"),
    "a helper": (
        "def rate(x): return x\ndef build(): return rate(1)",
        "def rate(x): return -x\ndef build(): return rate(1)",
    ),
    "a helper two modules away": (PACKAGE, PACKAGE | {"far/away.py": "SCALE = 1\ndef rate(x): return x + SCALE"}),
    "a global two modules away": (PACKAGE, PACKAGE | {"far/away.py": "SCALE = 2\ndef rate(x): return x * SCALE"}),
    "a closure": (
        "def make(n):\n  def build(): return n\n  return build\nbuild = make(1)",
        "def make(n):\n  def build(): return n\n  return build\nbuild = make(5)",
    ),
    "a closure two levels up": (
        "def a(n):\n  def b():\n    def build(): return n\n    return build\n  return b()\nbuild = a(1)",
        "def a(n):\n  def b():\n    def build(): return n\n    return build\n  return b()\nbuild = a(2)",
    ),
    "a helper in a closure": (
        "def make(f):\n  def build(): return f(1)\n  return build\ndef h(x): return x\nbuild = make(h)",
        "def make(f):\n  def build(): return f(1)\n  return build\ndef h(x): return x + 1\nbuild = make(h)",
    ),
    "a nonlocal": (
        "def make():\n  n = 1\n  def build():\n    nonlocal n\n    n += 1\n    return n\n  return build\nbuild = make()",
        "def make():\n  n = 2\n  def build():\n    nonlocal n\n    n += 1\n    return n\n  return build\nbuild = make()",
    ),
    "a default": ("def build(n=1): return n", "def build(n=2): return n"),
    "a keyword default": ("def build(*, n=1): return n", "def build(*, n=2): return n"),
    "a default of a helper": (
        "def h(n=1): return n\ndef build(): return h()",
        "def h(n=2): return n\ndef build(): return h()",
    ),
    "a mutable default that has grown": (
        "def build(seen=[]): return len(seen)",
        "def build(seen=[]): return len(seen)\nbuild.__defaults__[0].append(1)",
    ),
    "a lambda on a line of two": (
        "build, other = (lambda x=1: x + 1), (lambda x=1: x + 2)",
        "other, build = (lambda x=1: x + 1), (lambda x=1: x + 2)",
    ),
    "an element of a large array": (
        "import numpy as np\nA = np.zeros(5000)\ndef build(): return A.sum()",
        "import numpy as np\nA = np.zeros(5000)\nA[2500] = 1e-10\ndef build(): return A.sum()",
    ),
    "an attribute of a captured object": (
        "class C: pass\nc = C()\nc.n = 1\ndef build(): return c.n",
        "class C: pass\nc = C()\nc.n = 2\ndef build(): return c.n",
    ),
    "a slot of a captured object": (
        "class C:\n  __slots__ = ('n',)\nc = C()\nc.n = 1\ndef build(): return c.n",
        "class C:\n  __slots__ = ('n',)\nc = C()\nc.n = 2\ndef build(): return c.n",
    ),
    "a class attribute": (
        "class C: n = 1\ndef build(): return C.n",
        "class C: n = 2\ndef build(): return C.n",
    ),
    "a class attribute of a base": (
        "class B: n = 1\nclass C(B): pass\ndef build(): return C().n",
        "class B: n = 2\nclass C(B): pass\ndef build(): return C().n",
    ),
    "a class attribute set later": (
        "class C: n = 1\ndef build(): return C.n",
        "class C: n = 1\nC.n = 2\ndef build(): return C.n",
    ),
    "a method": (
        "class C:\n  def f(self): return 1\ndef build(): return C().f()",
        "class C:\n  def f(self): return 2\ndef build(): return C().f()",
    ),
    "a method of a captured object": (
        "class C:\n  def f(self): return 1\nc = C()\ndef build(): return c.f()",
        "class C:\n  def f(self): return 2\nc = C()\ndef build(): return c.f()",
    ),
    "a method that is replaced": (
        "class C:\n  def f(self): return 1\ndef build(): return C().f()",
        "class C:\n  def f(self): return 1\nC.f = lambda self: 2\ndef build(): return C().f()",
    ),
    "a method that a method calls": (
        "class C:\n  def f(self): return self.g()\n  def g(self): return 1\ndef build(): return C().f()",
        "class C:\n  def f(self): return self.g()\n  def g(self): return 2\ndef build(): return C().f()",
    ),
    "a helper that a method calls": (
        "def h(): return 1\nclass C:\n  def f(self): return h()\ndef build(): return C().f()",
        "def h(): return 2\nclass C:\n  def f(self): return h()\ndef build(): return C().f()",
    ),
    "an override in a subclass": (
        "class B:\n  def f(self): return 1\nclass C(B): pass\ndef build(): return C().f()",
        "class B:\n  def f(self): return 1\nclass C(B):\n  def f(self): return 2\ndef build(): return C().f()",
    ),
    "what super() leads to": (
        "class B:\n  def f(self): return 1\nclass C(B):\n  def f(self): return super().f()\ndef build(): return C().f()",
        "class B:\n  def f(self): return 2\nclass C(B):\n  def f(self): return super().f()\ndef build(): return C().f()",
    ),
    "the order of bases": (
        "class A: n = 1\nclass B: n = 2\nclass C(A, B): pass\ndef build(): return C.n",
        "class A: n = 1\nclass B: n = 2\nclass C(B, A): pass\ndef build(): return C.n",
    ),
    "a metaclass": (
        "class M(type):\n  def __len__(cls): return 1\nclass C(metaclass=M): pass\ndef build(): return len(C)",
        "class M(type):\n  def __len__(cls): return 2\nclass C(metaclass=M): pass\ndef build(): return len(C)",
    ),
    "a descriptor": (
        "class D:\n  def __get__(s, o, t): return 1\nclass C: n = D()\ndef build(): return C().n",
        "class D:\n  def __get__(s, o, t): return 2\nclass C: n = D()\ndef build(): return C().n",
    ),
    "the state of a descriptor": (
        "class D:\n  def __init__(s, n): s.n = n\n  def __get__(s, o, t): return s.n\n"
        "class C: n = D(1)\ndef build(): return C().n",
        "class D:\n  def __init__(s, n): s.n = n\n  def __get__(s, o, t): return s.n\n"
        "class C: n = D(2)\ndef build(): return C().n",
    ),
    "a property": (
        "class C:\n  @property\n  def n(self): return 1\ndef build(): return C().n",
        "class C:\n  @property\n  def n(self): return 2\ndef build(): return C().n",
    ),
    "the setter of a property": (
        "class C:\n  @property\n  def n(s): return s.m\n  @n.setter\n  def n(s, v): s.m = v\ndef build(): return C()",
        "class C:\n  @property\n  def n(s): return s.m\n  @n.setter\n  def n(s, v): s.m = -v\ndef build(): return C()",
    ),
    "a class method": (
        "class C:\n  @classmethod\n  def f(cls): return 1\ndef build(): return C.f()",
        "class C:\n  @classmethod\n  def f(cls): return 2\ndef build(): return C.f()",
    ),
    "a static method": (
        "class C:\n  @staticmethod\n  def f(): return 1\ndef build(): return C.f()",
        "class C:\n  @staticmethod\n  def f(): return 2\ndef build(): return C.f()",
    ),
    "a cached property": (
        "import functools\nclass C:\n  @functools.cached_property\n  def n(self): return 1\ndef build(): return C().n",
        "import functools\nclass C:\n  @functools.cached_property\n  def n(self): return 2\ndef build(): return C().n",
    ),
    "what __getattr__ of an object gives": (
        "class C:\n  def __getattr__(self, name): return 1\nc = C()\ndef build(): return c.n",
        "class C:\n  def __getattr__(self, name): return 2\nc = C()\ndef build(): return c.n",
    ),
    "what __getattr__ of a module gives": (
        {"model.py": "import lazy\ndef build(): return lazy.n", "lazy.py": "def __getattr__(name): return 1"},
        {"model.py": "import lazy\ndef build(): return lazy.n", "lazy.py": "def __getattr__(name): return 2"},
    ),
    "a star import": (
        {"model.py": "from names import *\ndef build(): return n", "names.py": "n = 1"},
        {"model.py": "from names import *\ndef build(): return n", "names.py": "n = 2"},
    ),
    "a re-export": (
        {"model.py": "import a\ndef build(): return a.f()", "a.py": "from b import f", "b.py": "def f(): return 1"},
        {"model.py": "import a\ndef build(): return a.f()", "a.py": "from b import f", "b.py": "def f(): return 2"},
    ),
    "what a name stands for": (
        "def a(): return 1\ndef b(): return 2\nf, g = a, b\ndef build(): return f() - g()",
        "def a(): return 1\ndef b(): return 2\nf, g = b, a\ndef build(): return f() - g()",
    ),
    "what a conditional import finds": (
        {"model.py": "try:\n  from fast import f\nexcept ImportError:\n  def f(): return 1\ndef build(): return f()"},
        {
            "model.py": "try:\n  from fast import f\nexcept ImportError:\n  def f(): return 1\ndef build(): return f()",
            "fast.py": "def f(): return 2",
        },
    ),
    "a module that a function imports": (
        {"model.py": "def build():\n  import side\n  return side.n", "side.py": "n = 1"},
        {"model.py": "def build():\n  import side\n  return side.n", "side.py": "n = 2"},
    ),
    "a name that a function imports": (
        {"model.py": "def build():\n  from side import f as g\n  return g()", "side.py": "def f(): return 1"},
        {"model.py": "def build():\n  from side import f as g\n  return g()", "side.py": "def f(): return 2"},
    ),
    "a module that a function imports and a lambda uses": (
        {"model.py": "def build():\n  import side as s\n  return (lambda: s.f())()", "side.py": "def f(): return 1"},
        {"model.py": "def build():\n  import side as s\n  return (lambda: s.f())()", "side.py": "def f(): return 2"},
    ),
    "a submodule that a function imports": (
        {"model.py": "def build():\n  import p.q\n  return p.q.n", "p/__init__.py": "", "p/q.py": "n = 1"},
        {"model.py": "def build():\n  import p.q\n  return p.q.n", "p/__init__.py": "", "p/q.py": "n = 2"},
    ),
    "a submodule under another name": (
        {"model.py": "def build():\n  import p.q as r\n  return r.n", "p/__init__.py": "", "p/q.py": "n = 1"},
        {"model.py": "def build():\n  import p.q as r\n  return r.n", "p/__init__.py": "", "p/q.py": "n = 2"},
    ),
    "a module whose attribute is computed": (
        {"model.py": "import s\ndef build(): return getattr(s, 'n' + '1')", "s.py": "n1 = 1"},
        {"model.py": "import s\ndef build(): return getattr(s, 'n' + '1')", "s.py": "n1 = 2"},
    ),
    "globals()": (
        "n = 1\ndef build(): return globals()['n']",
        "n = 2\ndef build(): return globals()['n']",
    ),
    "eval": ("n = 1\ndef build(): return eval('n')", "n = 2\ndef build(): return eval('n')"),
    "a global that another function sets": (
        "n = 0\ndef set_it():\n  global n\n  n = 1\nset_it()\ndef build(): return n",
        "n = 0\ndef set_it():\n  global n\n  n = 2\nset_it()\ndef build(): return n",
    ),
    "a builtin that is shadowed": (
        "def build(): return max(1, 2)",
        "max = min\ndef build(): return max(1, 2)",
    ),
    "a dispatch table": (
        "def f(): return 1\nTABLE = {'f': f}\ndef build(): return TABLE['f']()",
        "def f(): return 2\nTABLE = {'f': f}\ndef build(): return TABLE['f']()",
    ),
    "a function in a list": (
        "def f(): return 1\nSTEPS = [f]\ndef build(): return [s() for s in STEPS]",
        "def f(): return 2\nSTEPS = [f]\ndef build(): return [s() for s in STEPS]",
    ),
    "a function in an object": (
        "def f(): return 1\nclass C: pass\nc = C()\nc.f = f\ndef build(): return c.f()",
        "def f(): return 2\nclass C: pass\nc = C()\nc.f = f\ndef build(): return c.f()",
    ),
    "an attribute of a function": (
        "def f(): return f.n\nf.n = 1\ndef build(): return f()",
        "def f(): return f.n\nf.n = 2\ndef build(): return f()",
    ),
    "what functools.wraps hides": (
        "import functools\ndef deco(f):\n  @functools.wraps(f)\n  def w(*a): return f(*a)\n  return w\n"
        "@deco\n@deco\ndef build(): return 1",
        "import functools\ndef deco(f):\n  @functools.wraps(f)\n  def w(*a): return f(*a)\n  return w\n"
        "@deco\n@deco\ndef build(): return 2",
    ),
    "a decorator": (
        "import functools\ndef deco(f):\n  @functools.wraps(f)\n  def w(*a): return f(*a)\n  return w\n"
        "@deco\ndef build(): return 1",
        "import functools\ndef deco(f):\n  @functools.wraps(f)\n  def w(*a): return -f(*a)\n  return w\n"
        "@deco\ndef build(): return 1",
    ),
    "an argument of a decorator": (
        "def times(n):\n  def deco(f):\n    def w(*a): return n * f(*a)\n    return w\n  return deco\n"
        "@times(2)\ndef build(): return 1",
        "def times(n):\n  def deco(f):\n    def w(*a): return n * f(*a)\n    return w\n  return deco\n"
        "@times(3)\ndef build(): return 1",
    ),
    "functools.partial": (
        "import functools\ndef f(a, b): return a\nbuild = functools.partial(f, 1, b=2)",
        "import functools\ndef f(a, b): return a\nbuild = functools.partial(f, 1, b=3)",
    ),
    "functools.lru_cache": (
        "import functools\n@functools.lru_cache\ndef f(): return 1\ndef build(): return f()",
        "import functools\n@functools.lru_cache\ndef f(): return 2\ndef build(): return f()",
    ),
    "contextlib.contextmanager": (
        "import contextlib\n@contextlib.contextmanager\ndef f(): yield 1\ndef build():\n  with f() as n: return n",
        "import contextlib\n@contextlib.contextmanager\ndef f(): yield 2\ndef build():\n  with f() as n: return n",
    ),
    "a later registration with singledispatch": (
        "import functools\n@functools.singledispatch\ndef f(x): return 0\n"
        "@f.register\ndef _(x: int): return 1\ndef build(): return f(1)",
        "import functools\n@functools.singledispatch\ndef f(x): return 0\n"
        "@f.register\ndef _(x: int): return 2\ndef build(): return f(1)",
    ),
    "a registration with singledispatchmethod": (
        "import functools\nclass C:\n  @functools.singledispatchmethod\n  def f(self, x): return 0\n"
        "  @f.register\n  def _(self, x: int): return 1\ndef build(): return C().f(1)",
        "import functools\nclass C:\n  @functools.singledispatchmethod\n  def f(self, x): return 0\n"
        "  @f.register\n  def _(self, x: int): return 2\ndef build(): return C().f(1)",
    ),
    "a generator": (
        "def g():\n  yield 1\ndef build(): return list(g())",
        "def g():\n  yield 2\ndef build(): return list(g())",
    ),
    "an async helper": (
        "import asyncio\nasync def f(): return 1\ndef build(): return asyncio.run(f())",
        "import asyncio\nasync def f(): return 2\ndef build(): return asyncio.run(f())",
    ),
    "a comprehension": (
        "n = 1\ndef build(): return [x for x in range(3) if x > n]",
        "n = 2\ndef build(): return [x for x in range(3) if x > n]",
    ),
    "a helper in a generator expression in a lambda": (
        "def h(x): return x\ndef build(): return (lambda: sum(h(x) for x in (1, 2)))()",
        "def h(x): return -x\ndef build(): return (lambda: sum(h(x) for x in (1, 2)))()",
    ),
    "an f-string": ("def build(x=1): return f'{x}'", "def build(x=1): return f'{x!r}'"),
    "the format in an f-string": ("def build(x=1): return f'{x:2}'", "def build(x=1): return f'{x:3}'"),
    "a walrus": ("def build(): return (y := 1) + y", "def build(): return (y := 2) + y"),
    "a match statement": (
        "def build(x=1):\n  match x:\n    case 1: return 1\n    case _: return 0",
        "def build(x=1):\n  match x:\n    case 2: return 1\n    case _: return 0",
    ),
    "a match on None or True": (
        "def build(x=1):\n  match x:\n    case None: return 1",
        "def build(x=1):\n  match x:\n    case True: return 1",
    ),
    "the zero in a constant": ("def build(): return 0.0", "def build(): return -0.0"),
    "the type of a constant": ("def build(): return 1", "def build(): return 1.0"),
    "a name that a class mangles": (
        "class A:\n  __n = 1\n  def f(self): return self.__n\ndef build(): return A().f()",
        "class A:\n  __n = 2\n  def f(self): return self.__n\ndef build(): return A().f()",
    ),
    "the class that mangles a name": (
        "def outer():\n  class A:\n    def f(self): return self.__n\n  return A.f\nbuild = outer()",
        "def outer():\n  class B:\n    def f(self): return self.__n\n  B.__qualname__ = 'A'\n  return B.f\nbuild = outer()",
    ),
    "the field of a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass C:\n  n: int = 1\ndef build(): return C()",
        "from dataclasses import dataclass\n@dataclass\nclass C:\n  n: int = 2\ndef build(): return C()",
    ),
    "the default factory of a dataclass": (
        "from dataclasses import dataclass, field\ndef f(): return 1\n"
        "@dataclass\nclass C:\n  n: int = field(default_factory=f)\ndef build(): return C()",
        "from dataclasses import dataclass, field\ndef f(): return 2\n"
        "@dataclass\nclass C:\n  n: int = field(default_factory=f)\ndef build(): return C()",
    ),
    "whether a dataclass is frozen": (
        "from dataclasses import dataclass\n@dataclass\nclass C:\n  n: int = 1\ndef build(): return hash(C())",
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass C:\n  n: int = 1\ndef build(): return hash(C())",
    ),
    "the __post_init__ of a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass C:\n  n: int = 1\n  def __post_init__(s): s.n = 2\n"
        "def build(): return C()",
        "from dataclasses import dataclass\n@dataclass\nclass C:\n  n: int = 1\n  def __post_init__(s): s.n = 3\n"
        "def build(): return C()",
    ),
    "an __init__ that replaces a dataclass's": (
        "from dataclasses import dataclass\n@dataclass\nclass C:\n  n: int = 1\ndef build(): return C()",
        "from dataclasses import dataclass\n@dataclass\nclass C:\n  n: int = 1\ndef i(self): self.n = 2\nC.__init__ = i\n"
        "def build(): return C()",
    ),
    "the default of a named tuple": (
        "from typing import NamedTuple\nclass C(NamedTuple):\n  n: int = 1\ndef build(): return C()",
        "from typing import NamedTuple\nclass C(NamedTuple):\n  n: int = 2\ndef build(): return C()",
    ),
    "the method of a named tuple": (
        "from typing import NamedTuple\nclass C(NamedTuple):\n  n: int = 1\n  def f(self): return 1\n"
        "def build(): return C().f()",
        "from typing import NamedTuple\nclass C(NamedTuple):\n  n: int = 1\n  def f(self): return 2\n"
        "def build(): return C().f()",
    ),
    "the fields of a collections.namedtuple": (
        "from collections import namedtuple\nC = namedtuple('C', 'a b')\ndef build(): return C(1, 2).a",
        "from collections import namedtuple\nC = namedtuple('C', 'b a')\ndef build(): return C(1, 2).a",
    ),
    "the value of an enum's member": (
        "import enum\nclass E(enum.Enum):\n  A = 1\ndef build(): return E.A.value",
        "import enum\nclass E(enum.Enum):\n  A = 2\ndef build(): return E.A.value",
    ),
    "an alias in an enum": (
        "import enum\nclass E(enum.Enum):\n  A = 1\n  B = 2\ndef build(): return [e.value for e in E]",
        "import enum\nclass E(enum.Enum):\n  A = 1\n  B = 1\ndef build(): return [e.value for e in E]",
    ),
    "what an enum makes of a value that it has not": (
        "import enum\nclass E(enum.Enum):\n  A = 1\n  B = 2\n  @classmethod\n  def _missing_(cls, v): return cls.A\n"
        "def build(): return E(3)",
        "import enum\nclass E(enum.Enum):\n  A = 1\n  B = 2\n  @classmethod\n  def _missing_(cls, v): return cls.B\n"
        "def build(): return E(3)",
    ),
    "the __new__ of an enum": (
        "import enum\nclass E(enum.Enum):\n  def __new__(cls, v):\n    o = object.__new__(cls)\n    o._value_ = v\n    return o\n"
        "  A = 1\ndef build(): return E.A",
        "import enum\nclass E(enum.Enum):\n  def __new__(cls, v):\n    o = object.__new__(cls)\n    o._value_ = -v\n    return o\n"
        "  A = 1\ndef build(): return E.A",
    ),
    "the boundary of a flag": (
        "import enum\nclass E(enum.Flag):\n  A = 1\ndef build(): return E(5)",
        "import enum\nclass E(enum.Flag, boundary=enum.KEEP):\n  A = 1\ndef build(): return E(5)",
    ),
    "an object that is put into a library": (
        "import json\nclass C: pass\njson.mine = C()\njson.mine.n = 1\ndef build(): return json.mine.n",
        "import json\nclass C: pass\njson.mine = C()\njson.mine.n = 2\ndef build(): return json.mine.n",
    ),
    "a namespace that is put into a library": (
        "import json, types\njson.mine = types.SimpleNamespace(n=1)\ndef build(): return json.mine.n",
        "import json, types\njson.mine = types.SimpleNamespace(n=2)\ndef build(): return json.mine.n",
    ),
    "a namespace of arguments that is put into a library": (
        "import argparse, json\njson.mine = argparse.Namespace(n=1)\ndef build(): return json.mine.n",
        "import argparse, json\njson.mine = argparse.Namespace(n=2)\ndef build(): return json.mine.n",
    ),
    "an object of another library that is put into one": (
        "import json, typer\njson.mine = typer.Option(1)\ndef build(): return json.mine.default",
        "import json, typer\njson.mine = typer.Option(2)\ndef build(): return json.mine.default",
    ),
    "a number that is put into a library": (
        "import json\njson.mine = 1\ndef build(): return json.mine",
        "import json\njson.mine = 2\ndef build(): return json.mine",
    ),
    "code in the namespace of a library": (
        "import json\nnames = {**vars(json), 'n': 1}\nexec('def build(): return n', names)\nbuild = names['build']",
        "import json\nnames = {**vars(json), 'n': 2}\nexec('def build(): return n', names)\nbuild = names['build']",
    ),
    "a module in a class": (
        {"model.py": "import s\nclass C: m = s\ndef build(): return C.m.n", "s.py": "n = 1"},
        {"model.py": "import s\nclass C: m = s\ndef build(): return C.m.n", "s.py": "n = 2"},
    ),
    "a relative import in a function": (
        {
            "model.py": "from p.q import build",
            "p/__init__.py": "",
            "p/q.py": "def build():\n  from . import r\n  return r.n",
            "p/r.py": "n = 1",
        },
        {
            "model.py": "from p.q import build",
            "p/__init__.py": "",
            "p/q.py": "def build():\n  from . import r\n  return r.n",
            "p/r.py": "n = 2",
        },
    ),
    "a relative import of a name": (
        {
            "model.py": "from p.q import build",
            "p/__init__.py": "n = 1",
            "p/q.py": "def build():\n  from . import n as m\n  return m",
        },
        {
            "model.py": "from p.q import build",
            "p/__init__.py": "n = 2",
            "p/q.py": "def build():\n  from . import n as m\n  return m",
        },
    ),
    "a class statement in a function that reads a global": (
        "n = 1\ndef build():\n  class C:\n    m = n\n  return C.m",
        "n = 2\ndef build():\n  class C:\n    m = n\n  return C.m",
    ),
    "a default in a nested function": (
        "n = 1\ndef build():\n  def f(m=n): return m\n  return f()",
        "n = 2\ndef build():\n  def f(m=n): return m\n  return f()",
    ),
    "the type of a class that type() makes": (
        "C = type('C', (), {'f': lambda self: 1})\ndef build(): return C().f()",
        "C = type('C', (), {'f': lambda self: 2})\ndef build(): return C().f()",
    ),
    "an object that calls": (
        "class F:\n  def __call__(self): return 1\nf = F()\ndef build(): return f()",
        "class F:\n  def __call__(self): return 2\nf = F()\ndef build(): return f()",
    ),
    "a context manager's exit": (
        "class C:\n  def __enter__(s): return s\n  def __exit__(s, *a): return 1\ndef build():\n  with C(): return 1",
        "class C:\n  def __enter__(s): return s\n  def __exit__(s, *a): return 0\ndef build():\n  with C(): return 1",
    ),
    "a lambda in a default in a class": (
        "class C:\n  def f(self, g=lambda: 1): return g()\ndef build(): return C().f()",
        "class C:\n  def f(self, g=lambda: 2): return g()\ndef build(): return C().f()",
    ),
    "a chain of decorators in a class": (
        "def d(f): return f\ndef e(f): return lambda *a: -f(*a)\nclass C:\n  @d\n  def f(self): return 1\ndef build(): return C().f()",
        "def d(f): return f\ndef e(f): return lambda *a: -f(*a)\nclass C:\n  @e\n  def f(self): return 1\ndef build(): return C().f()",
    ),
    "the name under which a decorated function is known": (
        "def build(): return build.__name__",
        "def build(): return build.__name__\nbuild.__name__ = 'other'",
    ),
    "a try, its handlers and what is last": (
        "def build():\n  try: return 1\n  except ValueError: return 2\n  finally: print()",
        "def build():\n  try: return 1\n  except TypeError: return 2\n  finally: print()",
    ),
    "an unpacked assignment": ("def build(): a, *b = 1, 2, 3; return a", "def build(): *a, b = 1, 2, 3; return a"),
    "a slice": ("def build(x=(1, 2)): return x[1:]", "def build(x=(1, 2)): return x[:1]"),
    "a chained comparison": ("def build(x=1): return 0 < x < 2", "def build(x=1): return 0 < x <= 2"),
    "a star in a call": (
        "def f(*a): return a\ndef build(x=(1,)): return f(*x)",
        "def f(*a): return a\ndef build(x=(1,)): return f(x)",
    ),
    "the method of an enum": (
        "import enum\nclass E(enum.Enum):\n  A = 1\n  def f(self): return 1\ndef build(): return E.A.f()",
        "import enum\nclass E(enum.Enum):\n  A = 1\n  def f(self): return 2\ndef build(): return E.A.f()",
    ),
    "whether two names share a list": (
        "a = [1]\nb = [1]\ndef build(): a.append(2); return b",
        "a = [1]\nb = a\ndef build(): a.append(2); return b",
    ),
    "a name that appears": (
        "def build():\n  try: return n\n  except NameError: return 0",
        "n = 1\ndef build():\n  try: return n\n  except NameError: return 0",
    ),
    "a monkeypatched function of numpy": (
        "import numpy as np\ndef build(): return np.sin(1)",
        "import numpy as np\nimport types\ndef mine(x): return x\n"
        "class Patched(types.ModuleType): pass\nreal, np = np, Patched('np')\nnp.sin = mine\ndef build(): return np.sin(1)",
    ),
    "a class that is made by a function": (
        "def make(n):\n  class C:\n    def f(self): return n\n  return C\nC = make(1)\ndef build(): return C().f()",
        "def make(n):\n  class C:\n    def f(self): return n\n  return C\nC = make(2)\ndef build(): return C().f()",
    ),
    "a callable object": (
        "class C:\n  def __init__(s, n): s.n = n\n  def __call__(s): return s.n\nbuild = C(1)",
        "class C:\n  def __init__(s, n): s.n = n\n  def __call__(s): return s.n\nbuild = C(2)",
    ),
    "the object of a bound method": (
        "class C:\n  def __init__(s, n): s.n = n\n  def f(s): return s.n\nbuild = C(1).f",
        "class C:\n  def __init__(s, n): s.n = n\n  def f(s): return s.n\nbuild = C(2).f",
    ),
    "an __init_subclass__": (
        "class B:\n  def __init_subclass__(cls): cls.n = 1\nclass C(B): pass\ndef build(): return C.n",
        "class B:\n  def __init_subclass__(cls): cls.n = 2\nclass C(B): pass\ndef build(): return C.n",
    ),
    "a helper of a helper of a default": (
        "def h(): return 1\ndef g(): return h()\ndef build(f=g): return f()",
        "def h(): return 2\ndef g(): return h()\ndef build(f=g): return f()",
    ),
    "mutual recursion": (
        "def a(n): return n and b(n - 1)\ndef b(n): return n and a(n - 1)\ndef build(): return a(3)",
        "def a(n): return n and b(n - 1)\ndef b(n): return n and a(n - 2)\ndef build(): return a(3)",
    ),
    "an operator that a class overloads": (
        "class C:\n  def __add__(s, o): return 1\ndef build(): return C() + C()",
        "class C:\n  def __add__(s, o): return 2\ndef build(): return C() + C()",
    ),
    "a del of a global": ("n = 1\ndef build():\n  global n\n  del n", "n = 2\ndef build():\n  global n\n  del n"),
    "a reload with other text": (
        {"model.py": "import s\ndef build(): return s.n", "s.py": "n = 1"},
        {
            "model.py": "import s, importlib, pathlib\npathlib.Path(s.__file__).write_text('n = 22')\n"
            "importlib.reload(s)\ndef build(): return s.n",
            "s.py": "n = 1",
        },
    ),
}


SAME: dict[str, tuple[Sources, Sources]] = {
    "an object of a class was copied": (
        "class C: x = 1\ndef build(): return C.x",
        "import copyreg\nclass C: x = 1\ncopyreg._slotnames(C)\ndef build(): return C.x",
    ),
    "nothing but the directory": ("N = 1\ndef build(): return N", "N = 1\ndef build(): return N"),
    "a comment": ("def build(): return 1", "# more\ndef build(): return 1  # one"),
    "a docstring": ('def build():\n  """One."""\n  return 1', 'def build():\n  """Two,\n  more."""\n  return 1'),
    "docstrings of helpers, classes and nested functions": (
        "def h(): return 1\nclass C:\n  def f(self): return h()\ndef build():\n  def g(): return C().f()\n  return g()",
        'def h():\n  "d"\n  return 1\nclass C:\n  "d"\n  def f(self):\n    "d"\n    return h()\ndef build():\n'
        '  "d"\n  def g():\n    "d"\n    return C().f()\n  return g()',
    ),
    "white space": ("def build(a=1, b=2): return a+b", "def build( a = 1,\n    b = 2 ):\n\n    return (a\n      + b)"),
    "line endings": ("def build():\n  n = 1\n  return n\n", "def build():\r\n  n = 1\r\n  return n\r\n"),
    "the place in the file": ("def build(): return 1", "X = 5\n\n\ndef other(): pass\n\ndef build(): return 1"),
    "a global that is not read": ("N = 1\ndef build(): return 1", "N = 2\ndef build(): return 1"),
    "a function that is not reached": (
        "def h(): return 1\ndef build(): return 1",
        "def h(): return 2\ndef build(): return 1",
    ),
    "a module attribute that is not read": (
        {"model.py": "import s\ndef build(): return s.n", "s.py": "n = 1"},
        {"model.py": "import s\ndef build(): return s.n", "s.py": "n = 1\nm = open(__file__)\nm.close()"},
    ),
    "the order of a dictionary": (
        "D = {'a': 1, 'b': 2}\ndef build(): return D",
        "D = {'b': 2, 'a': 1}\ndef build(): return D",
    ),
    "a constant that Python computes": ("def build(): return (1, 2)", "def build(): return (1, True + 1)"),
    "quotes and notation": ("def build(): return 'a', 16, 1e3", 'def build(): return "a", 0x10, 1000.0'),
    "the order of methods": (
        "class C:\n  def f(s): return 1\n  def g(s): return 2\ndef build(): return C().f()",
        "class C:\n  def g(s): return 2\n  def f(s): return 1\ndef build(): return C().f()",
    ),
    "a logger": (
        "import logging\nlog = logging.getLogger('a')\ndef build(): log.info('x'); return 1",
        "import logging\nlog = logging.getLogger('b')\ndef build(): log.info('x'); return 1",
    ),
    "an indented continuation and parentheses": (
        "def build(): return 1 + 2 * 3",
        "def build(): return (1 + ((2) * 3))",
    ),
}

if sys.version_info >= (3, 12):
    DIFFERENT |= {
        "PEP 695 functions": (
            "def f[T](x: T) -> T: return x\ndef build(): return f(1)",
            "def f[T](x: T) -> T: return -x\ndef build(): return f(1)",
        ),
        "PEP 695 classes": (
            "class C[T]:\n  def f(self) -> T: return 1\ndef build(): return C[int]().f()",
            "class C[T]:\n  def f(self) -> T: return 2\ndef build(): return C[int]().f()",
        ),
        "nested f-strings": ("def build(x='a'): return f'{f'{x}'}'", "def build(x='a'): return f'{f'{x} '}'"),
    }


@pytest.mark.parametrize("case", DIFFERENT)
def test_a_change_that_counts(case: str, tmp_path: Path) -> None:
    """What the result may depend on is in the fingerprint."""
    before, after = DIFFERENT[case]
    first, second = of(tmp_path / "a", before), of(tmp_path / "b", after)
    assert first.hash == of(tmp_path / "c", before).hash
    assert first.hash != second.hash
    assert first.parts != second.parts


@pytest.mark.parametrize("case", SAME)
def test_a_change_that_does_not_count(case: str, tmp_path: Path) -> None:
    """What the result cannot depend on is not."""
    before, after = SAME[case]
    first, second = of(tmp_path / "a", before), of(tmp_path / "b", after)
    assert first.parts == second.parts
    assert first.hash == second.hash


def test_a_partial_in_the_place_of_a_library_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is another one for other arguments."""
    sources = "import textwrap\ndef build(): return textwrap.fill('x')"
    hashes = set()
    for width in (20, 30):
        monkeypatch.setattr(textwrap, "fill", functools.partial(textwrap.shorten, width=width))
        hashes.add(of(tmp_path, sources).hash)
    assert len(hashes) == 2


UNSEEN = {
    "sys.modules": "import sys\ndef build(): return sys.modules['json'].n",
    "a computed import": "import importlib\ndef build(n='json'): return importlib.import_module(n)",
    "a computed variable": "import os\ndef build(n='HOME'): return os.environ[n]",
    "the whole environment": "import os\ndef build(): return dict(os.environ)",
    "frames": "import sys\ndef build(): return sys._getframe()",
    "subclasses": "class A: pass\ndef build(): return A.__subclasses__()",
    "globals of a function": "def h(): pass\ndef build(): return h.__globals__",
}


@pytest.mark.parametrize("case", UNSEEN)
def test_what_is_reached_without_a_name_is_no_reason_to_refuse(case: str, tmp_path: Path) -> None:
    """What the key does not see is compared in each new world."""
    assert of(tmp_path, UNSEEN[case]).chance == ()


def test_a_variable_of_the_environment_that_is_named_is_a_part(tmp_path: Path) -> None:
    """In whatever way the code asks for it."""
    source = "import os\ndef build(): return os.environ['A_NAME'], os.getenv('B_NAME', '1'), 'C_NAME' in os.environ"
    parts = of(tmp_path / "b", source).parts
    assert {label for label in parts if label.startswith("environment")} == {
        f"environment {letter}_NAME" for letter in "ABC"
    }


@pytest.mark.parametrize("source", ["os.environ['A_NAME']", "os.environ.get('A_NAME')", "os.getenv('A_NAME', '0')"])
def test_a_variable_of_the_environment_counts(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its value."""
    keys = set()
    for value in ("1", "2", None):
        monkeypatch.setenv("A_NAME", value) if value else monkeypatch.delenv("A_NAME", raising=False)
        keys.add(of(tmp_path / f"{value}", f"import os\ndef build(): return {source}").hash)
    assert len(keys) == 3


def test_a_long_chain_of_helpers_is_no_problem(tmp_path: Path) -> None:
    """Deeper than Python's own limit of recursion."""
    source = "".join(f"def h{n}(): return h{n + 1}()\n" for n in range(1500)) + "def h1500(): return 1\nbuild = h0"
    assert len(of(tmp_path, source).parts) == 1501


def test_a_value_by_itself_has_a_digest() -> None:
    """Equal values share it, with all of their attributes; what cannot be fingerprinted has none."""
    one, same, other = (SimpleNamespace(rate=rate, steps=[1, rate]) for rate in (1.0, 1.0, 2.0))
    assert digest_of(one) == digest_of(same) not in {digest_of(other), digest_of([1.0]), None}
    assert digest_of(iter([])) is digest_of([iter([])]) is None


def test_a_walk_ends_when_no_name_of_an_attribute_is_left(tmp_path: Path) -> None:
    """A name that is found after an attribute was passed over needs another walk, in which the attribute counts."""
    source = """
        class C:
            def __init__(self): self.rate, self.depth = 1, 2
        def late(c): return c.rate
        class Reader:
            def read(self, c): return late(c)
        c, table = C(), [Reader()]
        def build(): return [each.read(c) for each in table]
    """
    with imported(tmp_path, source) as model:
        first = Walk("model", "build")
        first.begin(model.build)
        first.run()
        second = Walk("model", "build", first.names)
        second.begin(model.build)
        second.run()
    assert not first.is_done() and second.is_done()
    assert {"rate", "depth"} <= first.aside and {"rate", "depth"} & second.aside == {"depth"}


@pytest.mark.full
@pytest.mark.parametrize(
    "reached",
    [
        "importlib.import_module(NAME).N", "vars(sys.modules[NAME])['N']", "__import__(NAME).N",
        "pickle.loads(PICKLED).N", "inspect.getmodule(own).N", "importlib.__import__(NAME).N", "LOAD(NAME).N",
        "[getattr(__import__('other'), 'N')]",
    ],
)  # fmt: skip
def test_where_any_module_is_reached_the_globals_of_the_users_are_told_beside_the_key(
    reached: str, tmp_path: Path
) -> None:
    """What is in them makes a call one in another world, of the same key."""
    source = "import functools, importlib, inspect, pickle, sys\nNAME, PICKLED = 'other', b''\ndef own(): ...\n"
    source += f"LOAD = functools.partial(importlib.import_module)\ndef build(): return {reached}"
    found: list[Fingerprint] = []
    for number in (1, 1, 2):
        with imported(tmp_path / str(len(found)), {"model.py": source, "other.py": f"N = {number}"}) as module:
            __import__("other")
            found.append(fingerprint(module.build))
    assert len({each.key for each in found}) == 1
    assert (
        found[0].loose["globals of other"] == found[1].loose["globals of other"] != found[2].loose["globals of other"]
    )


@pytest.mark.parametrize(
    "reached",
    [
        "importlib.import_module('other').N", "__import__('other').N", "importlib.import_module('other', None).N",
        "importlib.import_module('other').N + len(vars(importlib.import_module('string')))",
    ],
)  # fmt: skip
def test_of_modules_that_are_imported_by_constant_names_no_other_ones_are_told(reached: str, tmp_path: Path) -> None:
    """A program that imports late need not have all its globals looked at in each call."""
    source = f"import importlib\ndef build(): return {reached}"
    found = []
    for number in (1, 2):
        files = {"model.py": source, "other.py": f"N = {number}", "third.py": ""}
        with imported(tmp_path / str(number), files) as module:
            __import__("other"), __import__("third")
            found.append(fingerprint(module.build).loose)
    for labels in found:
        told = {label.partition(": ")[0] for label in labels if label.startswith("globals of ")}
        assert told == {"globals of other"}
    assert found[0]["globals of other: N"] != found[1]["globals of other: N"]
