"""Estimators as bytes: magic, version, kind, parameters and ledger, bits, checksum.

The length depends on the parameters alone. There is no coin, no key of a coin, no id and no count of events inside.
"""

import struct
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import CorruptState

MAGIC = b"panpriv\0"
VERSION = 1
_HEAD = struct.Struct("<8sHBBIQ")  # magic, version, kind, secure, bytes of parameters, words of bits
_CHECK = sha256().digest_size


def seal(kind: int, secure: bool, parameters: bytes, words: NDArray[np.uint64]) -> bytes:
    """Put the parts of a state together."""
    head = _HEAD.pack(MAGIC, VERSION, kind, secure, len(parameters), len(words))
    body = b"".join([head, parameters, words.astype("<u8").tobytes()])
    return body + sha256(body).digest()


def unseal(blob: bytes) -> tuple[int, bool, bytes, NDArray[np.uint64]]:
    """Take a state apart, refusing anything that was not sealed here: kind, secure, parameters, words."""
    blob = bytes(memoryview(blob))  # a number is no blob, though bytes(5) would make one of it
    if len(blob) < _HEAD.size + _CHECK:
        raise CorruptState(f"{len(blob)} bytes are too short for a state")
    magic, version, kind, secure, parameters, words = _HEAD.unpack_from(blob)
    if magic != MAGIC:
        raise CorruptState("these bytes are not a panprivacy state")
    if version != VERSION:
        raise CorruptState(f"this state has version {version}; this release reads version {VERSION}")
    start = _HEAD.size + parameters
    end = start + 8 * words
    if len(blob) != end + _CHECK:
        raise CorruptState(f"the state should have {end + _CHECK} bytes and has {len(blob)}: truncated or extended")
    if sha256(blob[:end]).digest() != blob[end:] or secure > 1:
        raise CorruptState("the checksum does not match: the state was altered")
    bits = np.frombuffer(blob, dtype="<u8", count=words, offset=start).astype(np.uint64)
    return kind, bool(secure), blob[_HEAD.size : start], bits
