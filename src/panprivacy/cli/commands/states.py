"""`panprivacy show`, `release`, `merge`, `rerandomize`, `replace-shard` and `grow`: what can be done with a state."""

from contextlib import ExitStack
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from panprivacy.cli.options import Csv, Json, Level, Plot, StatePath, WholeNumber, option
from panprivacy.cli.output import Output, as_fields, as_line
from panprivacy.errors import InvalidValue, PanPrivacyError

if TYPE_CHECKING:
    from panprivacy.state import StateFile


def show(state: StatePath, /, *, plot: Plot = None, as_json: Json = False, as_csv: Csv = False) -> None:
    """Show what a state counts, what it has spent, and its last release; this costs nothing.

    Example: [bold]panprivacy show flu.pp[/bold]
    """
    from panprivacy.cli.run import KeptFolder, is_folder
    from panprivacy.estimates.plots import check_picture
    from panprivacy.state import StateFile

    check_picture(plot)
    est: Any
    folder = None
    if is_folder(state):
        with KeptFolder(state) as kept:
            est, folder = kept.opened(), kept.folder
    else:
        est = StateFile(state).load()
    shards = {} if folder is None else {"shards": folder.shards, "shards_behind": folder.shards_behind}
    output = Output(as_json=as_json, as_csv=as_csv, quiet=True)
    last = None if est.TRAITS.unit == "moves" else est.last
    if last is None and (plot is not None or as_csv):
        raise PanPrivacyError(f"{state}: no release was made yet, which --plot or --csv could show", code="no-release")
    if last is not None and plot is not None:
        last.plot(plot)
    if not as_csv:
        output.answer(_described(est) | shards if as_json else folder or est)
    if not as_json and last is not None:
        output.answer(last)
    if shards.get("shards_behind"):
        Output().note(
            f"{state}: a rerandomisation broke off, and {shards['shards_behind']} of {shards['shards']} shards are as "
            f"they were: panprivacy rerandomize {state} finishes it"
        )


def _described(est: Any) -> dict[str, Any]:
    """What a state is and has spent; of a `Continual`, moves where others have releases."""
    budget = est.budget
    common = {
        "estimator": type(est).__name__,
        "universe": est.universe.describe(),
        "memory": est.memory,
        "secure": est.secure,
        "epsilon": est.epsilon,
        "epsilon_spent": budget.spent,
        "epsilon_remaining": budget.remaining,
        "delta": budget.delta,
        "delta_spent": budget.delta_spent,
    }
    if est.TRAITS.unit == "moves":
        return common | {"moves": budget.moves, "moves_left": est.moves_left}
    return common | {
        "releases": budget.releases,
        "releases_made": budget.releases_made,
        "noise_stderr": budget.noise_stderr,
        "intrusions": budget.redraws,
        "rerandomizations_made": budget.redraws_made,
        "last": as_fields(est.last) if est.last is not None else None,
    }


def release(
    state: StatePath, /, *, plot: Plot = None, level: Level = 0.95, as_json: Json = False, as_csv: Csv = False
) -> None:
    """Make one of the planned releases of a state, and print the answer.

    Example: [bold]panprivacy release flu.pp --level 0.99[/bold]

    A release spends privacy budget, which is recorded on disk before the answer is printed.
    """
    from panprivacy.cli.run import Run, kept_in, load_estimator
    from panprivacy.cli.schedule import AtTheEnd
    from panprivacy.estimates.plots import check_picture

    check_picture(plot)
    with kept_in(state) as kept:
        assert kept is not None
        output = Output(as_json=as_json, as_csv=as_csv)
        AtTheEnd(Run(load_estimator(kept), kept, level, output, plot)).release()


def rerandomize(state: StatePath, /) -> None:
    """Redraw the bits of a state after an announced reading, so that a second reading adds little to the first.

    Example: [bold]panprivacy rerandomize flu.pp[/bold]

    The state must have been made with --intrusions, which plans how often this can be done.
    """
    from panprivacy.cli.run import KeptFolder, kept_in, load_estimator

    with kept_in(state) as kept:
        assert kept is not None
        est = load_estimator(kept)
        if isinstance(kept, KeptFolder):
            kept.folder.rerandomize()
        else:
            est.rerandomize()
            est.save(kept)
        budget = est.budget
        Output().note(f"{state}: every bit is redrawn; {budget.redraws - budget.redraws_made} more planned")


def replace_shard(
    folder: Annotated[str, option("The state folder, or its URL.", "FOLDER/")],
    number: Annotated[int, option("The number in the name of the shard that is lost or corrupt.", "NUMBER")],
    /,
) -> None:
    """Replace a lost or corrupt shard of a state folder by a new one, so that the folder can be used again.

    Example: [bold]panprivacy replace-shard flu/ 7[/bold]

    First look for a copy of the shard: the users of a new shard count as absent until they come again.
    """
    from panprivacy.folder import StateFolder

    share = StateFolder(folder).replace_shard(number)
    Output().note(
        f"{folder}: shard {number} is new; its users, {share:.2%} of all, count as absent until they come again, and "
        "later releases are too low by about that share"
    )


def merge(
    states: Annotated[list[str], Parameter(metavar="STATE.pp", show=False)],
    /,
    *,
    target: Annotated[
        str, Parameter(("--output", "-o"), metavar="FILE.pp", help="File for the merged state; it must not exist yet.")
    ],
    overlapping: Annotated[
        bool, option("For states of distinct: some users may be counted in several of them.")
    ] = False,
    keep_parts: Annotated[
        bool, option("Keep the files of the parts; by default they are overwritten and deleted.")
    ] = False,
) -> None:
    """Join state files into one: the shards of a density, or states of distinct with the same key.

    Example: [bold]panprivacy merge north.pp south.pp -o all.pp[/bold]

    Once the merged state is on disk, the files of its parts are overwritten and deleted, since an old
    copy of a state is one more reading of it.
    """
    from panprivacy.cli.run import kept_in
    from panprivacy.estimators.merge import merge as merge_estimators
    from panprivacy.state import StateFile

    with kept_in(target, folders=False) as kept, ExitStack() as locks:
        assert isinstance(kept, StateFile)
        if kept.exists:
            raise FileExistsError(None, "there is a file already; choose another name", target)
        files, parts = _parts(states, locks)
        merged: Any = merge_estimators(parts, overlapping=overlapping)
        after = f"are kept: reading them beside {target} is a second reading of their users; delete them soon"
        if keep_parts:
            merged.save(kept)
        else:
            _take_over(merged, kept, files)  # before any note: standard error may be closed
            after = f"are overwritten and deleted: {target} has taken over"
        output = Output()
        output.note(f"{target}: {as_line(merged)}")
        if getattr(merged, "population", merged.universe.size) < merged.universe.size:
            output.note(
                f"{target}: its {len(states)} shards hold {merged.users:,} of {merged.universe.describe()}; the others "
                "are not counted until their shards are merged, too"
            )
        output.note(f"{' and '.join(states)} {after}")


def _parts(states: list[str], locks: ExitStack) -> "tuple[list[StateFile], list[Any]]":
    """The files of the parts of a merge, each of which is named once, and their estimators."""
    from panprivacy.cli.run import refuse_folder
    from panprivacy.state import StateFile

    if len(states) < 2:
        raise InvalidValue(f"{states[0]} alone is nothing to merge: name all of its parts", code="one-part")
    for state in states:
        refuse_folder(state)
    files = [StateFile(state) for state in states]
    for one, other in combinations(files, 2):
        if one.same_as(other):
            raise InvalidValue(f"{one.path} and {other.path} are one file: name each part once", code="same-part")
    for file in files:
        locks.enter_context(file.locked())
    parts: list[Any] = [file.load() for file in files]
    if len({getattr(part.universe, "key", None) for part in parts} - {None}) > 1:
        raise PanPrivacyError(
            f"{' and '.join(states)} have different keys: states of distinct can be merged if they were made with the "
            "same --key HEX, such as openssl rand -hex 16 prints",
            code="another-key",
        )
    return files, parts


def _take_over(merged: Any, kept: "StateFile", files: "list[StateFile]") -> None:
    """Save a merge and erase its parts; after a crash in between, the next command that opens a part erases it."""
    for file in files:
        file.leave_to(kept)
    try:
        merged.save(kept)
    except BaseException:
        if not kept.exists:
            for file in files:
                file.stay()
        raise
    for file in files:
        file.erase()


def grow(
    state: StatePath,
    /,
    *,
    old: Annotated[
        str | None, Parameter("--from", metavar="FILE[:COLUMN]", help="The list of users that the state was made with.")
    ] = None,
    new: Annotated[
        str | None,
        Parameter("--to", metavar="FILE[:COLUMN]", help="The new list: all users of the old one, and new users."),
    ] = None,
    universe: Annotated[
        int | None, WholeNumber, option("Instead of lists: the new number of users, with ids 0 to N-1.")
    ] = None,
) -> None:
    """Add users to the universe of a state that `density` or `counts` made; this spends no epsilon.

    Example: [bold]panprivacy grow flu.pp --from patients.csv:id --to patients-june.csv:id[/bold]

    The state knows only a fingerprint of its list, so the old list has to be given, too. From then on, feed the state
    with --universe-file and the new list.
    """
    from panprivacy.cli.run import kept_in
    from panprivacy.ingest import read_ids, split_column
    from panprivacy.state import StateFile
    from panprivacy.universe import Users

    with kept_in(state, folders=False) as kept:
        assert isinstance(kept, StateFile)
        if universe is not None and (old is not None or new is not None):
            raise InvalidValue(
                "--universe N is for ids 0 .. N-1, --from and --to are for lists: give one or the other",
                code="two-universes",
            )
        if universe is not None:
            est = _growable(kept, None)
            est.grow(universe)
        elif old is not None and new is not None:
            smaller, larger = (Users(read_ids(*split_column(given))) for given in (old, new))
            est = _growable(kept, smaller)
            larger.check_holds(smaller)
            est.grow(larger)
        else:
            raise InvalidValue(
                "which users join? Say --from OLD --to NEW for a list, --universe N for ids 0 .. N-1",
                code="which-universe",
            )
        est.save(kept)
        Output().note(f"{state}: the universe now is {est.universe.describe()}")


def _growable(file: "StateFile", universe: Any) -> Any:
    """The estimator in a file, if it can grow."""
    from panprivacy.cli.run import load_estimator
    from panprivacy.universe.open import OpenUniverse

    est = load_estimator(file, universe)
    if not hasattr(est, "grow"):
        kind = type(est).__name__
        why = (
            f"a {kind} has no list of users that could grow: it takes anybody"
            if isinstance(est.universe, OpenUniverse)
            else f"a {kind} cannot grow: its key would give other users the bits that are there"
        )
        raise PanPrivacyError(f"{file.path}: {why}", code="cannot-grow")
    return est
