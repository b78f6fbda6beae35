"""The service that a URI names, and the names of its options, as pure functions.

Options have pyarrow's names (`access_key`, `endpoint_override`, ...), because users and Spark jobs know them by these.
`store_settings` translates them for obstore.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from smalti.errors import MosaicError

#: For each service, the options that `storage` may set, by the names that pyarrow's file systems have for them.
_ENDPOINT = ("endpoint_override", "scheme")
_OPTIONS = {
    "s3": ("access_key", "secret_key", "session_token", "region", *_ENDPOINT, "role_arn", "anonymous"),
    "gs": ("access_token", "project_id", *_ENDPOINT, "anonymous"),
    "abfs": ("account_name", "account_key", "sas_token", "blob_storage_authority", "blob_storage_scheme", "anonymous"),
    "hdfs": ("user", "kerb_ticket", "replication"),
}
#: Other schemes for the same services, used by Hadoop, Spark and fsspec.
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "az": "abfs", "abfss": "abfs", "viewfs": "hdfs"}
#: The services that obstore reaches.
OBJECT_SERVICES = frozenset({"s3", "gs", "abfs", "http", "https", "memory"})
#: obstore's names of options; it has no others.
_STORE_NAMES = {
    **{name: name for name in ("session_token", "region", "role_arn", "account_name", "account_key")},
    "access_key": "access_key_id",
    "secret_key": "secret_access_key",
    "anonymous": "skip_signature",
    "access_token": "bearer_token",
    "sas_token": "sas_key",
}


def local_path(text: str) -> str | None:
    """Return the path on this machine that a string names, or None if the string is a URI.

    Examples
    --------
    >>> local_path("data/t"), local_path("file:/data/t"), local_path("s3://bucket/t")
    ('data/t', '/data/t', None)
    """
    if "://" in text:
        return None
    return "/" + text[len("file:") :].lstrip("/") if text.startswith("file:/") else text or "."


def service_of(uri: str) -> str | None:
    """Return the service that a path or URI names, or None if it is on this machine.

    Examples
    --------
    >>> service_of("s3a://bucket/t"), service_of("az://container/t"), service_of("file:/t"), service_of("t")
    ('s3', 'abfs', None, None)
    """
    scheme, colon, _ = uri.partition(":")
    return None if not colon or "/" in scheme or scheme == "file" else _ALIASES.get(scheme, scheme)


def storage_arguments(service: str, storage: Mapping[str, str]) -> dict[str, str | bool]:
    """Return storage options by their names. They may lack underscores and capitals: Spark gives `accesskey`.

    Examples
    --------
    >>> storage_arguments("s3", {"accesskey": "k", "anonymous": "false"})
    {'access_key': 'k', 'anonymous': False}
    """
    if not storage:
        return {}
    if service not in _OPTIONS:
        raise MosaicError("storage options are not known for this scheme", found=service, expected=", ".join(_OPTIONS))
    known = {name.replace("_", ""): name for name in _OPTIONS[service]}
    arguments: dict[str, str | bool] = {}
    for key, value in storage.items():
        name = known.get(key.replace("_", "").lower())
        if name is None:
            raise MosaicError(f"unknown option 'storage.{key}' for {service}; there are {', '.join(known.values())}")
        arguments[name] = {"true": True, "false": False}.get(value.lower(), value)
    return arguments


@dataclass(frozen=True)
class StoreSettings:
    """How obstore reaches a service; the same for all of its buckets."""

    service: str
    config: tuple[tuple[str, str | bool], ...] = field(default=(), repr=False)


def store_settings(uri: str, storage: Mapping[str, str]) -> tuple[StoreSettings, str]:
    """Parse the URI of an object into the settings of its service and the path there, which begins with the bucket.

    A query after the path gives options, like `storage`. Escapes such as ``%3A`` stay, because partition directories
    have them in their names.

    Examples
    --------
    >>> settings, path = store_settings("s3://tables/t?endpoint_override=localhost:9000&scheme=http", {})
    >>> path, settings.config
    ('tables/t', (('endpoint', 'http://localhost:9000'),))
    >>> store_settings("abfss://files@account.dfs.core.windows.net/t", {})[0].config
    (('account_name', 'account'),)
    """
    service = service_of(uri)
    assert service in OBJECT_SERVICES
    rest, query = uri.partition(":")[2].removeprefix("//"), ""
    if service in _OPTIONS:
        rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    if service in ("http", "https") and "@" in authority:
        raise MosaicError("user names and passwords in URIs are not supported; pass an fsspec file system", path=uri)
    bucket, credentials = authority, dict[str, str]()
    if service in _OPTIONS and ("@" in authority or ":" in authority):
        bucket, credentials = _split_authority(service, authority)
    options = storage_arguments(service, {**credentials, **dict(parse_qsl(query)), **storage})
    if not bucket and service != "memory":
        raise MosaicError("the URI names no bucket or host", path=uri)
    config = {_STORE_NAMES[name]: value for name, value in options.items() if name in _STORE_NAMES}
    endpoint = _endpoint(service, options)
    if endpoint is not None:
        config["base_url" if service == "gs" else "endpoint"] = endpoint
    return StoreSettings(service, tuple(sorted(config.items()))), f"{bucket}/{path}".strip("/")


def _split_authority(service: str, authority: str) -> tuple[str, dict[str, str]]:
    """Return the bucket that a URI names, and the options before or after it, as pyarrow takes them.

    The error for other forms does not repeat the authority, because it may hold a secret.

    Examples
    --------
    >>> _split_authority("s3", "KEY:a%2Fb@tables")
    ('tables', {'access_key': 'KEY', 'secret_key': 'a/b'})
    >>> _split_authority("gs", "anonymous@tables"), _split_authority("abfs", "files@account.dfs.core.windows.net")
    (('tables', {'anonymous': 'true'}), ('files', {'account_name': 'account'}))
    """
    before, at, after = authority.rpartition("@")
    user, colon, password = before.partition(":")
    if service == "abfs" and at and not colon:
        return user, {"account_name": after.partition(".")[0]}
    if service == "gs" and before == "anonymous":
        return after, {"anonymous": "true"}
    if service == "s3" and user and password and ":" not in after:
        return after, {"access_key": unquote(user), "secret_key": unquote(password)}
    expected = {
        "s3": "s3://bucket/path or s3://KEY:SECRET@bucket/path, in which %2F stands for a slash in the secret",
        "gs": "gs://bucket/path or gs://anonymous@bucket/path",
        "abfs": "abfs://container@account.dfs.core.windows.net/path",
    }
    reason = "the URI names no bucket in a form that is known"
    raise MosaicError(reason, path=f"{service}://***", expected=expected[service])


def _endpoint(service: str, options: Mapping[str, str | bool]) -> str | None:
    """Return the URL of an endpoint that replaces the service's own, or None.

    Azure's is an authority: with a dot in front it follows the account's name, else the account follows it.
    """
    azure = service == "abfs"
    override = options.get("blob_storage_authority" if azure else "endpoint_override")
    if override is None:
        return None
    scheme, colon, host = str(override).partition("://")
    if not colon:
        scheme, host = str(options.get("blob_storage_scheme" if azure else "scheme", "https")), str(override)
    account = options.get("account_name", "")
    if azure:
        host = f"{account}{host}" if host.startswith(".") else f"{host}/{account}"
    return f"{scheme}://{host}"
