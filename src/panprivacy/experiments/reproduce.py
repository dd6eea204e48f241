"""A whole reproduction: cells, tables, pictures, claims, report.

Cells are computed on several cores. Finished ones are kept on disk, so that an interrupted reproduction continues.
"""

import hashlib
import multiprocessing
import os
import platform
import signal
from base64 import b64encode
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from html import escape
from importlib.metadata import version
from pathlib import Path

import numpy as np
import polars as pl

from panprivacy.errors import InvalidValue
from panprivacy.experiments import claims
from panprivacy.experiments.cells import FULL, Cell, Scale
from panprivacy.experiments.claims import Claim, Of, Verdict
from panprivacy.experiments.figures import STUDIES
from panprivacy.experiments.study import DATA, PICTURES, Study, save

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; vertical-align: top; padding: 0.4rem 0.6rem; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #888; }
td.verdict { white-space: nowrap; font-weight: 600; }
.holds { color: #00694c; } .fails { color: #b03a00; } .open { color: #666; }
figure { margin: 2.5rem 0; } figure img { max-width: 100%; } figcaption { color: #444; font-size: 0.9rem; }
.note { color: #444; }
"""

_CLASSES = {Verdict.HOLDS: ("holds", "&#10003;"), Verdict.FAILS: ("fails", "&#10007;"), Verdict.OPEN: ("open", "?")}


def page(reproduction: "Reproduction", claims: Sequence[Claim]) -> str:
    """The whole page, pictures and all: it needs no other file."""
    figures = "\n".join(_figure(study, reproduction.out) for study in reproduction.studies)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>panprivacy: the paper's experiments, reproduced</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Improved Pan-Private Stream Density Estimation, reproduced</h1>
<p>Section 6 of the paper by Digalakis, Karystinos and Garofalakis, run again with its algorithms exactly as printed,
and three figures that it does not have. {_summary(claims)}</p>
<h2>Claims</h2>
<p class="note">Intervals are estimate (low to high). A claim is judged by intervals that all contain the truth but for
a probability of 1 in 10,000: it <b>holds</b> if they bear it out, it <b>does not hold</b> if they rule it out, and it
is <b>not decided</b> if there were too few repetitions to tell.</p>
{"".join(_claims(of, [claim for claim in claims if claim.of is of]) for of in Of)}
<h2>Figures</h2>
<p class="note">In figures with repetitions, all algorithms and budgets share the streams of a repetition (common random
numbers) and have coins of their own. Dashed lines with hollow markers: printed algorithms, which are not
private. Their data are in the folder <code>{DATA}</code>, as Parquet and CSV.</p>
{figures}
<h2>How it was made</h2>
{_origin(reproduction)}
</body>
</html>
"""


def _summary(claims: Sequence[Claim]) -> str:
    counting = [claim.verdict for claim in claims if claim.counts]
    parts = [f"{counting.count(verdict)} {verdict}" for verdict in Verdict]
    return f"Of {len(counting)} claims that the paper makes of its experiments: {', '.join(parts)}."


def _claims(of: Of, claims: Sequence[Claim]) -> str:
    heads = "".join(f"<th>{head}</th>" for head in ("claim", "where", "measured", "counts as true if", "verdict"))
    rows = []
    for claim in claims:
        cells = "".join(f"<td>{escape(c)}</td>" for c in (claim.said, claim.where, claim.measured, claim.tolerance))
        style, sign = _CLASSES[claim.verdict]
        rows.append(f'<tr>{cells}<td class="verdict {style}">{sign} {claim.verdict}</td></tr>\n')
    return f"<h3>{escape(of)}</h3>\n<table>\n<tr>{heads}</tr>\n{''.join(rows)}</table>\n" if claims else ""


def _figure(study: Study, out: Path) -> str:
    picture = (out / PICTURES / study.name).with_suffix(".svg").read_bytes()
    return (
        f'<figure id="{study.name}">\n<h3>{study.number}. {escape(study.title)}</h3>\n'
        f'<img alt="{escape(study.title)}" src="data:image/svg+xml;base64,{b64encode(picture).decode()}">\n'
        f"<figcaption>{escape(study.caption)}</figcaption>\n</figure>"
    )


def _origin(reproduction: "Reproduction") -> str:
    scale = reproduction.scale
    facts = {
        "command": f"panprivacy reproduce --seed {reproduction.seed}{' --quick' if scale.name == 'quick' else ''}",
        "seed": str(reproduction.seed),
        "repetitions": f"{scale.tail_repetitions:,} (figure 4), {scale.repetitions:,} (figures 5 to 8 and 10), "
        f"up to {scale.goal_repetitions:,} (PPDS and Density where figure 8 compares them)",
        "runs": f"{sum(cell.runs for cell in reproduction.cells):,}",
        "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
    } | {name: version(name) for name in ("panprivacy", "numpy", "numba", "polars", "scipy", "matplotlib")}
    rows = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
    return f"<table>{rows}</table>"


_SHOWING = ("cli", "planning", "ingest", "brokers", "serve", "spark", "experiments")
"""Parts of the package that change no number of a cell, except for the file that computes it."""


@cache
def fingerprint() -> str:
    """A hash of the code that numbers depend on, and of NumPy's version, whose generators they come from."""
    digest = hashlib.sha256(np.__version__.encode())
    package = Path(__file__).resolve().parents[1]
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package).as_posix()
        shows = name.partition("/")[0] in _SHOWING or name == "estimates/plots.py"
        if name == "experiments/cells.py" or not shows:
            digest.update(name.encode() + file.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Store:
    """A folder with one Parquet file a cell.

    A file's name is a hash of the cell's parameters, the seed, and the source code that computes it: a cell that was
    computed by other code is never taken for this one.
    """

    folder: Path
    seed: int
    code: str = field(default_factory=fingerprint)
    """The code's hash, taken once: processes that start later must give a cell the same name."""

    def path(self, cell: Cell) -> Path:
        """Where a cell is, or will be."""
        key = f"{cell!r} seed={self.seed} code={self.code}"
        return self.folder / f"{type(cell).__name__.lower()}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.parquet"

    def finish(self, cell: Cell) -> None:
        """Compute a cell and keep it; the file appears whole or not at all."""
        table = cell.compute(self.seed)
        path = self.path(cell)
        partial = path.with_name(f"{path.stem}.{os.getpid()}.partial")
        try:
            table.write_parquet(partial)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def load(self, cells: list[Cell]) -> pl.DataFrame:
        """The rows of finished cells of one kind, in their order."""
        tables = []
        for path in map(self.path, cells):
            try:
                tables.append(pl.read_parquet(path))
            except pl.exceptions.PolarsError as error:
                raise InvalidValue(f"{path} is damaged; delete it and run again", code="damaged-results") from error
        return pl.concat(tables)


@dataclass(frozen=True)
class Reproduction:
    """Figures to be reproduced into a folder.

    `compute` may be interrupted and called again; `write` needs all of it. With several jobs, the script that calls
    it must be guarded by ``if __name__ == "__main__"``, as for all of `multiprocessing`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     one = Reproduction(Path(folder), numbers=(3,), scale=Scale(epsilons=(0.1, 0.5), coin_users=100_000))
    ...     one.compute()
    ...     [claim] = one.write()
    ...     sorted(file.name for file in Path(folder).iterdir())
    ['cells', 'claims.csv', 'data', 'figures', 'report.html']
    >>> print(claim.said, claim.measured, claim.verdict, sep="; ")
    Dwork does not use all of its allocated budget.; its state loses 51% to 58% of it; holds
    """

    out: Path
    scale: Scale = FULL
    seed: int = 1
    numbers: tuple[int, ...] = tuple(STUDIES)

    @property
    def studies(self) -> list[Study]:
        """The figures that were asked for."""
        return [STUDIES[number] for number in self.numbers]

    @property
    def cells(self) -> list[Cell]:
        """All cells that the figures need, each once."""
        return list(dict.fromkeys(cell for study in self.studies for cell in study.cells(self.scale)))

    def compute(self, jobs: int = 1, done: Callable[[Cell], None] | None = None) -> None:
        """Compute the cells that are missing; `done` is called for every cell, first for those that are there.

        Interrupted (Ctrl-C), it keeps finished cells, and finishes cells under way.
        """
        store, done = self._store, done or (lambda _: None)
        store.folder.mkdir(parents=True, exist_ok=True)
        missing = []
        for cell in self.cells:
            if store.path(cell).exists():
                done(cell)
            else:
                missing.append(cell)
        # By hash, that is at random: quick and slow cells then alternate, and the time left can be told from the start.
        missing.sort(key=store.path)
        if jobs == 1:
            for cell in missing:
                store.finish(cell)
                done(cell)
            return
        # Processes start afresh: a fork would copy the threads of Polars in whatever state they are. Interrupts are
        # left to the parent.
        fresh = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(min(jobs, len(missing)) or 1, fresh, signal.signal, (signal.SIGINT, signal.SIG_IGN))
        try:
            waiting = {pool.submit(store.finish, cell): cell for cell in missing}
            for future in as_completed(waiting):
                future.result()
                done(waiting[future])
        finally:
            pool.shutdown(cancel_futures=True)

    def tables(self) -> dict[int, pl.DataFrame]:
        """The data of each figure."""
        tables = {}
        for study in self.studies:
            kinds: dict[type[Cell], list[Cell]] = {}
            for cell in study.cells(self.scale):
                kinds.setdefault(type(cell), []).append(cell)
            frames = {kind: self._store.load(cells) for kind, cells in kinds.items()}
            tables[study.number] = study.table(frames, self.scale)
        return tables

    def write(self, drawn: Callable[[Study], None] | None = None) -> list[Claim]:
        """Write data, pictures, claims and report, and return the claims; `drawn` is called for every picture."""
        tables = self.tables()
        found = claims.judged(tables)
        for study in self.studies:
            save(study, tables[study.number], self.out)
            if drawn:
                drawn(study)
        rows = pl.DataFrame([asdict(claim) for claim in found], schema=[field.name for field in fields(Claim)])
        rows.write_csv(self.out / "claims.csv")
        (self.out / "report.html").write_text(page(self, found), encoding="utf-8")
        return found

    @property
    def _store(self) -> Store:
        return Store(self.out / "cells", self.seed)


def failed(found: list[Claim]) -> list[Claim]:
    """The claims that the paper makes of its own experiments and that do not hold."""
    return [claim for claim in found if claim.counts and claim.verdict is Verdict.FAILS]
