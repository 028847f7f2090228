"""Key functions by type: they return what counts of an object. The program registers some, others are built in.

A built-in key function applies to the class that a loaded module has under a certain name; nothing is imported.
"""

# ruff: noqa: ANN401 - objects of any library

import copy
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NamedTuple

from jcache.errors import InvalidValue
from jcache.fingerprint.attributes import ALL
from jcache.fingerprint.encoding import SCALARS, several
from jcache.fingerprint.handlers import HANDLERS
from jcache.fingerprint.refusals import Refused

_BUILT_IN: Final = frozenset({*HANDLERS, *SCALARS, object, type, ModuleType})


class TypeKey(NamedTuple):
    """Key function of a class, which returns what counts of an instance.

    Attributes:
        function: the key function; None if nothing counts but the class.
        covers: the names of the attributes whose place its result takes; all other attributes count too. None if no
            attribute counts.
        is_fixed: whether instances never change, so that one instance is as good as an equal one.
        is_registered: whether the program registered the function, so that its code counts.
        is_by_name: whether the result is a dict, whose items count where code names their keys as attributes.
    """

    function: Callable[[Any], object] | None
    covers: frozenset[str] | None = None
    is_fixed: bool = False
    is_registered: bool = False
    is_by_name: bool = False


_registered: dict[type, TypeKey] = {}


def register_key(cls: type, function: Callable[[Any], object] | None) -> None:
    """Register a function that returns what counts of a class's instances in the keys of graphs and traces.

    Its result takes the place of the instance, whose attributes then do not count. The function's own code counts. If
    the instance is one of a subclass, its attributes count as well. A later registration of a class replaces the
    earlier one.

    Args:
        cls: a class that cannot be given a method ``__cache_key__``, such as another library's.
        function: takes an instance and returns all of its content: plain values, arrays, containers of them. None if
            nothing counts but the class itself; subclasses do not inherit that.

    Raises:
        InvalidValue: ``cls`` is no class, or one of Python's own that has a key; or ``function`` cannot be called.

    Example:
        >>> import jcache
        >>> from fractions import Fraction
        >>> jcache.register_key(Fraction, lambda fraction: (fraction.numerator, fraction.denominator))
    """
    if not isinstance(cls, type):
        raise InvalidValue(f"{cls!r} cannot be given a key: it is not a class.")
    if cls in _BUILT_IN:
        raise InvalidValue(f"{cls.__qualname__} cannot be given a key: jcache has one for it.")
    if function is not None and not callable(function):
        raise InvalidValue(f"{function!r} cannot be the key of {cls.__qualname__}: give a function, or None.")
    _registered[cls] = TypeKey(function, is_registered=True)


def type_key(kind: type) -> TypeKey | None:
    """Return the key function of a class; None if it has none, so that its attributes decide."""
    for cls in kind.__mro__[:-1]:
        if cls in _registered:
            key, is_own = _registered[cls], kind is cls
        elif "__cache_key__" in cls.__dict__:
            return _CACHE_KEY
        elif cls.__qualname__ in _READY and _is_at((ready := _READY[cls.__qualname__])[0], cls):
            key, is_own = ready[1], _package(kind) == _package(cls)
        else:
            continue
        if is_own or key.covers is not None:
            return key
        if key.function is not None:
            return key._replace(covers=frozenset(), is_fixed=False)
    return None


def _is_at(module: str, cls: type) -> bool:
    """Return whether a module has a class under the class's name.

    The module must be of the class's own package: reading an attribute of another module might import something.
    """
    return module.partition(".")[0] == _package(cls) and getattr(sys.modules.get(module), cls.__name__, None) is cls


def _package(cls: type) -> str:
    return str(cls.__module__).partition(".")[0]


def _reduced(value: Any) -> object:
    """Return what `pickle` and `copy` rebuild an object from."""
    parts = value.__reduce_ex__(4)
    return parts if isinstance(parts, str) else (parts[1], [_state(each) for each in parts[2:]])


def _state(part: Any) -> object:
    """Return a part of the reduced state without the caches that pandas fills when an object is read."""
    if type(part) is tuple:
        return [_state(each) for each in part if type(each) is not dict or _state(each)]
    if type(part) is dict:
        return [(name, part[name]) for name in sorted(part) if name != "_cache" and (name != "_readonly" or part[name])]
    return list(part) if hasattr(type(part), "__next__") else part


def _of_hash(value: Any) -> object:
    return value.name, value.digest(32) if value.name.startswith("shake") else value.digest()


def _of_table(table: Any) -> object:
    plain = sys.modules["numpy"].dtype
    columns = [table] if table.ndim == 1 else [column for _, column in table.items()]
    arrays = [each.to_numpy() if isinstance(each.dtype, plain) else each.array for each in columns]
    return table.axes, arrays, table.attrs, table.flags.allows_duplicate_labels


def _of_arrow(array: Any) -> object:
    return str(array.type), array.to_pylist() if hasattr(array, "to_pylist") else array.as_py()


def _of_network(graph: Any) -> object:
    """Return nodes and edges in the order of iteration."""
    many = graph.is_multigraph()
    edges = [
        (node, [*near], [[*each.items()] if many else each for each in near.values()])
        for node, near in graph._adj.items()
    ]
    before = [(node, [*near]) for node, near in graph._pred.items()] if graph.is_directed() else None
    return [*graph._node.items()], edges, before


def _of_sparse(matrix: Any) -> object:
    """Return the flags that scipy computes and caches in a matrix at the first request; of a dok matrix, the items."""
    if matrix.format == "dok":
        return [*matrix.items()]
    own = copy.copy(matrix) if matrix.format in {"csr", "csc", "bsr"} else None
    return own is None or (own.has_sorted_indices, own.has_canonical_format)


def _of_configuration(node: Any) -> object:
    """Return the resolvers of interpolations for a whole configuration; a part has them through its parent."""
    resolvers = sys.modules["omegaconf.basecontainer"].BaseContainer._resolvers
    is_whole = node._get_parent() is None
    return {name: each for name, each in resolvers.items() if is_whole and not name.startswith("oc.")}


def _of_units(registry: Any) -> object:
    """Return the definitions and options of a registry of units, without what it has computed."""
    own = vars(registry)
    definitions = [sorted(map(repr, own[name].items())) for name in ("_units", "_prefixes", "_dimensions")]
    options = {name: each for name, each in own.items() if name[0] != "_" and (each is None or type(each) in SCALARS)}
    return definitions, options, [*own["_contexts"]], [each.name for each in own["_active_ctx"].contexts]


def _of_resolved(metadata: Any) -> object:
    """Return what resolvers have returned and OmegaConf remembers, but for the present time, of Hydra's."""
    return {"resolver_cache": {name: each for name, each in metadata.resolver_cache.items() if name != "now"}}


def _of_spline(spline: Any) -> object:
    """Return the parts of a spline without FITPACK's working arrays, the ends of which are never written."""
    x, y, weights, begin, end, degree, smoothing, count, knots, coefficients, residual, *_ = spline._data
    given = x, y, weights, begin, end, degree, smoothing, residual
    return given, knots[:count], coefficients[:count]


def _of_flags(flags: Any) -> object:
    return {name: _value_of(flag) for name, flag in flags._flags().items()}


def _of_flag(holder: Any) -> object:
    return {"value": _value_of(holder._flagvalues[holder._name])}


def _of_parameter(parameter: Any) -> object:
    """Return what a parameter is made of; its annotation as a text, since code makes no instance of what that names."""
    return parameter.name, int(parameter.kind), parameter.default, inspect.formatannotation(parameter.annotation)


def _of_signature(signature: Any) -> object:
    return list(signature.parameters.values()), inspect.formatannotation(signature.return_annotation)


def _value_of(flag: Any) -> object:
    return vars(flag).get("_value", flag)  # some flags have a property that makes a new value at each call


def _of_opened(value: Any) -> object:
    raise Refused(value, "what it reads may change", "open it in the function, or pass in what it reads")


def _covering(function: Callable[[Any], object], names: str, *, is_fixed: bool = False) -> TypeKey:
    return TypeKey(function, frozenset(names.split()), is_fixed)


_CACHE_KEY: Final = TypeKey(lambda value: value.__cache_key__(), is_fixed=True)
_FIXED: Final = TypeKey(_reduced, is_fixed=True)
_OPENED: Final = TypeKey(_of_opened)
_READY: Final = {
    name: (module, key)
    for module, names, key in (
        ("_blake2", "blake2b blake2s", TypeKey(_of_hash)),
        ("_hashlib", "HASH HASHXOF HMAC", TypeKey(_of_hash)),
        ("absl.flags", "FlagValues", TypeKey(_of_flags, is_by_name=True)),
        ("absl.flags", "FlagHolder", TypeKey(_of_flag, frozenset({"_flagvalues"}), is_by_name=True)),
        ("flax.core", "FrozenDict", _covering(dict, "_dict _hash")),
        ("h5py._hl.attrs", "AttributeManager", _OPENED),
        ("h5py._hl.base", "HLObject", _OPENED),
        ("immutabledict", "immutabledict", _covering(dict, "_dict _hash")),
        ("inspect", "Parameter", TypeKey(_of_parameter, is_fixed=True)),
        ("inspect", "Signature", TypeKey(_of_signature, is_fixed=True)),
        ("mujoco", "MjModel", TypeKey(_reduced)),
        ("netCDF4", "Dataset Variable", _OPENED),
        ("networkx", "Graph", _covering(_of_network, "_node _adj _succ _pred __networkx_cache__ nodes adj succ pred "
                                        "edges in_edges out_edges degree in_degree out_degree")),
        ("numpy.lib.npyio", "NpzFile", TypeKey(lambda file: [(name, file[name]) for name in file.files])),
        ("omegaconf.base", "ContainerMetadata", TypeKey(_of_resolved, frozenset({"resolver_cache"}), is_by_name=True)),
        ("omegaconf", "Node", _covering(_of_configuration, "_flags_cache")),
        ("orbax.checkpoint", "AbstractCheckpointManager AbstractCheckpointer", TypeKey(None, is_fixed=True)),
        ("pandas", "DataFrame Series", _covering(_of_table, "_mgr _attrs _flags _item_cache _cacher _is_copy")),
        ("pandas", "Index Interval Period Timedelta Timestamp", _covering(
            _reduced, "_cache _codes _data _freq _id _levels _microseconds _name _names _range _references _seconds "
            "sortorder", is_fixed=True)),
        ("pandas.api.extensions", "ExtensionArray", TypeKey(_reduced)),
        ("pandas.api.extensions", "ExtensionDtype", _FIXED),
        ("pandas.tseries.offsets", "BaseOffset", _FIXED),
        ("pandas.api.typing", "NAType NaTType", _FIXED),
        ("pandas._libs.sparse", "SparseIndex", _FIXED),
        ("pint", "UnitRegistry", TypeKey(_of_units)),
        ("pint.facets.plain.quantity", "PlainQuantity", _covering(lambda _: None, "_dimensionality")),
        ("posix", "DirEntry", _OPENED),
        ("pyarrow", "Array ChunkedArray Scalar", TypeKey(_of_arrow, is_fixed=True)),
        ("pyarrow", "DataType", TypeKey(str, is_fixed=True)),
        ("pydantic._internal._decorators", "Decorator", _covering(bool, "cls_ref")),  # it holds an address
        ("scipy.interpolate", "UnivariateSpline", _covering(_of_spline, "_data")),
        ("scipy.sparse", "sparray spmatrix", _covering(_of_sparse, "_dict _has_sorted_indices _has_canonical_format")),
        ("sqlite3", "Blob Connection Cursor", _OPENED),
        ("sqlite3", "Row", TypeKey(lambda row: (row.keys(), tuple(row)), is_fixed=True)),
        ("sympy", "Basic", _FIXED),
        ("unittest.case", "TestCase", _covering(lambda _: None, "_cleanups _outcome _subtest _type_equality_funcs")),
        ("weakref", "finalize", TypeKey(lambda finalizer: (finalizer.peek(), finalizer.atexit))),
        ("weakref", "WeakKeyDictionary WeakValueDictionary", _covering(
            dict, "data _dirty_len _iterating _pending_removals _remove")),
        ("xarray.backends", "CachingFileManager", _OPENED),
        ("zoneinfo", "ZoneInfo", _FIXED),
    )
    for name in names.split()
}  # fmt: skip


def keyed(encoder: Any, value: Any) -> bytes:
    """Encode a value by what its key function returns, for `jcache.fingerprint.values`."""
    kind = type(value)
    key = type_key(kind)
    items = [encoder.class_(kind)]
    if key is not None and key.function is not None:
        content = key.function(value)
        if content is value:
            raise Refused(value, "its key is the object itself", "return from its key what it is made of")
        if key.is_by_name:
            content = encoder.shown[id(value)] = _named(encoder, kind, content)
        encode = encoder.made if kind.__module__.startswith("pandas") else encoder.encode
        items += [encode(content), *([encoder.encode(key.function)] if key.is_registered else [])]
        items += [] if key.covers is None else [encoder.state(value, key.covers)]
    return several(b"keyed", items)


def _named(encoder: Any, kind: type, content: Any) -> object:
    """Return the items of a dict that code names, and set the others aside."""
    if encoder.is_given or ALL in encoder.names:
        return content
    by_index = {each.rpartition("[")[2][:-1] for each in encoder.snapshot.items()}  # as in ``FLAGS["rate"]``
    for name in content.keys() - encoder.names - by_index:
        encoder.aside.add(name)
        encoder.set_aside(f"item {name} of {kind.__qualname__}", content[name])
    return {name: each for name, each in content.items() if name in encoder.names or name in by_index}


def keyed_once(encoder: Any, value: Any) -> bytes:
    """Encode a value that never changes, so that one instance is as good as an equal one."""
    return keyed(encoder, value)
