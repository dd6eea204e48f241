"""From batches of columns to the verbs of an estimator, and to the times of their rows."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.display import counted
from panprivacy.errors import OutsideUniverse, PanPrivacyError
from panprivacy.estimators.base import Estimator
from panprivacy.ingest.batch import REPEATS_HEADER, BadInput, Batch, Columns, Hint
from panprivacy.ingest.columnar import kind_of
from panprivacy.memory.scratch import Scratch
from panprivacy.periods import moments_in
from panprivacy.universe import Edges
from panprivacy.universe.categories import GATHERED
from panprivacy.universe.range import first_of
from panprivacy.universe.spelling import normalized
from panprivacy.universe.strangers import listed_in, lookalike_among

if TYPE_CHECKING:
    import polars as pl


WRITTEN = (
    "write it like 2026-01-31, 2026-01-31T12:00 or 2026-01-31 12:00:00+01:00, or as seconds since 1970, of ten digits, "
    "or milliseconds, of thirteen"
)
"""How times are written."""
_INSERT = ("insert", "add", "+", "1")
_DELETE = ("delete", "remove", "-", "-1")
_NO_DELETIONS = ("no-deletions", "no-deletions-planned", "period-over")  # codes of estimators that take none now


class BatchFeeder:
    r"""Feeds batches to an estimator: insertions, deletions, missing ids.

    With an action column the order of one user's events matters, and only the last one does: it redraws the bit
    whatever the bit was, so after a batch each bit has the law of its user's last action and nothing else. Feeding
    only that action, deletions of all users before insertions, leaves the estimator in exactly the distribution
    that feeding row by row would. (In an open universe users may share a bit; there, an insertion wins over
    another user's deletion in the same batch, which errs less.)

    `Counts` adds up instead. It cannot go below 0, so a user's rows in a batch have the effect of some deletions, as
    many as ever outnumber the insertions before them, and then of the insertions that are left. These are fed. A
    user's rows are reckoned up by themselves: nobody else's deletion changes which of them are fed.

    Rows without id are an error, or, with `skip_missing`, left out; rows of users outside the universe likewise, with
    `skip_outside`; and those in no listed category, or with an unknown action, with `skip_unlisted`: so one user's rows
    cannot refuse the rows of others. How many rows are left out is neither kept nor told: it would be a count of people
    that nothing protects. If no row at all of the first batch of a file is left, that is an error: then ids are spelled
    otherwise than in the universe. It is an error, too, if one of the first strangers is a listed user but for leading
    zeros, case, surrounding space, Unicode form or a trailing .0. Where rows are `live`, as in a pipe, there is no such
    error: a single user's row would decide whether there is one.
    """

    def __init__(
        self,
        est: Estimator[Any],
        columns: Columns,
        *,
        skip_missing: bool = False,
        skip_outside: bool = False,
        skip_unlisted: bool = False,
        live: bool = False,
    ) -> None:
        self._est: Any = est
        self._columns = columns
        self._skip_missing, self._skip_outside, self._skip_unlisted = skip_missing, skip_outside, skip_unlisted
        self._spelling_checked = live or not skip_outside

    def check(self, batch: Batch) -> None:
        """Say which row of a batch cannot be counted, if there is one, and count nothing."""
        rows = self._complete(batch)
        if self._columns.action is not None:
            self._insertions(batch, rows)
        inside = self._inside(rows)
        if not (self._skip_outside or inside.all()) or not self._known(rows).all():
            raise self._blame(batch)
        self._check_spelling(batch, rows, inside)

    def take(self, batch: Batch) -> None:
        """Count one batch, or say which row of it cannot be."""
        rows = self._complete(batch)
        if self._skip_outside:
            inside = self._inside(rows)
            self._check_spelling(batch, rows, inside)
            rows = rows.filter(inside)
        if "ids" in self._est.TRAITS.options and self._est.ids is None:
            # Ids of an open universe are integers, or text, like those of the first file that it is fed.
            kind = kind_of(rows[self._columns.ids[0]].dtype)
            assert kind is not None, "readers give integers or text"
            self._est.declare_ids(kind.value)
        try:
            if self._columns.action is None:
                self._est.update_many(*self._arguments(rows))
            else:
                self._act(batch, rows)
        except OutsideUniverse:
            raise self._blame(batch) from None

    def _ids(self, rows: "pl.DataFrame") -> Any:
        columns = tuple(rows[name] for name in self._columns.ids)
        return columns[0] if len(columns) == 1 else columns

    def _categories(self, rows: "pl.DataFrame") -> Any:
        """The category of each row, if events are in categories; as integers if the estimator's are."""
        if self._columns.category is None:
            return None
        import polars as pl

        column = rows[self._columns.category]
        return column if isinstance(self._est.groups[0], str) else column.cast(pl.Int64, strict=False)

    def _known(self, rows: "pl.DataFrame") -> Any:
        """Whether the estimator has the category of each row, or gathers it."""
        categories = self._categories(rows)
        if categories is None:
            return np.ones(len(rows), dtype=np.bool_)
        return self._est.categories.known(categories.fill_null(-1) if categories.dtype.is_integer() else categories)

    def _inside(self, rows: "pl.DataFrame") -> Any:
        """Whether the user of each row is in the universe."""
        universe = self._est.universe
        column = universe.as_column(self._ids(rows))
        return universe.inside(column if len(self._columns.ids) == 1 else column[:])

    def _check_spelling(self, batch: Batch, rows: "pl.DataFrame", inside: Any) -> None:
        """Refuse a first batch without any user of the universe, or with a listed user who is spelled otherwise."""
        if self._spelling_checked or not len(rows):
            return
        universe = self._est.universe
        with Scratch() as scratch:
            found = None if inside.all() else lookalike_among(universe, self._ids(rows), inside, scratch)
        if found is not None:
            raise BadInput(
                batch.file,
                f"{self._columns.ids[found.column]} {found.stranger!r} is not in the list of users, and "
                f"{found.listed!r} is, so that rows of a listed user would be left out",
                code="spelled-otherwise",
                hints=(Hint("normalize", found.how),),
            )
        if not inside.any():
            user = tuple(rows[name][0] for name in self._columns.ids)
            listed = listed_in(universe)
            if listed is not None:
                example = f"like {first_of(listed.listed(0, 1), [True])[0]!r} in the list"
            elif isinstance(universe, Edges):
                example = f"0..{universe.count - 1} are the nodes"
            else:
                example = f"0..{universe.size - 1} there"
            raise BadInput(
                batch.file,
                f"no id of its first {counted(len(rows), 'row')} is in the universe, so that all of them would be left "
                f"out: ids are like {user[0] if len(user) == 1 else user!r} here, and {example}; are leading zeros, "
                "upper and lower case, or text and numbers amiss?",
                code="outside-universe",
            )
        self._spelling_checked = True

    def _complete(self, batch: Batch) -> "pl.DataFrame":
        """The rows that have an id, and a category where they need one."""
        rows, needed = batch.rows, self._columns.needed
        if self._skip_unlisted:
            rows = self._listed(rows)
        if not any(rows[name].null_count() for name in needed):
            return rows
        if not self._skip_missing:
            import polars as pl

            row = rows.select(pl.any_horizontal(pl.col(needed).is_null()).arg_true()).to_series()[0]
            what = "id" if any(rows[name][row] is None for name in self._columns.ids) else "category"
            raise bad_row(batch, row, f"the {what} is missing", "missing-value", Hint("skip-missing"))
        return rows.drop_nulls(needed)

    def _listed(self, rows: "pl.DataFrame") -> "pl.DataFrame":
        """The rows in a category that is listed, with an action that is known."""
        import polars as pl

        if self._columns.category is not None:
            rows = rows.filter(rows[self._columns.category].is_not_null())
            with Scratch() as scratch:
                rows = rows.filter(pl.Series(scratch.own(self._known(rows)), dtype=pl.Boolean))
        if self._columns.action is not None:
            rows = rows.filter(self._meanings(rows).is_not_null())
        return rows

    def _act(self, batch: Batch, rows: "pl.DataFrame") -> None:
        insert = self._insertions(batch, rows)
        if insert.all():
            self._est.update_many(*self._arguments(rows))
        elif not insert.any():
            self._take_back(rows)
        else:
            effect = self._effect(rows.with_columns(insert.alias(_INSERTED)))
            # Looked up before the first bit changes: a batch is counted whole or not at all.
            if not (self._inside(rows).all() and self._known(rows).all()):
                raise self._blame(batch)
            gone, come = effect.filter(~effect[_INSERTED]), effect.filter(effect[_INSERTED])
            self._take_back(gone)
            self._est.update_many(*self._arguments(come))

    def _arguments(self, rows: "pl.DataFrame") -> tuple[Any, ...]:
        """The ids, and the categories where there are some: not all estimators know them."""
        categories = self._categories(rows)
        return (self._ids(rows),) if categories is None else (self._ids(rows), categories)

    def _take_back(self, rows: "pl.DataFrame") -> None:
        """Remove users; where that is not possible now, it refuses the batch or is left out, as unknown actions are."""
        try:
            self._est.remove_many(*self._arguments(rows))
        except PanPrivacyError as error:
            if not (self._skip_unlisted and error.code in _NO_DELETIONS):
                raise

    def _insertions(self, batch: Batch, rows: "pl.DataFrame") -> "pl.Series":
        """Whether each row is an insertion."""
        action, insert = self._columns.action, self._meanings(rows)
        assert action is not None
        if insert.null_count():
            numbered = batch.rows.with_row_index(_ROW).drop_nulls(self._columns.needed)
            wrong = numbered.filter(insert.is_null()).row(0, named=True)
            cause = f"action {wrong[action]!r} is neither insert nor delete"
            raise bad_row(batch, wrong[_ROW], cause, "unknown-action")
        return insert

    def _meanings(self, rows: "pl.DataFrame") -> "pl.Series":
        """Whether each row is an insertion; null where its action is neither that nor a deletion."""
        import polars as pl

        assert self._columns.action is not None
        meaning = dict.fromkeys(_INSERT, True) | dict.fromkeys(_DELETE, False)
        spelled = pl.col(self._columns.action).cast(pl.String).str.to_lowercase()
        return rows.select(spelled.replace_strict(meaning, default=None, return_dtype=pl.Boolean)).to_series()

    def _effect(self, rows: "pl.DataFrame") -> "pl.DataFrame":
        """The rows that have the effect of all, deletions before insertions, for each user in each category.

        An edge without direction is one user whichever way round.
        """
        import polars as pl

        names = list(self._columns.ids)
        listed = listed_in(self._est.universe)
        if listed is not None and listed.normalize:  # one user, however spelled
            rows = rows.with_columns(normalized(rows[name], listed.normalize) for name in names)
        if len(names) == 2 and not getattr(self._est.universe, "directed", False):
            source, target = names
            low, high = pl.min_horizontal(source, target), pl.max_horizontal(source, target)
            rows = rows.with_columns(low.alias(source), high.alias(target))
        whose = self._columns.needed
        return rows.unique(subset=whose, keep="last") if self._est.REPEATABLE else _net(rows, whose)

    def _blame(self, batch: Batch) -> BadInput:
        """Name the first row whose id is outside the universe, or whose category is not one of those there are."""
        rows = batch.rows.with_row_index(_ROW).drop_nulls(self._columns.needed)
        inside = self._inside(rows)
        if self._skip_outside or inside.all():
            found = rows.filter(inside)
            found = found.filter(~self._known(found))[0]
            try:
                self._est.categories.codes(self._categories(found), Scratch())
            except (OutsideUniverse, TypeError) as error:
                cause = str(error).removesuffix("; nothing was changed").removesuffix(GATHERED)
            return bad_row(batch, found[_ROW].item(), cause, "unknown-category", Hint("other"))
        found = rows.filter(np.logical_not(inside, out=inside))[0]
        row, user = found[_ROW].item(), tuple(found[name].item() for name in self._columns.ids)
        if user == self._columns.ids:
            return bad_row(batch, row, REPEATS_HEADER, "outside-universe")
        listed, skip = listed_in(self._est.universe), Hint("skip-outside")
        spelled = listed.respelled(user[0]) if listed is not None and len(user) == 1 else None
        if spelled is not None:
            cause = f"user {user[0]!r} is outside the listed users, where it is spelled {spelled.listed!r}"
            hints = (Hint("normalize", spelled.how), skip)
            return BadInput(batch.file, cause, batch.before + row + 1, code="outside-universe", hints=hints)
        try:
            self._est.universe.index(user[0] if len(user) == 1 else user)
        except OutsideUniverse as error:
            cause = str(error).removesuffix("; nothing was changed")
        return bad_row(batch, row, cause, "outside-universe", skip)


_ROW, _INSERTED = "\0row", "\0insert"  # names that no column of a file has


def _net(rows: "pl.DataFrame", whose: list[str]) -> "pl.DataFrame":
    """As many deletions and insertions of each user as have the effect of all its rows on a count of 0 or more."""
    import polars as pl

    inserted = pl.col(_INSERTED)
    risen = pl.when(inserted).then(1).otherwise(-1).cum_sum()
    lowest = pl.min_horizontal(risen.min(), 0)
    kept = pl.when(inserted).then(risen.last() - lowest).otherwise(-lowest)
    nth = pl.when(inserted).then(inserted.cum_sum()).otherwise((~inserted).cum_sum())
    return rows.filter((nth.cast(pl.Int64) <= kept).over(whose))


def moments_of_rows(
    batch: Batch, column: str, scratch: Scratch, without: int | None = None, tz: str | None = None
) -> NDArray[np.int64]:
    """The times of a batch, or which row has none; `without` is the moment of such a row, if it is no error."""
    times = batch.rows[column]
    moments = moments_in(times, tz)
    if moments.null_count() and without is not None:
        moments = moments.fill_null(without)
    if moments.null_count():
        row = int(moments.is_null().arg_max() or 0)
        found = times.to_physical()[row]
        cause = REPEATS_HEADER if found == column else f"{column} {found!r} is not a time; {WRITTEN}"
        raise BadInput(batch.file, cause, batch.before + row + 1, code="untimely")
    return scratch.own(moments.to_numpy().copy())  # what Polars has may be a page of the file itself


def chosen_rows(batch: Batch, rows: NDArray[np.bool_] | None, scratch: Scratch) -> Batch:
    """The rows of a batch that a mask chooses; None chooses all."""
    return batch if rows is None else replace(batch, rows=batch.rows[scratch.own(np.flatnonzero(rows))])


def bad_row(batch: Batch, row: int, cause: str, code: str = "untimely", *hints: Hint) -> BadInput:
    """What to say of a row of a batch; without a code, its time is wrong."""
    return BadInput(batch.file, cause, batch.before + row + 1, code=code, hints=hints)
