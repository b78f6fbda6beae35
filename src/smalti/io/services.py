"""The service that a URI names, and the names of its options, as pure functions.

Options may have the names of obstore (`access_key_id`), of the environment (`AWS_ACCESS_KEY_ID`), of pyarrow
(`access_key`), or of fsspec (`key`). Where several are the same option, it has pyarrow's name here, and
`store_settings` translates it for obstore.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any
from urllib.parse import parse_qsl, unquote

from smalti.errors import MosaicError

#: For each service, the options that may be set, by the names that pyarrow's file systems have for them.
_ENDPOINT = ("endpoint_override", "scheme")
_OPTIONS = {
    "s3": ("access_key", "secret_key", "session_token", "region", *_ENDPOINT, "role_arn", "anonymous"),
    "gs": ("access_token", "project_id", *_ENDPOINT, "anonymous"),
    "abfs": ("account_name", "account_key", "sas_token", "blob_storage_authority", "blob_storage_scheme", "anonymous"),
    "hdfs": ("user", "kerb_ticket", "replication"),
}
#: Options that only obstore has, and takes under this name.
_STORE_OPTIONS = {
    "s3": (
        *("allow_http", "virtual_hosted_style_request", "unsigned_payload", "checksum_algorithm", "request_payer"),
        *("conditional_put", "copy_if_not_exists", "disable_tagging", "disable_bulk_delete", "s3_express"),
        *("server_side_encryption", "sse_kms_key_id", "sse_bucket_key_enabled", "sse_customer_key_base64"),
        *("imdsv1_fallback", "metadata_endpoint", "container_credentials_relative_uri"),
        *("container_credentials_full_uri", "container_authorization_token_file"),
        *("web_identity_token_file", "role_session_name", "sts_endpoint"),
    ),
    "gs": ("allow_http", "service_account", "service_account_key", "application_credentials"),
    "abfs": (
        *("allow_http", "client_id", "client_secret", "tenant_id", "authority_host", "token", "endpoint"),
        *("use_emulator", "use_azure_cli", "use_fabric_endpoint", "msi_endpoint", "object_id", "msi_resource_id"),
        *("federated_token_file", "disable_tagging"),
    ),
}
#: Other names of options: of obstore, of the environment without its prefix, and of fsspec.
_SYNONYMS = {
    "s3": {
        **dict.fromkeys(("access_key_id", "key"), "access_key"),
        **dict.fromkeys(("secret_access_key", "secret"), "secret_key"),
        "token": "session_token",
        **dict.fromkeys(("default_region", "region_name"), "region"),
        **dict.fromkeys(("endpoint", "endpoint_url", "endpoint_url_s3"), "endpoint_override"),
        **dict.fromkeys(("skip_signature", "anon"), "anonymous"),
    },
    "gs": {
        **dict.fromkeys(("bearer_token", "token"), "access_token"),
        **dict.fromkeys(("base_url", "endpoint_url", "endpoint"), "endpoint_override"),
        **dict.fromkeys(("skip_signature", "anon"), "anonymous"),
        "project": "project_id",
        "service_account_path": "service_account",
    },
    "abfs": {
        "account": "account_name",
        **dict.fromkeys(("access_key", "master_key"), "account_key"),
        "sas_key": "sas_token",
        **dict.fromkeys(("skip_signature", "anon"), "anonymous"),
        "bearer_token": "token",
        "endpoint_url": "endpoint",
        **dict.fromkeys(("authority_id",), "tenant_id"),
    },
}
#: How names of the environment begin, without underscores.
_PREFIXES = ("aws", "google", "azurestorage", "azure")
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


class StorageOptions(dict[str, str]):
    """Options of a service by name, as users give them. Keys are shown and values are not: some are secrets.

    In the place of a file system it means the service of each URI, reached with these options.

    Examples
    --------
    >>> StorageOptions(secret_key="x")
    {'secret_key': ***}
    """

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: ***" for key in self) + "}"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> StorageOptions:
        """Return options as text. What fsspec has in `client_kwargs` counts as options, too.

        Examples
        --------
        >>> dict(StorageOptions.of({"anon": True, "token": None, "client_kwargs": {"region_name": "eu-west-1"}}))
        {'anon': 'true', 'region_name': 'eu-west-1'}
        """
        if isinstance(options, StorageOptions):
            return options
        if not isinstance(options, Mapping):
            raise TypeError(f"storage_options is a mapping of names to values, not {type(options).__name__}")
        flat: dict[str, Any] = {}
        for key, value in options.items():
            flat |= value if key == "client_kwargs" and isinstance(value, Mapping) else {key: value}
        texts = {key: str(value).lower() if isinstance(value, bool) else value for key, value in flat.items()}
        for key, value in texts.items():
            if value is not None and not isinstance(value, (str, int, float)):
                raise TypeError(f"storage option {key!r} is text, not {type(value).__name__}")
        return cls({str(key): str(value) for key, value in texts.items() if value is not None})


def storage_arguments(service: str, storage: Mapping[str, str]) -> dict[str, str | bool]:
    """Return storage options by one name for each. They may lack underscores and capitals: Spark gives `accesskey`.

    Examples
    --------
    >>> storage_arguments("s3", {"accesskey": "k", "anonymous": "false"})
    {'access_key': 'k', 'anonymous': False}
    >>> storage_arguments("s3", {"AWS_ENDPOINT_URL": "http://localhost:9000", "secret_access_key": "s"})
    {'endpoint_override': 'http://localhost:9000', 'secret_key': 's'}
    """
    if not storage:
        return {}
    if service not in _OPTIONS:
        raise MosaicError("storage options are not known for this scheme", found=service, expected=", ".join(_OPTIONS))
    names = (*_OPTIONS[service], *_STORE_OPTIONS.get(service, ()))
    synonyms = _SYNONYMS.get(service, {})
    known = {_plain(name): name for name in names} | {_plain(name): same for name, same in synonyms.items()}
    arguments: dict[str, str | bool] = {}
    for key, value in storage.items():
        plain = _plain(key)
        bare = next((plain.removeprefix(start) for start in _PREFIXES if plain.startswith(start)), plain)
        name = known.get(plain) or known.get(bare)
        if name is None:
            near = get_close_matches(key.lower(), [*names, *synonyms], 1)
            advice = f"did you mean {near[0]!r}?" if near else f"there are {', '.join([*names, *synonyms])}"
            raise MosaicError(f"unknown storage option {key!r} for {service}; {advice}")
        arguments[name] = {"true": True, "false": False}.get(value.lower(), value)
    return arguments


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


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
    names = _STORE_NAMES | {name: name for name in _STORE_OPTIONS.get(service, ())}
    config = {names[name]: value for name, value in options.items() if name in names}
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
