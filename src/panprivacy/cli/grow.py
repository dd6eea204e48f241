"""`panprivacy grow`: more users for a state of `density` or `counts`."""

from typing import Annotated, Any

import typer

from panprivacy.cli.numbers import whole_number
from panprivacy.cli.plainly import Speaker, plain_errors
from panprivacy.cli.run import kept_in, load_estimator
from panprivacy.cli.states import StatePath
from panprivacy.errors import PanPrivacyError
from panprivacy.estimator import Estimator
from panprivacy.events import read_ids, split_column
from panprivacy.growing import Growing
from panprivacy.state import StateFile
from panprivacy.universe import Users
from panprivacy.universe.anyone import Anyone
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
            "--universe",
            "-n",
            metavar="N",
            parser=whole_number,
            help="Instead of lists: the new number of users, with ids 0 to N-1.",
        ),
    ] = None,
) -> None:
    """Take more users into the universe of a state that `density` or `counts` made; this spends no epsilon.

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


def _loaded(file: StateFile, universe: Users | None) -> Growing[Any]:
    est = load_estimator(file, universe)
    if not isinstance(est, Growing):
        raise PanPrivacyError(f"{file.path}: {_why_not(est)}")
    return est


def _why_not(est: Estimator[Any]) -> str:
    """Why an estimator does not grow."""
    kind = type(est).__name__
    if isinstance(est.universe, Anyone):
        return f"a {kind} has no list of users that could grow: it takes anybody"
    return f"a {kind} cannot grow: its key would give other users the bits that are there"
