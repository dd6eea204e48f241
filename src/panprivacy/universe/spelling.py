"""Spellings: ids that differ only in leading zeros, upper and lower case, surrounding space or Unicode form.

A list holds ``00001``, and a file that went through a spreadsheet holds ``1``. Read as they are written, all events are
strangers'. `normalized` writes both sides alike; `respelled` finds out that they are not written alike.
"""

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import normalize as unicode_form

import numpy as np

from panprivacy.errors import InvalidType, InvalidValue
from panprivacy.universe.columns import is_polars

if TYPE_CHECKING:
    import polars as pl

SPELLINGS = ("strip", "nfc", "case", "zeros")
"""What `normalize` can take away: surrounding space, Unicode forms, upper case, leading zeros (and a trailing .0)."""
_LONGEST = 64  # characters of an id of digits that leading zeros are looked for in


def parse_normalize(given: Any) -> tuple[str, ...] | None:
    """What to take away, in the order in which it is done: names in a list or in one text; None if nothing was said.

    >>> parse_normalize("zeros,strip"), parse_normalize("all"), parse_normalize("none"), parse_normalize(None)
    (('strip', 'zeros'), ('strip', 'nfc', 'case', 'zeros'), (), None)
    """
    if given is None:
        return None
    if not isinstance(given, str | Iterable):
        raise InvalidType(
            f"normalize is a list of {', '.join(SPELLINGS)}, got a {type(given).__name__}", code="normalize-type"
        )
    names = [name.strip().lower() for name in (given.split(",") if isinstance(given, str) else map(str, given))]
    names = {"all": list(SPELLINGS), "none": []}.get(",".join(names), names)
    unknown = next((name for name in names if name not in SPELLINGS), None)
    if unknown is not None:
        raise InvalidValue(
            f"normalize takes {', '.join(SPELLINGS)}, all or none, got {unknown!r}", code="normalize-unknown"
        )
    return tuple(name for name in SPELLINGS if name in names)


def normalized(texts: "pl.Series", how: tuple[str, ...]) -> "pl.Series":
    """Texts without what `how` takes away.

    >>> import polars as pl
    >>> normalized(pl.Series([" 007", "Ada", "7.0", "0"]), ("strip", "case", "zeros")).to_list()
    ['7', 'ada', '7', '0']
    """
    steps: dict[str, Callable[[pl.Series], pl.Series]] = {
        "strip": lambda column: column.str.strip_chars(),
        "nfc": lambda column: column.str.normalize("NFC"),
        "case": lambda column: column.str.to_lowercase(),
        "zeros": lambda column: column.str.replace(r"^([0-9]+)\.0+$", "$1").str.replace("^0+([0-9]+)$", "$1"),
    }
    for name in how:
        texts = steps[name](texts)
    return texts


def as_texts(ids: Any) -> "pl.Series | None":
    """Texts and integers as a column of text; None if something else is among them."""
    import polars as pl

    if is_polars(ids) or (isinstance(ids, np.ndarray) and ids.dtype.kind in "iu"):
        series = pl.Series(ids)
        text = series.dtype.is_integer() or str(series.dtype.base_type()) in ("String", "Categorical", "Enum")
        return series.cast(pl.String) if text else None
    try:
        if all(isinstance(user, str | int | np.integer) and not isinstance(user, bool) for user in ids):
            return pl.Series(
                [str.__str__(user) if isinstance(user, str) else str(int(user)) for user in ids], dtype=pl.String
            )
    except UnicodeEncodeError:  # half a character: no column holds it
        pass
    return None


def refuse_merged(given: "pl.Series", how: tuple[str, ...]) -> "pl.Series":
    """The normalized ids of a list; two users who become one are refused."""
    import polars as pl

    texts = normalized(given, how)
    if texts.n_unique() < given.n_unique():
        pairs = (
            pl.DataFrame({"given": given, "text": texts})
            .unique()
            .filter(pl.col("text").is_duplicated())
            .sort("text", "given")
        )
        one, other = pairs["given"][:2]
        raise InvalidValue(
            f"users {one!r} and {other!r} become one with normalize={','.join(how)!r}: leave one of them out, or "
            "normalize less",
            code="users-become-one",
        )
    return texts


class Lookalike(NamedTuple):
    """A stranger whom the list of users spells otherwise."""

    stranger: str
    listed: str
    how: str
    """What `normalize` would have to take away."""
    column: int = 0
    """The column that it is in: 0, or 1 for the second end of an edge."""


def respelled(user: Any, is_listed: Callable[[str], bool], widths: Iterable[int]) -> Lookalike | None:
    """The listed user that a stranger equals but for the spelling, if trying the usual spellings finds one.

    `widths` are the lengths of listed ids with leading zeros.

    >>> respelled(1, {"00001"}.__contains__, [5])
    Lookalike(stranger='1', listed='00001', how='zeros', column=0)
    >>> respelled(" ADA", {"ada"}.__contains__, [])[1:3]
    ('ada', 'strip,case')
    """
    if isinstance(user, bool) or not isinstance(user, str | int | np.integer):
        return None
    text = str(user)
    forms = dict.fromkeys(unicode_form(form, each) for each in (text, text.strip()) for form in ("NFC", "NFD"))
    cases = dict.fromkeys(each for form in (text, *forms) for each in (form, form.lower(), form.upper(), form.title()))
    for case in cases:
        for found in (case, *_zeros(case, widths)):
            if found != text and is_listed(found):
                return Lookalike(text, found, difference(text, found))
    return None


def difference(one: str, other: str) -> str:
    """The least that `normalize` has to take away so that two texts are one.

    >>> difference("007", "7.0"), difference("Ada ", "ada")
    ('zeros', 'strip,case')
    """
    import polars as pl

    both = pl.Series([one, other])
    for some in range(1, len(SPELLINGS)):
        for how in combinations(SPELLINGS, some):
            if normalized(both, how).n_unique() == 1:
                return ",".join(how)
    return "all"


def _zeros(text: str, widths: Iterable[int]) -> list[str]:
    """The other ways to write a text of digits: without leading zeros and .0, or with as many zeros as listed ids."""
    whole, _, rest = text.partition(".")
    if len(text) > _LONGEST or not (whole.isascii() and whole.isdigit()) or rest.strip("0") or text.endswith("."):
        return []
    bare = whole.lstrip("0") or "0"
    return [whole, bare, *(bare.zfill(width) for width in widths)]
