"""Keys of the coins, and what they expand to."""

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

KEY_BYTES = 32
_BLOCK = 262_144  # flips that one key is used for


def secrets_of(keys: bytes, first: int, others: int) -> list[bytes]:
    """The keys that the system gave one after the other, their keystreams, and the keys and keystreams they lead to.

    The first is used for so many flips, each of the others for so many at most. AES computed apart from the coins;
    a key schedule begins with the key.
    """
    found = []
    for number, start in enumerate(range(0, len(keys), KEY_BYTES)):
        key = keys[start : start + KEY_BYTES]
        for _ in range(0, first if number == 0 else others, _BLOCK):
            stream = _keystream(key, KEY_BYTES + min(_BLOCK, first if number == 0 else others))
            found += [key, stream]
            key = stream[:KEY_BYTES]
    return found


def _keystream(key: bytes, size: int) -> bytes:
    return Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(bytes(size))
