"""`--by COLUMN --categories A,B,C`: events in categories, and pictures of groups."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from panprivacy.drawing import check_picture
from panprivacy.errors import PanPrivacyError
from panprivacy.events import read_ids, split_column

MOST_DRAWN = 8
"""Groups that a picture of a series has room for, a panel each."""


@dataclass(frozen=True)
class ByCategory:
    """The options that say which categories events can be in."""

    by: str | None
    """The column of the events that has the category."""
    listed: str | None
    """Categories with commas between them, or the file that lists them."""
    other: bool

    def arguments(self) -> dict[str, Any]:
        """What a new estimator is built with."""
        if self.by is None:
            if self.listed is not None or self.other:
                raise ValueError("which column holds the category of an event? Say --by NAME")
            return {}
        if self.listed is None:
            raise ValueError("which categories are there? Say --categories A,B,C, or a FILE that lists them")
        return {"categories": _parsed(self.listed), "other": self.other}

    def check(self, est: Any) -> None:
        """Refuse to go on with a state whose categories are not those that were asked for."""
        if est.categories is None:
            if self.by is not None:
                raise PanPrivacyError("this state does not count by category: leave --by out")
            return
        if self.by is None:
            raise ValueError("this state counts by category: say --by NAME, the column that holds it")
        asked = self.arguments()["categories"] if self.listed is not None else None
        labels = est.categories.labels[: len(est.categories.labels) - est.categories.other]
        if asked is not None and list(labels) != asked:
            raise PanPrivacyError(f"this state has categories {_named(labels)}, and {_named(asked)} were asked for")
        if self.other and not est.categories.other:
            raise PanPrivacyError("this state refuses categories that are not listed: leave --other out")

    def picture(self, path: str | None, every: str | None) -> str | None:
        """Where the groups of a release are drawn: nowhere, if the picture is that of a series."""
        return path if every is None else None


def check_groups_picture(est: Any, path: str) -> None:
    """Refuse a picture of groups that could not be drawn, before anything is read or spent."""
    if not getattr(est, "groups", ()):
        raise ValueError(
            "--plot draws a series of releases: say --release-every 7d, and for files --time NAME; or groups: say --by "
            "or --group"
        )
    check_picture(path)


def check_series_picture(est: Any, path: str) -> None:
    """Refuse a picture of a series that could not be drawn, before anything is read or spent."""
    check_picture(path)
    if len(getattr(est, "groups", ())) > MOST_DRAWN:
        raise ValueError(
            f"a series of {len(est.groups):,} groups is not drawn, since there is room for {MOST_DRAWN}: leave --plot "
            "out, and draw what --json prints"
        )


def _parsed(text: str) -> list[str]:
    """The categories, as text: those of a file in its order, each once."""
    file, column = split_column(text)
    if Path(file).is_file():
        import polars as pl

        labels = read_ids(file, column, "category").cast(pl.String).unique(maintain_order=True).to_list()
    else:
        labels = [label.strip() for label in text.split(",")]
    if "" in labels:
        raise ValueError(f"--categories {text}: one of the names is empty")
    return labels


def _named(labels: Any) -> str:
    return ", ".join(map(str, labels[:8])) + (", ..." if len(labels) > 8 else "")
