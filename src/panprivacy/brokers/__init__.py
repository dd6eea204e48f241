"""Brokers as sources of events: Kafka, NATS JetStream and Redis streams.

`settings` reads the table or the address of a source. `consumer` fetches messages and hands them to a counter, as
bodies that `payloads` makes of them. `kafka`, `nats` and `redis` are the clients. A message is acknowledged when the
state that contains it is on disk.
"""
