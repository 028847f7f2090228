"""Object stores (S3, GCS, Azure) and directories, by obstore, which is imported when a store is opened."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jcache import clock
from jcache.errors import InvalidValue, JcacheError
from jcache.remote.address import Address
from jcache.remote.failures import failed, failure
from jcache.remote.transport import Fetched, Listed, ObjectHead, Pace, Timeouts

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

_LIST_AT_ONCE: Final = 1000
_DELETE_AT_ONCE: Final = 1000
_FILE: Final = "file"
_BACKOFF_S: Final = 0.05
_MAX_BACKOFF_S: Final = 2.0
_TYPE: Final = {"Content-Type": "application/octet-stream"}


class ObjectStore:
    """A bucket or container, or a directory, below a prefix.

    Args:
        address: the store's address.
        timeouts: how long requests may take.
        environment: of the process, for endpoints and credentials.

    Raises:
        InvalidValue: obstore is not installed, or what the environment says of the store cannot be read.
    """

    can_list = True

    def __init__(self, address: Address, timeouts: Timeouts, environment: Mapping[str, str] = os.environ) -> None:
        self._address = address
        self._is_directory = address.scheme == _FILE
        self.keeps_metadata = not self._is_directory
        try:
            import obstore
            import obstore.exceptions
        except ImportError:
            raise InvalidValue(
                f"{address} needs the package obstore: install it with `pip install 'jcache-jax[remote]'`."
            ) from None
        self._errors = (obstore.exceptions.BaseError, OSError, NotImplementedError, ValueError)
        self._exists = (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError)
        self._opened: S3Store | GCSStore | AzureStore | LocalStore | None = None
        self._opened_to_write = self._opened
        if not self._is_directory:
            with self._telling("use"):
                self._opened = _opened(address, timeouts, environment)
                # uploads of large entries take long until the server says something
                self._opened_to_write = _opened(address, timeouts, environment, writes=True)

    @contextmanager
    def _telling(self, doing: str) -> Iterator[None]:
        """Raise the library's errors as jcache's."""
        try:
            yield
        except JcacheError:
            raise
        except self._errors as error:
            raise failure(self._address, doing, error) from None

    def _store(self, *, writes: bool = False) -> Any:  # noqa: ANN401  one of four classes with the same methods
        """Return the store; None for a directory that does not exist, unless it is to be written."""
        if writes and self._opened_to_write is not None:
            return self._opened_to_write
        if self._opened is None and (writes or os.path.isdir(self._address.path)):
            from obstore.store import LocalStore

            self._opened = LocalStore(self._address.path, mkdir=True)
        return self._opened

    def get(self, name: str, pace: Pace | None = None) -> Fetched | None:
        with self._telling("read from"):
            try:
                store = self._store()
                if store is None:
                    return None
                found = store.get(name)
                metadata = _own(found.attributes)
                data = found.bytes().to_bytes() if pace is None else self._paced(found, metadata, pace)
                return Fetched(data, metadata)
            except FileNotFoundError as error:
                self._check_bucket(error)
                return None

    def _paced(self, found: Any, metadata: Mapping[str, str], pace: Pace) -> bytes:  # noqa: ANN401
        """Return the bytes of an object that is being read, unless they take longer than they may."""
        end, pieces = clock.monotonic() + pace(found.meta["size"], metadata), list[bytes]()
        for piece in found.stream():
            pieces.append(bytes(piece))
            if clock.monotonic() > end:
                raise failed(self._address, "read from", "it did not answer in time")
        return b"".join(pieces)

    def start(self, name: str, size: int) -> bytes | None:
        with self._telling("read from"):
            try:
                store = self._store()
                return None if store is None else bytes(store.get_range(name, start=0, length=size))
            except FileNotFoundError as error:
                self._check_bucket(error)
                return None

    def head(self, name: str) -> ObjectHead | None:
        with self._telling("read from"):
            try:
                store = self._store()
                if store is None:
                    return None
                found = store.get(name, options={"head": True})
                return ObjectHead(found.meta["size"], _own(found.attributes))
            except FileNotFoundError as error:
                self._check_bucket(error)
                return None

    def _check_bucket(self, error: FileNotFoundError) -> None:
        """Raise NoCacheHere if an object is absent because its bucket is."""
        if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
            raise failure(self._address, "use", error)

    def put(self, name: str, data: bytes, metadata: Mapping[str, str], *, replace: bool) -> bool:
        told = _TYPE | dict(metadata) if self.keeps_metadata else None
        with self._telling("write to"):
            try:
                store = self._store(writes=True)
                # one request, even of large entries: a multipart upload cannot be told to create
                store.put(name, data, attributes=told, mode="overwrite" if replace else "create", use_multipart=False)
            except self._exists:
                return False
            return True

    def objects(self, prefix: str) -> Iterator[list[Listed]]:
        with self._telling("list"):
            store = self._store()
            for batch in () if store is None else store.list(prefix, chunk_size=_LIST_AT_ONCE):
                yield [
                    Listed(one["path"], one["size"], int(one["last_modified"].timestamp() * 1000) * 1_000_000)
                    for one in batch
                    if one["path"].startswith(prefix)
                ]

    def delete(self, names: Iterable[str]) -> None:
        wanted = list(names)
        store = self._store()
        for start in range(0, len(wanted) if store is not None else 0, _DELETE_AT_ONCE):
            with self._telling("remove from"):
                self._delete(store, wanted[start : start + _DELETE_AT_ONCE])

    def _delete(self, store: Any, names: list[str]) -> None:  # noqa: ANN401
        try:
            store.delete(names)
        except FileNotFoundError:
            for name in names:
                try:
                    store.delete(name)
                except FileNotFoundError as error:
                    self._check_bucket(error)

    def close(self) -> None:
        self._opened = None if self._is_directory else self._opened


def _own(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata that jcache has set; some stores change the case of names."""
    return {name.lower(): value for name, value in attributes.items()}


def _opened(
    address: Address, timeouts: Timeouts, environment: Mapping[str, str], *, writes: bool = False
) -> S3Store | GCSStore | AzureStore:
    from obstore.store import AzureStore, GCSStore, S3Store

    client: Any = {
        "connect_timeout": timedelta(seconds=timeouts.connect_s),
        "timeout": timedelta(seconds=timeouts.request_s),
        "allow_http": _is_plain_http(environment),
    }
    if not writes:
        client["read_timeout"] = timedelta(seconds=min(timeouts.request_s, timeouts.silence_s))
    retry: Any = {
        "max_retries": timeouts.retries,
        "retry_timeout": timedelta(seconds=timeouts.request_s * (timeouts.retries + 1)),
        "backoff": {
            "init_backoff": timedelta(seconds=_BACKOFF_S),
            "max_backoff": timedelta(seconds=_MAX_BACKOFF_S),
            "base": 2,
        },
    }
    more: Any = {"prefix": address.path or None, "client_options": client, "retry_config": retry}
    if address.scheme == "gs":
        return GCSStore(address.host, **more)
    if address.scheme == "az":
        return AzureStore(address.host, **more)
    return S3Store(address.host, **more | _from_profile(environment))


def _is_plain_http(environment: Mapping[str, str]) -> bool:
    """Return whether the environment names an endpoint without TLS, and so asks for one."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "GOOGLE_BASE_URL", "AZURE_STORAGE_ENDPOINT",
             "AZURE_ENDPOINT")  # fmt: skip
    return any(environment.get(name, "").lower().startswith("http://") for name in names)


def _from_profile(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what AWS's shared files say, where the environment does not: obstore reads the environment alone.

    Raises:
        InvalidValue: a profile is named that is not there.
    """
    import configparser

    home, profile = Path(os.path.expanduser("~/.aws")), environment.get("AWS_PROFILE")
    files = (
        (environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials", profile or "default"),
        (environment.get("AWS_CONFIG_FILE") or home / "config", f"profile {profile}" if profile else "default"),
    )
    told: dict[str, str] = {}
    for file, section in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(file)
        except (OSError, UnicodeDecodeError, configparser.Error):
            raise InvalidValue(f"{file} cannot be read: it is no file of AWS credentials or settings.") from None
        told |= dict(parser.items(section)) if parser.has_section(section) else {}
    if profile and not told:
        raise InvalidValue(f"AWS_PROFILE names '{profile}', which is in neither of AWS's shared files.")
    keys = {"access_key_id": "aws_access_key_id", "secret_access_key": "aws_secret_access_key",
            "session_token": "aws_session_token"}  # fmt: skip
    if environment.get("AWS_ACCESS_KEY_ID") or environment.get("AWS_SKIP_SIGNATURE"):
        keys = {}
    for name, variables in (
        ("region", ("AWS_REGION", "AWS_DEFAULT_REGION")),
        ("endpoint_url", ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")),
    ):
        if not any(map(environment.get, variables)):
            keys[name] = name
    return {name.replace("endpoint_url", "endpoint"): told[key] for name, key in keys.items() if key in told}
