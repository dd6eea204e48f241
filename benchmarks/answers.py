"""Every answer beside "how many ever": how far it errs beside what was designed, and how often its intervals hold.

    python benchmarks/answers.py                 # all rows; some minutes
    python benchmarks/answers.py --runs 100      # fewer runs of each

Counts, actives, retention, groups and categories. A measured error may differ from its formula by a tenth, and 95 %
intervals may hold 93 to 97 % of the time.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

import answers_counts
import answers_groups
import answers_periods

TENTH, HELD = 0.10, (0.93, 0.97)


def rows(runs: int | None) -> Iterator[Any]:
    """The rows of all answers: what, designed and measured error, and coverage."""
    told = {} if runs is None else {"runs": runs}
    yield from answers_counts.rows(**told)
    yield from answers_periods.rows()
    yield from answers_groups.rows(**told)


def main() -> None:
    """Print the rows; fail if one is off."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int)
    table, off = Table("answer", "designed", "measured", "95 % intervals hold", "within limits"), 0
    for what, designed, measured, coverage in track(
        rows(options.parse_args().runs), "measuring", console=Console(stderr=True)
    ):
        within = abs(measured / designed - 1) <= TENTH and HELD[0] <= coverage <= HELD[1]
        off += not within
        table.add_row(what, f"{designed:.5f}", f"{measured:.5f}", f"{coverage:.1%}", "yes" if within else "NO")
    Console().print(table)
    sys.exit(off > 0)


if __name__ == "__main__":
    main()
