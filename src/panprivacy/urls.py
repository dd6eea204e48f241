"""URLs of files, folders and services: told from paths and addresses of this machine, and opened through fsspec."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from panprivacy.errors import PanPrivacyError

_URL = re.compile(r"([a-z][a-z0-9+.-]+):(//|/|:)")
_PAGES = ("http", "https")
_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "adlfs"),
    **dict.fromkeys(_PAGES, "aiohttp"),
}
_STALLED = 300  # seconds without a byte after which a web server is given up


class Location(NamedTuple):
    """A place behind a URL: its file system, its path there, and how messages name it."""

    filesystem: Any
    path: str
    shown: str


def scheme_of(text: str) -> str | None:
    """The scheme of a URL; None of a path. What is neither is refused.

    >>> scheme_of("s3://bucket/flu"), scheme_of("visits.csv"), scheme_of("file:///tmp/flu")
    ('s3', None, None)
    """
    found = _URL.match(text)
    if found is not None and found[2] != "//":
        raise PanPrivacyError(
            f"{text}: a URL has two slashes, as in s3://bucket/flu, and one scheme; "
            f"if this is a path of this machine, write ./{text}",
            code="not-a-url",
        )
    return None if found is None or found[1] in ("file", "local") else found[1]


def local_path(text: str) -> str:
    """A path of this machine, which may be written as a URL.

    >>> local_path("file:///tmp/flu"), local_path("flu")
    ('/tmp/flu', 'flu')
    """
    return re.sub("^(file|local)://", "", text)


def located(url: str, options: Mapping[str, Any] | None = None) -> Location:
    """Open the file system of a URL; `options` are its own, beside those that fsspec finds in the environment."""
    shown, scheme = without_secrets(url), scheme_of(url)
    try:
        import fsspec
    except ImportError:
        raise PanPrivacyError(
            f"{shown}: a URL needs fsspec: pip install 'panprivacy[folder]'", code="missing-extra"
        ) from None
    try:
        # Threads share a file system, and one would take what another listed before for what is there now.
        given: dict[str, Any] = {"use_listings_cache": False}
        if scheme in _PAGES:  # a long file may take hours, as long as bytes come; aiohttp gives up after five minutes
            import aiohttp

            timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=_STALLED)
            given["client_kwargs"] = {"timeout": timeout}
        filesystem, path = fsspec.core.url_to_fs(url, **given | dict(options or {}))
    except ImportError as error:
        package = _PACKAGES.get(scheme or "", error.name or "")
        raise PanPrivacyError(
            f"{shown}: {scheme}:// needs {package}: pip install {package}", code="missing-extra"
        ) from None
    except ValueError as error:
        raise PanPrivacyError(f"{shown}: {error}", code="not-a-url") from None
    return Location(filesystem, path, shown)


def without_secrets(url: str) -> str:
    """A URL as messages may show it: a signature in its query, or a password before its host, is nobody's business.

    >>> without_secrets("https://ada:secret@clinic.example/visits.csv?X-Amz-Signature=0f")
    'https://clinic.example/visits.csv'
    """
    if scheme_of(url) not in _PAGES:
        return re.sub(r"(?<=://)[^/@]*@", "", url)
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def refusal(error: BaseException) -> str:
    """Say in a few words what a file system refused; the answers of servers are not repeated.

    >>> refusal(FileNotFoundError("bucket/flu")), refusal(PermissionError("403"))
    ('there is no such file', 'permission denied')
    """
    if isinstance(error, FileNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # fsspec says of every page that it could not get that it is not there
    status = getattr(error, "status", None)  # of aiohttp
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        return "there is no such file"
    if isinstance(error, PermissionError) or status in (401, 403):
        return "permission denied"
    name = type(error).__name__
    if "Credential" in name:
        return "there are no credentials for it; set them as its client expects, such as AWS_ACCESS_KEY_ID"
    if status is not None:
        return f"the server answers {status}"
    if "Connect" in name or "Timeout" in name or isinstance(error, ConnectionError):
        return "the server cannot be reached"
    return f"the connection broke ({name})"


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
