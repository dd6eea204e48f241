"""`panprivacy serve`: counters that are fed and read over HTTP, each kept in a state file of its own.

`config` is the file that says what is counted, `counter` counts and keeps it, `http` has the routes, `server` is the
process. Events may also come from brokers (`panprivacy.brokers`). Needs the extra `serve`.
"""
