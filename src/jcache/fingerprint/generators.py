"""Random generators: how they are encoded, and the states in which a call leaves those that it draws from or seeds.

A served call sets such a state again. The key has the states of the program's own generators as they are before the
call. The state of a generator that the process shares, as `numpy.random` does, is part of the world. `itertools.count`
generates numbers, too; it goes on to its state.
"""

# ruff: noqa: ANN401 - generators of several libraries

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from jcache.fingerprint.chance import STATE_OF, is_shared_generator, state_of
from jcache.fingerprint.describe import attribute_of
from jcache.fingerprint.encoding import several

if TYPE_CHECKING:
    from jcache.fingerprint.values import Encoder

OWN: Final = "(generator)"  # stands in place of a name for a generator of the program's
_HOMES: Final = (["random"], ["numpy", "random"], ["itertools"])  # modules whose generators have states of numbers
_FURTHEST: Final = 100_000  # steps of a count


class Generators:
    """The random generators that a walk has reached, with their states, and what a call has made of these."""

    def __init__(self) -> None:
        self.may_set = False  # whether a served call can set states again
        self.left: dict[int, bytes] = {}  # the later states of the program's, by their numbers
        self._own: dict[int, tuple[Any, Any]] = {}  # a generator and its state, by its address
        self._shared: dict[str, tuple[Any, Any]] = {}  # by the name of its type
        self._drawn: dict[str, bytes] = {}  # the later states of those that are shared

    def add(self, generator: Any, state: Any) -> None:
        """Keep the state of a generator as it is before the call."""
        self._own.setdefault(id(generator), (generator, state))

    def add_shared(self, generator: Any, state: Any) -> None:
        """Keep the state of a generator that the process shares; None if it has none."""
        if state is not None:
            self._shared.setdefault(name_of(generator), (generator, state))

    def note_shared(self, generator: Any, state: Any) -> None:
        """Note the state of a generator that the process shares as it is after the call."""
        known = self._shared.get(name_of(generator))
        if known is not None and (content := _written(state)) != _written(known[1]):
            self._drawn[name_of(generator)] = content

    @property
    def has_drawn(self) -> bool:
        """Whether the call has changed the state of a generator that the process shares."""
        return bool(self._drawn)

    def drawn(self) -> list[list[Any]]:
        """Return the states in which a call has left the generators that the process shares, as settings."""
        return [[name, 0, {"text": ["bytes", content.hex()]}] for name, content in sorted(self._drawn.items())]

    def then(self, generator: Any, state: Any) -> Any:
        """Return the state of a generator before the call if the present one can be set again; else the present one.

        Args:
            generator: the generator.
            state: its state after the call.
        """
        kind, known = type(generator), self._own.get(id(generator))
        if not self.may_set or known is None or kind.__module__.split(".")[:2] not in _HOMES:
            return state
        if (content := _written(state)) != _written(known[1]):
            self.left[[*self._own].index(id(generator))] = content
        return known[1]

    def forget(self) -> None:
        """Keep no generator in use."""
        self._own, self._shared = {}, {}

    def stores(self) -> dict[str, list[Callable[[bytes], None] | None]]:
        """Return functions that set the states of the generators, by name and number."""
        own = [partial(_set, each) for each, _ in self._own.values()]
        return {OWN: [*own], **{name: [partial(_set, each)] for name, (each, _) in self._shared.items()}}


def name_of(generator: Any) -> str:
    """Return the label of the state of a generator that the process shares."""
    return STATE_OF + type(generator).__qualname__


def _written(state: Any) -> bytes:
    return json.dumps(state, default=lambda array: array.tolist()).encode()


def _set(generator: Any, content: bytes) -> None:
    state = json.loads(content)
    if type(generator) is itertools.count:
        for _ in range(_FURTHEST):
            if repr(generator) == state:
                break
            next(generator)
    elif hasattr(generator, "setstate"):  # of Python
        version, numbers, gauss = state
        generator.setstate((version, tuple(numbers), gauss))
    elif hasattr(generator, "set_state"):  # of the older numpy
        generator.set_state(state)
    else:
        generator.state = state


def encode_shared(encoder: Encoder, generator: Any) -> None:
    """Set the state of a generator aside that the process shares."""
    state = state_of(generator)
    encoder.set_aside(name_of(generator), state)
    if encoder.before_call is None:
        encoder.snapshot.sets.generators.add_shared(generator, state)
    else:
        encoder.before_call.sets.generators.note_shared(generator, state)


def encode_generator(encoder: Encoder, value: Any) -> bytes:
    """Encode one of `numpy.random.Generator`."""
    return several(b"generator", [encoder.class_(type(value)), encode_bits(encoder, value.bit_generator)])


def encode_random_state(encoder: Encoder, value: Any) -> bytes:
    """Encode one of `numpy.random.RandomState`."""
    if is_shared_generator(value):
        encode_shared(encoder, value)
        return several(b"randomstate", [])
    return several(b"randomstate", [encoder.encode(encoder.state_then(value, value.get_state(legacy=False)))])


def encode_bits(encoder: Encoder, value: Any) -> bytes:
    """Encode one of `numpy.random.BitGenerator`."""
    spawned = getattr(attribute_of(value, "seed_seq"), "n_children_spawned", 0)
    more = [encoder.encode(spawned)] if spawned else []
    state = encoder.encode(encoder.state_then(value, value.state))
    return several(b"bits", [encoder.class_(type(value)), state, *more])


def encode_count(encoder: Encoder, value: Any) -> bytes:
    """Encode one of `itertools.count`."""
    return several(b"count", [encoder.encode(encoder.state_then(value, repr(value)))])


def encode_python(encoder: Encoder, value: Any) -> bytes:
    """Encode one of `random.Random`."""
    return several(b"random", [encoder.encode(encoder.state_then(value, value.getstate()))])
