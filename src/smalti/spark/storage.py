"""File systems from URIs and the `storage.*` options: credentials travel with the options, to driver and tasks alike.

Without options, a URI is all there is and pyarrow finds credentials where it always does (environment, profiles).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smalti.errors import MosaicError

#: Scheme of a URI: the class in `pyarrow.fs`, and what its options are called there.
_SERVICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "s3": (
        "S3FileSystem",
        ("access_key", "secret_key", "session_token", "region", "endpoint_override", "scheme", "role_arn", "anonymous"),
    ),
    "gs": ("GcsFileSystem", ("access_token", "project_id", "endpoint_override", "scheme", "anonymous")),
    "abfs": ("AzureFileSystem", ("account_name", "account_key", "sas_token", "blob_storage_authority")),
    "hdfs": ("HadoopFileSystem", ("user", "kerb_ticket", "replication")),
}
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "viewfs": "hdfs"}


def resolve(uri: str, storage: Mapping[str, str]) -> tuple[Any, str]:
    """The file system of a path or URI, and the path within it.

    Examples
    --------
    >>> resolve("/data/t", {})[1]
    '/data/t'
    """
    from pyarrow import fs

    service = service_of(uri)
    rest = uri.partition(":")[2]
    if service is None:
        return fs.LocalFileSystem(), "/" + rest.lstrip("/") if uri.startswith("file:") else uri
    if not storage:
        filesystem, path = fs.FileSystem.from_uri(f"{service}:{rest}")
        return filesystem, path
    arguments = storage_arguments(service, storage)
    kind = getattr(fs, _SERVICES[service][0], None)
    if kind is None:
        raise MosaicError("this build of pyarrow has no such file system", found=_SERVICES[service][0])
    authority, _, path = rest.removeprefix("//").partition("/")
    if service == "hdfs":
        host, _, port = authority.partition(":")
        return kind(host or "default", int(port or 0), **arguments), "/" + path
    bucket = authority.partition("@")[0]
    return kind(**arguments), f"{bucket}/{path}"


def service_of(uri: str) -> str | None:
    """What a path or URI is reached through; None on this machine.

    Examples
    --------
    >>> service_of("s3a://bucket/t"), service_of("file:/t"), service_of("t")
    ('s3', None, None)
    """
    scheme, colon, _ = uri.partition(":")
    return None if not colon or "/" in scheme or scheme == "file" else _ALIASES.get(scheme, scheme)


def storage_arguments(service: str, storage: Mapping[str, str]) -> dict[str, Any]:
    """`storage.*` options (lower case, as Spark hands them over) as arguments of a file system.

    Examples
    --------
    >>> storage_arguments("s3", {"accesskey": "k", "anonymous": "false"})
    {'access_key': 'k', 'anonymous': False}
    """
    if service not in _SERVICES:
        raise MosaicError("storage options are not known for this scheme", found=service, expected=", ".join(_SERVICES))
    known = {name.replace("_", ""): name for name in _SERVICES[service][1]}
    arguments: dict[str, Any] = {}
    for key, value in storage.items():
        name = known.get(key.replace("_", "").lower())
        if name is None:
            raise MosaicError(f"unknown option 'storage.{key}' for {service}; there are {', '.join(known.values())}")
        arguments[name] = {"true": True, "false": False}.get(value.lower(), value)
    return arguments
