"""Who may what: tokens, of which only hashes are kept, and their roles.

A token is 32 random bytes, so a plain SHA-256 hides it as well as a slow hash would: there is nothing to guess.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest

ROLES = ("feed", "read", "release", "admin")
"""Send events; look at what is published; spend releases; all of it, and the metrics."""

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
    """A token that nobody has yet."""
    return _BEGINS + secrets.token_urlsafe(32)


def hash_of(token: str) -> bytes:
    """What is kept of a token."""
    return sha256(token.encode()).digest()


def written_hash(token: str) -> str:
    """A hash as the file has it.

    >>> written_hash("pp_x")[:15]
    'sha256:ea0052fa'
    """
    return _SCHEME + hash_of(token).hex()


def parsed_hash(text: str) -> bytes:
    """Read a hash."""
    try:
        found = bytes.fromhex(text.removeprefix(_SCHEME))
    except ValueError:
        found = b""
    if not text.startswith(_SCHEME) or len(found) != sha256().digest_size:
        raise ValueError("a line that `panprivacy token` prints, sha256: and 64 hexadecimal digits; never the token")
    return found


def holder_of(token: str, tokens: Iterable[Token]) -> Token | None:
    """Whose token this is; all are compared, each in constant time, so that time tells nothing."""
    hashed, found = hash_of(token), None
    for known in tokens:
        if compare_digest(hashed, known.hash):
            found = known
    return found
