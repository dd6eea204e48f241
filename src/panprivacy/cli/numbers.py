"""Whole numbers as people write them on a command line."""

import re

import typer

_THOUSANDS = {"k": 1_000, "m": 1_000_000, "b": 1_000_000_000, "": 1}


def whole_number(text: str) -> int:
    """The number that an option says; of one that is written in another way, how to write it.

    >>> whole_number("100000")
    100000
    """
    try:
        return int(text)
    except ValueError:
        meant = _meant(text)
        hint = "" if meant is None else f"; write {meant}"
        raise typer.BadParameter(f"{text!r} is not a whole number{hint}") from None


def _meant(text: str) -> int | None:
    """What somebody may have meant, if it is one number without doubt.

    >>> [_meant(text) for text in ("100k", "1.5M", "100,000", "1e6", "1 000", "1,5", "many")]
    [100000, 1500000, 100000, 1000000, 1000, None, None]
    """
    if re.fullmatch(r"[0-9]{1,3}([, '][0-9]{3})+", text):
        return int(re.sub("[, ']", "", text))
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)([kmb]?)", text.lower())
    number = float(match[1]) * _THOUSANDS[match[2]] if match else 0.5
    return int(number) if number.is_integer() else None
