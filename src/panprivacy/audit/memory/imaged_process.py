"""Programs that are imaged: ``python -m panprivacy.audit.memory.imaged_process SOCKET`` forks one for each plan.

A program does one step after the other, with the code that ships. After each step it says where its bits are and
waits for the next, while the auditor takes an image. It keeps no id itself. Loading the library takes longer than most
scenarios, so it is loaded once, and every program is a fork of a process that has done nothing else. Polars is not: it
has threads, and those do not survive a fork.
"""

import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy import kernels, registry
from panprivacy.audit.memory import estimators
from panprivacy.audit.memory.batches import COLUMN, opened, singly
from panprivacy.folder.batches import Combiner
from panprivacy.folder.shards import shard_name
from panprivacy.periods import SECOND
from panprivacy.privacy import coins, noisy_counts
from panprivacy.privacy.noise import Noise
from panprivacy.slots import AllUsers
from panprivacy.testing import slots_of, table_of

pp: Any = import_module("panprivacy")  # the whole package, as programs see it: this layer imports no higher one


class ImagedEstimator:
    """An estimator, or parts of one, and what a scenario does with it."""

    def __init__(self, kind: str, users: int, listed: Any, folder: Path) -> None:
        self.parts = estimators.parts_of(kind, users, listed)
        if kind.startswith(estimators.IN_FOLDER):
            self.parts = [
                pp.StateFolder.holding(part, folder / "shards", shards=estimators.SHARDS) for part in self.parts
            ]
        self._taken = kind.startswith(estimators.IN_FOLDER + estimators.TAKEN)
        self._combiner = Combiner() if kind.startswith(estimators.COMBINED) else None
        self._given = pp.Users(listed) if kind.startswith("Users") else None
        self._categories = estimators.categories_of(kind)
        self._timed = kind.endswith(estimators.TIMES)
        self._options = {"skip_outside": True} if kind.endswith(estimators.STRANGERS) else {}
        self._days = 0
        self._file = folder / "state.pp"
        self._held: Any = None
        self._open = ExitStack()
        self._epoch = 0
        self._used: list[Any] = []
        self._released: list[Any] = []

    # --- events -------------------------------------------------------------------------------------------------

    def feed(self, ids: Any) -> None:
        """Take a batch."""
        for part in self.parts:
            if self._taken:  # gather the slots, and let each shard take its own, as processes of an engine do
                with part.gather() as gathered:
                    gathered.add(ids)
                    for number in range(part.shards):
                        part.take(number, [gathered.packed(number)])
            elif self._combiner is not None:  # gather them in a packed set, and take that, as the service does
                with pp.gather(part.layout()) as gathered:
                    gathered.add(ids)
                    self._combiner.take(gathered.packed(), part)
                self._combiner.redraw(part)
            elif self._categories or self._timed:
                self._feed_with_columns(part, ids)
            elif isinstance(part, pp.Windows):
                part.update_many(ids, time=self._day)
            elif hasattr(ids, "columns"):
                part.update_many(ids, column=COLUMN)
            else:
                part.update_many(ids, **self._options)

    def _feed_with_columns(self, part: Any, ids: Any) -> None:
        """Take a batch with a category of each row, or a time: dates for windows, seconds for days. All are wiped."""
        column, seconds = np.zeros(len(ids), dtype=np.int64), np.zeros(len(ids))
        try:
            if self._categories:
                part.update_many(ids, estimators.category_of(ids, self._categories, column))
                return
            estimators.times_of(ids, self._days, column)
            np.copyto(seconds, column)  # a division that also casts would leave the times in a buffer of NumPy's
            seconds /= SECOND
            part.update_many(ids, time=column.view("datetime64[us]") if isinstance(part, pp.Windows) else seconds)
        finally:
            column.fill(0)
            seconds.fill(0)

    def feed_one(self, user: Any) -> None:
        """Take one user."""
        for part in self.parts:
            if isinstance(part, pp.Windows):
                part.update(user, time=self._day)
            elif self._categories:
                part.update(user, estimators.category_of(user, self._categories))
            else:
                part.update(user)

    # --- everything else ----------------------------------------------------------------------------------------

    def do(self, verb: str) -> None:
        """Do what is not a batch: a method below, or one of the estimator without arguments."""
        if hasattr(self, verb):
            getattr(self, verb)()
        else:
            self._released.append(getattr(self.parts[0], verb)())

    def release(self) -> None:
        """Spend a release, and keep it, as a program does: its floats stand where counts may have been."""
        self._released += [getattr(part, "next_release", part.release)() for part in self.parts]

    def observe(self) -> None:
        """Look, and look again."""
        for _ in range(3):
            self._released.append(self.parts[0].observe())

    def grow(self) -> None:
        """Take a tenth more users, who come last."""
        est = self.parts[0]
        est.grow(est.users + est.users // 10)

    def save(self) -> None:
        """Write the state to a file that is held from now on, as a program does that feeds and saves in turns."""
        if self._held is None:
            self._held = self._open.enter_context(pp.StateFile(self._file).locked())
        self.parts[0].save(self._held)

    def move(self) -> None:
        """Move the state to a file, and load it from there."""
        self.parts.pop().save(self._file)
        self.load()

    def load(self) -> None:
        """Give the file back, and go on with what was saved."""
        self._open.close()
        self._held = None
        self.parts = [pp.load(self._file, self._given)]

    def lose_shard(self) -> None:
        """Lose a shard of a folder, and put a new one in its place."""
        folder = self.parts[0]
        (Path(folder.url) / f"{shard_name(1)}.pp").unlink()
        folder.replace_shard(1)

    def merge(self) -> None:
        """Make one of the parts, which stay where they are, as they would in a program that goes on."""
        self._used = self.parts
        overlapping = isinstance(self.parts[0], pp.DistinctCount)
        self.parts = [pp.merge(self.parts, overlapping=True) if overlapping else pp.merge(self.parts)]
        self._epoch += overlapping

    def next_window(self) -> None:
        """Let the clock end a window, or a day."""
        self._days += 1
        self._epoch += isinstance(self.parts[0], pp.Windows)  # which has new bits now
        self._released += self.parts[0].advance(self._day)

    @property
    def _day(self) -> str:
        return f"2026-01-{5 + self._days:02}"

    def tables(self) -> Iterator[estimators.TableLocation]:
        """Where all bits are."""
        for part in self.parts:
            if isinstance(part, pp.StateFolder):
                yield from estimators.shards_of(part)
                continue
            table, slots, each = table_of(part), slots_of(part), estimators.bits_each(part)
            first = slots.first if isinstance(slots, AllUsers) else 0  # of one shard of all users
            words, size = table.words, table.size * each
            sparse = len(words) != -(-size // 64)
            yield estimators.TableLocation(
                words.ctypes.data, words.nbytes, size, sparse, self._epoch, first * each, each
            )


def serve(asked: socket.socket) -> None:
    """Fork a program for every plan that comes, with the socket that comes with it."""
    kernels.load_kernels((*kernels.SOME, *kernels.READERS))
    registry.estimators()
    import_module("scipy.optimize")
    gc.collect()
    gc.freeze()  # collections of programs leave out what is there by now, and need not write to it
    asked.sendall(b"+")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps them
    while True:
        path, handles, _, _ = socket.recv_fds(asked, 4096, 1)
        if not path:
            return
        child = os.fork()
        if not child:
            asked.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            plan = Path(path.decode())
            for number, handle in enumerate([*handles, *handles, _created(plan.parent / "errors")]):
                os.dup2(handle, number)
            main(json.loads(plan.read_text()), plan.parent)
            return
        asked.sendall(child.to_bytes(8, "little"))
        os.close(handles[0])


def main(plan: dict[str, Any], handed: Path) -> None:
    """Run a scenario."""
    os.environ.clear()
    os.environ.update(plan["variables"])
    sys.path += [folder for folder in os.environ["PYTHONPATH"].split(os.pathsep) if folder not in sys.path]
    os.chdir(plan["folder"])
    for planted in plan["plants"]:
        module, _, function = planted.partition(":")
        getattr(import_module(module), function)()
    tell_keys(_created(handed / "keys"))
    tell_counts(_created(handed / "counts"))
    listed: Any = None
    if (path := handed / "listed.npy").exists():  # the list of users, which is public
        listed = np.load(path)
        listed = [text.decode() for text in listed.tolist()] if listed.dtype.kind == "S" else listed
    subject = ImagedEstimator(plan["kind"], plan["users"], listed, Path(plan["folder"]))
    show(subject)
    while line := sys.stdin.readline():
        _do(subject, **json.loads(line))
        gc.collect()  # cycles hold arrays of the scenario's own
        show(subject)


def _do(subject: ImagedEstimator, verb: str, batch: dict[str, Any] | None = None) -> None:
    """Do one step; this call's variables, which may be ids, are gone when it returns."""
    if batch is None:
        subject.do(verb)
    elif verb == "feed":
        with opened(**batch) as ids:
            subject.feed(ids)
    else:
        for user in singly(**batch):
            subject.feed_one(user)


def show(subject: ImagedEstimator) -> None:
    """Say where the bits are."""
    print(json.dumps([asdict(table) for table in subject.tables()]), flush=True)


def _created(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)


def tell_keys(file: int) -> None:
    """Write every key that the coins draw straight into a file."""
    fill = coins.fill_from_system

    def fill_and_tell(buffer: coins.Buffer) -> None:
        fill(buffer)
        if isinstance(buffer, bytearray):  # a key, and not the flips of a short batch
            os.write(file, buffer)

    coins.fill_from_system = fill_and_tell


def tell_counts(file: int) -> None:
    """Write all counts of releases straight into a file: how many, these without noise, and these with it."""
    add = noisy_counts.add_from_system

    def add_and_tell(counts: NDArray[np.int64], noise: Noise) -> None:
        os.write(file, len(counts).to_bytes(8, "little"))
        os.write(file, counts.data)
        add(counts, noise)
        os.write(file, counts.data)

    noisy_counts.add_from_system = add_and_tell


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
