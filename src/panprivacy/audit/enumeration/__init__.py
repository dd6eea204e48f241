"""The exact auditor, `exact`: runs an estimator under every outcome of its coins.

It also checks that a batch does what its events do one by one.

In reading order: `outcomes` are coins that land on every side; `machine` compares and copies whole objects, tabulates
what a call does to each state, and puts single calls together to streams; `search` walks over all pairs of adjacent
streams; `loss` and `delta` find the pair that differs most, `delta` also for an intruder whose readings depend on the
releases; `wording` shows what was found.

The package is not called `exact`, because that is the name of its function.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

from panprivacy.audit.enumeration.delta import DeltaJudge
from panprivacy.audit.enumeration.loss import Judge
from panprivacy.audit.enumeration.machine import Laws, Machine, Make, Step
from panprivacy.audit.enumeration.search import Left, Search, Streams
from panprivacy.audit.enumeration.wording import Result, witness_of
from panprivacy.errors import InvalidValue

_LONGEST_BATCH = 3
_MOST_OUTCOMES = 512


class Removal(NamedTuple):
    """In a stream: the deletion of a user, where the user alone means an appearance."""

    user: Any


def exact(
    make: Make,
    users: int | Sequence[Any],
    length: int = 3,
    *,
    releases: int = 1,
    intrusions: int = 0,
    deletions: bool = False,
    readings: int = 1,
    streams: Sequence[Sequence[Any]] | None = None,
    verbs: Sequence[str] | None = None,
    reach: int | None = None,
) -> Result:
    r"""Find the exact worst-case privacy loss of an estimator, by running it under every outcome of its coins.

    The loss is the largest ``|ln P(seen | S) - ln P(seen | S')|`` over all streams S and S' that differ in one user's
    events (some or all of them added, removed or moved: Def. 2.5 of the paper, user-level adjacency), all moments of
    the readings and releases, and all that can be seen in them together: the whole memory of the estimator at each
    reading, and every release (Def. 2.6, pan-privacy, for all releases jointly).

    Of an estimator that claims a delta beside its epsilon, the largest delta at that epsilon is found: the largest
    ``P(seen in a set | S) - e^epsilon * P(seen in it | S')`` over the same streams and moments, and over all sets.

    Parameters
    ----------
    make
        ``make(coins)`` builds the estimator on the coins it is given. The estimator has ``update(user)`` and
        ``next_release()``, ``release()`` or ``estimate()``; ``update_many``, ``remove`` and ``rerandomize`` where they
        are asked for; and says what it promises, as ``budget.total`` or ``claimed_epsilon``, and as ``budget.delta`` or
        ``claimed_delta`` if it promises that only up to a delta.
    users
        How many users there are, 0..users-1, or their ids.
    length
        Every stream of up to this many events is audited.
    releases
        How many releases are made, at any moments.
    intrusions
        How many readings are announced: after each of them, at any later moment, `rerandomize` is called. One more
        reading comes unannounced.
    deletions
        Whether users may also be removed.
    readings
        Readings in each stretch between two redraws. One is what pan-privacy covers; two show that it covers no
        more; none leaves the releases alone.
    streams
        Audit these streams and all their beginnings instead, each a sequence of users and of `Removal`.
    verbs
        All that a user can do, as names of methods, where that is more than `update` (and `remove`, with `deletions`).
    reach
        How far from zero numbers are followed that stay in the state with noise on them: ``EveryOutcome.REACH``.

    Examples
    --------
    >>> import panprivacy as pp
    >>> from panprivacy import audit
    >>> result = audit.exact(lambda coins: pp.Density(2, epsilon=1.0, coins=coins), users=2, length=2)
    >>> result.holds, round(result.worst_loss, 6)
    (True, 1.0)
    >>> print(result.witness)  # doctest: +ELLIPSIS
    Streams that differ in the events of user 0:
      A: state read, 0 appears, release
      B: 0 appears, state read, release
    Seen: state table.words=00; released >= 1
    Moment: read after 0 events of A and 1 of B
    Probability: 0.1... under A, 0.03... under B

    Notes
    -----
    It proves what it says for the sizes it is given, and nothing for others; an event is processed whole, without a
    reading in its midst. Noise is taken as the law its source promises, not as the floats or integers that the
    source computes. A draw with too many outcomes, such as a key, must be fixed by `make`. Numbers that stay in the
    state with noise on them are followed up to `reach` from zero. A delta is a sum over all outputs that
    have a probability above 1e-18; what lies beyond is added to it, and so is what may be left out inside the state.
    """
    if min(length, releases, intrusions, readings) < 0:
        raise InvalidValue("length, releases, intrusions and readings cannot be negative", code="audit-negative")
    machine = Machine(make, range(users) if isinstance(users, int) else users, reach)
    laws = Laws(machine)
    claimed, claimed_delta = claim_of(machine.sample)
    judge = DeltaJudge(laws, claimed) if claimed_delta else Judge(laws)
    trees = _trees(machine, length, streams)
    removing = deletions or any(isinstance(event, Removal) for stream in streams or () for event in stream)
    verbs = tuple(verbs) if verbs is not None else ("update", "remove") if removing else ("update",)
    for batched in (False, True):
        if batched and (judge.is_certain() or batches_agree(machine, verbs, length)):
            break
        searches = [Search(laws, tree, verbs, batched, judge) for tree in trees]
        # What the state alone gives away is searched first: it makes the plainer witness.
        for made, search, user in product(sorted({0, releases}), searches, range(len(machine.users))):
            search.around((user,), Left(made, readings, redraws=intrusions, per_redraw=readings))
    return Result(
        worst_loss=judge.loss_at(claimed_delta),
        claimed=claimed,
        settled=judge.settled or judge.is_certain(),
        witness=witness_of(judge, machine),
        timelines=judge.timelines,
        states=len(machine.memories),
        reach=machine.reach,
        worst_delta=judge.delta,
        claimed_delta=claimed_delta,
    )


def claim_of(est: Any) -> tuple[float, float]:
    """The epsilon and delta of an estimator: of its budget, or `claimed_epsilon` and, if there is, `claimed_delta`."""
    budget = getattr(est, "budget", None)
    if budget is not None:
        return float(budget.total), float(budget.delta)
    return float(est.claimed_epsilon), float(getattr(est, "claimed_delta", 0.0))


def _trees(machine: Machine, length: int, streams: Sequence[Sequence[Any]] | None) -> list[Streams]:
    """The streams to audit; all of them in order of length, so that the first witness found is a short one."""
    if streams is None:
        return [Streams(longest) for longest in range(1, length + 1)]
    position = {user: i for i, user in enumerate(machine.users)}

    def event(given: Any) -> Step:
        removed = isinstance(given, Removal)
        user = given.user if removed else given
        if user not in position:
            raise InvalidValue(
                f"user {user!r} of a stream is none of the {len(position)} users of the audit", code="audit-user"
            )
        return Step("remove" if removed else "update", (position[user],))

    return [Streams(listed=[[event(given) for given in stream] for stream in streams])]


def batches_agree(machine: Machine, verbs: Iterable[str], length: int) -> bool:
    """Whether a batch does to a state exactly what its events do to it one by one.

    If so, an audit of single events holds for batches too. Compared are batches of one and of two users, the same
    one twice included, from every state that was reached, and of three from a new estimator; a batch with too many
    outcomes to walk is left out.
    """
    people = range(len(machine.users))
    for verb in (verb for verb in verbs if machine.can(verb + "_many")):
        for size in range(1, min(length, _LONGEST_BATCH) + 1):
            if machine.most_outcomes**size > _MOST_OUTCOMES:
                break
            states = 1 if size == _LONGEST_BATCH else len(machine.memories)
            for batch, state in product(product(people, repeat=size), range(states)):
                single = machine.after(state, [Step(verb, (user,)) for user in batch])
                if machine.after(state, [Step(verb + "_many", batch)]) != single:
                    return False
    return True
