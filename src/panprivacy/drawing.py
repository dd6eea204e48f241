"""What all pictures share: one look, the files that can be written, and what to install if they cannot be drawn."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panprivacy.errors import PanPrivacyError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
"""Endings of the files that a picture can be written to."""

BLACK, BLUE, SKY, GREEN = "#000000", "#0072B2", "#56B4E9", "#009E73"
ORANGE, RED, PINK, GREY = "#E69F00", "#D55E00", "#CC79A7", "#6b6b6b"
"""The colours of Okabe and Ito, which all kinds of eyes tell apart, and a grey for what is not data."""

COLOURS = {
    "Dwork": RED,
    "OptBern": BLUE,
    "PPDS": GREEN,
    "FixedLevelPPDS": PINK,
    "Density": BLACK,
    "DistinctCount": ORANGE,
    "Continual": RED,
    "Counts": SKY,
}
"""An algorithm has the same colour in every picture. `Continual` is never drawn beside Dwork's."""

NOT_PRIVATE: dict[str, Any] = {"linestyle": (0, (4, 1.5)), "markerfacecolor": "white"}
"""How the line of an algorithm that is not private is drawn, in every picture: dashed, with hollow markers."""

_LOOK: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "svg.hashsalt": "panprivacy",  # the same picture is the same file
}


class CannotDraw(PanPrivacyError):
    """Matplotlib, which draws the pictures, is not installed; the message says how to install it."""


def check_installed() -> None:
    """Refuse before anything is read or spent, if pictures cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise CannotDraw(
            "pictures need matplotlib: pip install 'panprivacy[plot]', or pip install '.[plot]' in a checkout"
        )


def check_picture(path: str | Path) -> None:
    """Refuse a picture that could not be drawn or written, before anything is read or spent.

    >>> check_picture("plan.doc")
    Traceback (most recent call last):
        ...
    ValueError: cannot draw plan.doc: use a name that ends in .png, .svg or .pdf
    """
    where = Path(path)
    if where.suffix.lower() not in FORMATS:
        raise ValueError(f"cannot draw {path}: use a name that ends in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if not where.parent.is_dir():
        raise ValueError(f"cannot draw {path}: there is no folder {where.parent}")
    check_installed()


@contextmanager
def look() -> Iterator[None]:
    """Draw and save in the look of all pictures."""
    check_installed()
    import matplotlib as mpl

    with mpl.rc_context(_LOOK):
        yield


def save(figure: "Figure", path: str | Path) -> None:
    """Write a picture; the same picture is the same file, whenever it is drawn, and an error names the file."""
    where = Path(path)
    dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    try:
        figure.savefig(where, metadata=dated.get(where.suffix.lower()))
    except OSError as error:
        error.filename = error.filename or str(where)  # a full disk does not say whose file it cut short
        raise
