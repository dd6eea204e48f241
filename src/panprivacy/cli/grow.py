"""`panprivacy grow`: more users for a state of `density`."""

from typing import Annotated

import typer

from panprivacy.cli.plainly import Speaker, plain_errors
from panprivacy.cli.run import kept_in, load_estimator
from panprivacy.cli.states import StatePath
from panprivacy.density import Density
from panprivacy.errors import PanPrivacyError
from panprivacy.events import read_ids, split_column
from panprivacy.state import StateFile
from panprivacy.universe import Users
from panprivacy.universe.growth import check_holds


def grow(
    state: StatePath,
    old: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE[:COLUMN]", help="The list of users that the state was made with."),
    ] = None,
    new: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="FILE[:COLUMN]", help="The new list: all users of the old one, and those who join."
        ),
    ] = None,
    universe: Annotated[
        int | None,
        typer.Option(
            "--universe", "-n", metavar="N", help="Instead of lists: the new number of users, with ids 0 to N-1."
        ),
    ] = None,
) -> None:
    """Take more users into the universe of a state that `panprivacy density` made; this spends no epsilon.

    Example: [bold]panprivacy grow flu.pp --from patients.csv:id --to patients-june.csv:id[/bold]

    The state knows only a fingerprint of its list, so the old list has to be given, too. From then on, feed the state
    with --universe-file and the new list.
    """
    with plain_errors(), kept_in(state) as kept:
        assert kept is not None
        if universe is not None and (old is not None or new is not None):
            raise ValueError("--universe N is for ids 0 .. N-1, --from and --to are for lists: give one or the other")
        if universe is not None:
            est = _loaded(kept, None)
            est.grow(universe)
        elif old is not None and new is not None:
            smaller, larger = (Users(read_ids(*split_column(given))) for given in (old, new))
            est = _loaded(kept, smaller)
            check_holds(larger, smaller)
            est.grow(larger)
        else:
            raise ValueError("which users join? Say --from OLD --to NEW for a list, --universe N for ids 0 .. N-1")
        est.save(kept)
        Speaker(as_json=False, quiet=False).note(f"{state}: the universe now is {est.universe.describe()}")


def _loaded(file: StateFile, universe: Users | None) -> Density:
    est = load_estimator(file, universe)
    if not isinstance(est, Density):
        raise PanPrivacyError(f"{file.path}: a {type(est).__name__} has no list of users that could grow")
    return est
