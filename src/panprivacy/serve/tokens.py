"""Tokens, of which only hashes are kept, and the roles of their holders.

A token is 32 random bytes, so a plain SHA-256 hides it as well as a slow hash would: there is nothing to guess.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Literal, get_args

Role = Literal["feed", "read", "release", "metrics", "admin"]
ROLES: tuple[str, ...] = get_args(Role)
"""Send events; read releases; spend releases; read metrics and the list of what is not ready; all of it."""

_SCHEME = "sha256:"
_BEGINS = "pp_"  # so that people, and scanners of repositories, know what they have found


@dataclass(frozen=True)
class Token:
    """What the holder of a token may do."""

    name: str
    hash: bytes
    roles: frozenset[str]
    counters: frozenset[str] | None = None
    """The counters it is for; None for all of them."""

    def allows(self, role: str, counter: str | None) -> bool:
        """Whether its holder may do this with a counter, or with the whole service."""
        if self.counters is not None and counter not in self.counters:
            return False
        return role in self.roles or "admin" in self.roles


def new_token() -> str:
    """A new token."""
    return _BEGINS + secrets.token_urlsafe(32)


def hash_of(token: str) -> bytes:
    """The hash of a token: all that is kept of it."""
    return sha256(token.encode()).digest()


def written_hash(token: str) -> str:
    """A hash as the file has it.

    >>> written_hash("pp_x")[:15]
    'sha256:ea0052fa'
    """
    return _SCHEME + hash_of(token).hex()


def parsed_hash(text: Any) -> bytes:
    """Read a hash; an error does not repeat it, since it may be a token."""
    try:
        found = bytes.fromhex(text.removeprefix(_SCHEME)) if str(text).startswith(_SCHEME) else b""
    except ValueError:
        found = b""
    if len(found) != sha256().digest_size:
        raise ValueError("must be what `panprivacy token` prints, sha256: and 64 hexadecimal digits; never the token")
    return found


def holder_of(token: str, tokens: Iterable[Token]) -> Token | None:
    """The holder of a token. All hashes are compared, each in constant time, so that the time tells nothing."""
    hashed, found = hash_of(token), None
    for known in tokens:
        if compare_digest(hashed, known.hash):
            found = known
    return found
