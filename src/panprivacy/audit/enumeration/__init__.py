"""The exact auditor: runs an estimator under every outcome of its coins.

In reading order: `outcomes` are coins that land on every side; `machine` compares and copies whole objects, tabulates
what a call does to each state, and puts single calls together to streams; `search` walks over all pairs of adjacent
streams; `loss` and `delta` find the pair that differs most; `watcher` is an intruder whose readings depend on the
releases; `auditor` has `exact`; `wording` shows what was found.

The package is not called `exact`, because that is the name of its function.
"""
