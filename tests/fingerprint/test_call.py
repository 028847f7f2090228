"""The fingerprint of a call has a name and a key, and tells what the call has changed."""

import types

from jcache.fingerprint import fingerprint


def test_names_are_readable_and_fit_into_a_file() -> None:
    """Whatever the callable is called."""
    from jcache.layout import check_key

    def inner() -> None: ...

    inner.__qualname__ = "a/b\n" + "x" * 300
    assert fingerprint(inner).name.startswith("a_b_xxx")
    assert check_key(fingerprint(inner).key)
    assert fingerprint(lambda: 1).name.endswith("file.lambda")
    assert fingerprint(types.SimpleNamespace).name == "SimpleNamespace"
