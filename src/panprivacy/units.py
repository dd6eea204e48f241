"""Numbers as people write them: memory, and how many of something."""

import re

from panprivacy.errors import InvalidType, InvalidValue

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def parse_bytes(text: str | int) -> int:
    """Read ``"16 KiB"``, ``"2MB"`` or a plain number of bytes.

    >>> parse_bytes("16 KiB"), parse_bytes("2MB"), parse_bytes(512)
    (16384, 2000000, 512)
    """
    if isinstance(text, int) and not isinstance(text, bool):
        size = text
    elif not isinstance(text, str):
        raise InvalidType(
            f'memory is text like "16 KiB" or a number of bytes, got a {type(text).__name__}', code="memory-type"
        )
    else:
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", text.lower())
        if not match or (match[2] or "b") not in _UNITS:
            raise InvalidValue(
                f'memory {text!r} is not understood; write it like "16 KiB" or "2 MB"', code="memory-format"
            )
        size = int(float(match[1]) * _UNITS[match[2] or "b"])
    if size < 1:
        raise InvalidValue(f"memory must be at least one byte, got {text!r}", code="memory-range")
    return size


def counted(number: int, thing: str) -> str:
    """Say how many there are of something.

    >>> counted(1, "field"), counted(2000, "field")
    ('1 field', '2,000 fields')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def format_bytes(size: int) -> str:
    """Write a number of bytes the same way.

    >>> format_bytes(16384), format_bytes(100)
    ('16.0 KiB', '100 B')
    """
    for unit in ("GiB", "MiB", "KiB"):
        if size >= _UNITS[unit.lower()]:
            return f"{size / _UNITS[unit.lower()]:.1f} {unit}"
    return f"{size} B"


def magnitude(number: int, least: int) -> int:
    """A number rounded down to a power of ten, or 0 if it is below `least`: too coarse to tell of single events.

    >>> magnitude(99, 100), magnitude(100, 100), magnitude(54_321, 100)
    (0, 100, 10000)
    """
    return 0 if number < least else 10 ** (len(str(number)) - 1)
