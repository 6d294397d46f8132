"""Joins of tables by a foreign key: each row of the left table is joined with the row of the right table that it names.

A change of the left table is sent as a *subscription* to the task that holds the right table's key. That task sends the
right value back as a *response*. Kafka Streams sends a hash of the left value along, looks the value up again when the
response arrives, and drops the response if the value has changed since. Penstock sends the left value itself, so that a
result does not depend on how many messages are in flight. A serial number that grows with every change travels with it.
If the right table has several partitions, a change that names a new row may overtake the previous change. The response
to the earlier change then arrives after the response to the later one, and is dropped.

All changes by one record take place before any response to them arrives. A record may change a left row twice, or a
left row and the right row that it named. Then responses to the older left value are dropped, as in Kafka Streams.
Responses to rows that changed silently are dropped, too (see ``silent_table``).
"""
