"""What the file says about the service itself: where it listens, who may use it, how much it takes."""

import ssl
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from panprivacy.serve.config.table import Table
from panprivacy.serve.tokens import ROLES, Token, parsed_hash

_MIB = 2**20
_REACHED = (
    "is reached from other machines: give a table [service.tls], or say without_tls = true where a proxy in front of "
    "the service encrypts"
)
_NOBODY = (
    "nobody could do anything: make a token with `panprivacy token`, or say what may be done without one, such as "
    'anonymous = ["read"]'
)


@dataclass(frozen=True)
class Tls:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Limits:
    """How much the service takes."""

    body: int = 64 * _MIB
    """Bytes of a body."""
    waiting: int = 256 * _MIB
    """Bytes of all bodies that are being received or wait to be counted."""
    seconds: float = 30.0
    """Time for a body to come."""
    requests: float = 0.0
    """Requests a second of one token, or of one address without a token; 0 for as many as come."""
    readers: int = 5000
    """Connections that may be open at once."""


@dataclass(frozen=True)
class ServiceSettings:
    """Where the service listens and keeps its states, and who may use it."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8787
    tls: Tls | None = None
    limits: Limits = field(default_factory=Limits)
    tokens: tuple[Token, ...] = ()
    anonymous: frozenset[str] = frozenset()
    """What may be done without a token."""
    hosts: frozenset[str] = frozenset()
    """By which other names browsers reach it, such as that of a proxy in front."""
    count_events: bool = False
    """Whether metrics tell how many events came, how long requests took, and how many wait."""

    @property
    def address(self) -> str:
        """Where the page is."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/"


def service_of(table: Table, folder: Path) -> ServiceSettings:
    """Read the tables `service`, `limits` and `tokens`; files are named from the folder of the file that names them."""
    service = table.table_or_empty("service")
    tls = _tls_of(service.table("tls"), folder)
    host = service.text("host", "127.0.0.1")
    exposed = service.flag("without_tls")
    if tls is None and not exposed and not is_loopback(host):
        service.blame("host", f"{host} {_REACHED}")
    port = service.whole("port", 8787)
    if not 0 <= port < 2**16:
        service.blame("port", f"a port is below 65536, not {port}")
    kept = service.text("folder", "states")
    if (folder / kept).exists() and not (folder / kept).is_dir():
        service.blame("folder", f"{folder / kept} is not a folder")
    anonymous = service.texts("anonymous", ())
    _check_roles(service, "anonymous", anonymous)
    hosts = frozenset(name.lower() for name in service.texts("hosts", ()))
    count_events = service.flag("count_events")
    service.close()
    tokens = tuple(_token_of(name, each) for name, each in table.tables("tokens").items())
    for number, token in enumerate(tokens):
        same = next((other.name for other in tokens[:number] if token.hash and other.hash == token.hash), None)
        if same is not None:
            table.blame(f"tokens.{token.name}.hash", f"is the hash of tokens.{same} too: make a token for each")
    if not tokens and not anonymous:
        service.blame("anonymous", _NOBODY)
    limits = _limits_of(table.table("limits"))
    return ServiceSettings(folder / kept, host, port, tls, limits, tokens, frozenset(anonymous), hosts, count_events)


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _tls_of(table: Table | None, folder: Path) -> Tls | None:
    if table is None:
        return None
    files: list[Path] = []
    for key in ("certificate", "key"):
        name = table.text(key)
        path = folder / (name or "")
        if name is None:
            table.blame(key, "the name of a file in PEM format")
        elif not path.is_file():
            table.blame(key, f"there is no file {path}")
        files.append(path)
    if len(files) == 2 and all(path.is_file() for path in files):
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files[0], files[1], lambda: "")
        except OSError:  # which errors of OpenSSL are
            table.blame("certificate", f"{files[0]} and {files[1]} are not a certificate and its key in PEM format")
    table.close()
    return Tls(*files)


def _limits_of(table: Table | None) -> Limits:
    if table is None:
        return Limits()
    plain = Limits()
    limits = Limits(
        body=table.size("body", plain.body),
        waiting=table.size("waiting", plain.waiting),
        seconds=table.number("seconds", plain.seconds),
        requests=table.number("requests", plain.requests),
        readers=table.whole("readers", plain.readers, least=1),
    )
    if limits.waiting < limits.body:
        table.blame("waiting", "at least as much as one body, or none could ever be taken")
    if limits.seconds <= 0:
        table.blame("seconds", f"more than nothing, not {limits.seconds:g}")
    if limits.requests < 0:
        table.blame("requests", f"0 or more, not {limits.requests:g}")
    table.close()
    return limits


def _token_of(name: str, table: Table) -> Token:
    roles = table.texts("roles", ())
    if not roles:
        table.blame("roles", f"what its holder may do: some of {', '.join(ROLES)}")
    _check_roles(table, "roles", roles)
    written, hashed = table.text("hash", ""), b""
    try:
        hashed = parsed_hash(written)
    except ValueError as error:
        table.blame("hash", str(error))
    counters = table.texts("counters")
    table.close()
    return Token(name, hashed, frozenset(roles), None if counters is None else frozenset(counters))


def _check_roles(table: Table, key: str, roles: tuple[str, ...]) -> None:
    for role in roles:
        if role not in ROLES:
            table.blame(key, f"there is no role {role!r}; there are {', '.join(ROLES)}")
