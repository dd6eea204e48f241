"""`panprivacy serve`: counters that are fed and read over HTTP, each kept in a state file of its own.

`config` says what is to be counted, `counter` counts and keeps it, `http` is how others reach it, `sources` is how
events come without HTTP. Needs the extra `serve`.
"""
