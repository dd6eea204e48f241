"""Cells: the streams, what is run on them, and what each number depends on."""

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from panprivacy import theory
from panprivacy.experiments.cells import (
    ALGORITHMS,
    KINDS,
    QUICK,
    CoinCount,
    Runs,
    SampleSize,
    StateLoss,
    Stream,
    Trial,
    TrueLoss,
    runs,
)
from panprivacy.testing import SeededCoins

DENSITIES = {"uniform": 1 - np.exp(-1), "zipf": 0.2441, "random half": 0.5, "even ids": 0.5, "one block": 0.5}


@pytest.mark.parametrize("name", KINDS)
def test_streams_have_the_density_they_should(name: str) -> None:
    # The share of 10^5 users who appear has a standard deviation below 0.002: seven of them, one alarm in 10^11.
    stream = Stream(name, 100_000)
    ids = stream.draw(np.random.default_rng(1))
    assert 0 <= ids.min() <= ids.max() < 100_000
    assert abs(stream.density(ids) - DENSITIES[name]) < 0.014


def test_the_first_users_of_a_zipf_stream_come_as_often_as_they_should() -> None:
    # Poisson counts of means 8,271 / r: within 6 standard deviations, one alarm in 10^7 for all five.
    counts = np.bincount(Stream("zipf").draw(np.random.default_rng(2)), minlength=5)[:5]
    means = 100_000 / np.sum(1 / np.arange(1, 100_001)) / np.arange(1, 6)
    assert (np.abs(counts - means) < 6 * np.sqrt(means)).all()
    assert np.abs(counts * np.arange(1, 6) ** 0.5 - means * np.arange(1, 6) ** 0.5).max() > 1  # and are random


def test_structured_streams_are_what_they_are_called() -> None:
    generator = np.random.default_rng(3)
    assert sorted(Stream("even ids", 10).draw(generator)) == [0, 2, 4, 6, 8]
    block = np.sort(Stream("one block", 10).draw(generator))
    assert (np.diff(block) == 1).all()


TRIALS = (Trial("Dwork", 0.4, 100), Trial("PPDS", 0.4, 100), Trial("Density", 0.4, 100))
STREAM = Stream("zipf", 1_000)


@pytest.mark.slow
def test_a_run_depends_on_its_trial_and_repetition_alone() -> None:
    whole = Runs(STREAM, TRIALS, 0, 4).compute(seed=1)
    part = Runs(STREAM, TRIALS[1:2], 2, 1).compute(seed=1)
    assert_frame_equal(part, whole.filter(algorithm="PPDS", repetition=2), check_exact=True)


@pytest.mark.slow
def test_trials_share_the_stream_of_a_repetition_and_nothing_else() -> None:
    table = Runs(STREAM, TRIALS, 0, 5).compute(seed=1)
    assert table.group_by("repetition").agg(pl.col("truth").n_unique())["truth"].to_list() == [1] * 5
    assert table["truth"].n_unique() > 1
    assert table["estimate"].n_unique() > 12  # of 15: counts of few ones may agree by chance


def test_few_repetitions_are_among_many() -> None:
    few, many = (runs([STREAM.name], QUICK, TRIALS, repetitions) for repetitions in (40, 100))
    assert set(few) < set(many)
    assert sum(cell.runs for cell in few) == 40 * len(TRIALS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_estimates_the_density_of_a_stream(name: str) -> None:
    # Sampled whole at a large budget, the standard error of each is at most 0.02: one alarm in 10^9.
    algorithm = ALGORITHMS[name]
    ids = np.arange(12_000)
    size = algorithm.size(20_000, 20_000 * 15)
    found = algorithm.run(20_000, 3.0, size, ids, SeededCoins(4))
    assert abs(found - 0.6) < 0.12


@pytest.mark.parametrize(
    ("name", "size"),
    [("Dwork", 17_000), ("OptBern", 17_000), ("PPDS", 1000), ("FixedLevelPPDS", 1000), ("Density", 17_000)],
)
def test_sizes_fill_the_bits(name: str, size: int) -> None:
    assert ALGORITHMS[name].size(100_000, 17_000) == size


def test_a_table_of_levels_and_buckets_fits_into_its_bits() -> None:
    for bits in (1_700, 17_000, 170_000):
        size = ALGORITHMS["DistinctCount"].size(100_000, bits)
        est = ALGORITHMS["DistinctCount"].build(100_000, 0.4, size, SeededCoins(1))
        assert 0.9 * bits <= est.levels * est.buckets <= bits


def test_the_printed_algorithms_propose_the_papers_sample_sizes() -> None:
    found = [SampleSize(name, 0.2, 0.1, 0.05).compute(1)["sample"][0] for name in ("Dwork", "OptBern")]
    assert found == [86_023, 24_960]


@pytest.mark.parametrize("name", ["Dwork", "OptBern"])
def test_bits_are_counted_apart_for_those_who_came(name: str) -> None:
    # Shares of 50,000 bits have a standard deviation of 0.0022 at most: six of them, one alarm in 10^8.
    pair = theory.dwork_pair(0.5) if name == "Dwork" else theory.symmetric_pair(0.5)
    row = CoinCount(name, 0.5, 100_000).compute(1).row(0, named=True)
    assert abs(row["stayed_ones"] / row["stayed"] - float(pair[0])) < 0.0135
    assert abs(row["came_ones"] / row["came"] - float(pair[1])) < 0.0135


@pytest.mark.slow
def test_the_auditors_losses_are_those_of_the_theory() -> None:
    state = StateLoss("Dwork", 0.5).compute(1)["loss"][0]
    assert state == pytest.approx(float(theory.actual_epsilon(theory.dwork_pair(0.5))), abs=1e-6)
    joint = TrueLoss("OptBern", 0.2).compute(1)["loss"][0]
    assert joint == pytest.approx(float(theory.joint_loss("optbern", 0.1)), abs=1e-6)
    assert TrueLoss("PPDS", 0.2).compute(1)["loss"][0] == float("inf")
