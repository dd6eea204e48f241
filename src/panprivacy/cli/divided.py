"""The groups of a series, each as a series of its own."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from panprivacy.release import CategoryRelease, CountRelease, GroupDensity, Release

Alone = Release | CountRelease
"""A release with a number for all."""

ALL = None
"""Stands for all users, where groups stand by their labels: a group may be called anything."""


def by_group(releases: Sequence[Any]) -> dict[str | None, list[Alone]]:
    """The releases of each group by its label, with those of all users first, where they are released too."""
    if not releases:
        return {ALL: []}
    first = releases[0]
    found: dict[str | None, list[Alone]] = {} if isinstance(first, CategoryRelease) else {ALL: list(releases)}
    for place, row in enumerate(first.groups):
        found[str(row.group)] = [_alone(release, place) for release in releases]
    return found


def _alone(release: Any, place: int) -> Alone:
    """One group of a release, as if nothing else had been released."""
    row = release.groups[place]
    kind = Release if isinstance(row, GroupDensity) else CountRelease
    known = {each.name for each in fields(kind)} - {"groups"}
    of_row = {each.name: getattr(row, each.name) for each in fields(row) if each.name in known}
    return kind(**{name: getattr(release, name) for name in known - set(of_row)}, **of_row)
