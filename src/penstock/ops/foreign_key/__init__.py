"""Joins of tables by a foreign key: each row of the left table meets the row of the right table that it names.

A change of the left table is sent, as a *subscription*, to the task that has the right table's key; what that has for
it is sent back as a *response*. Kafka Streams sends a hash of the left value along, looks the value up again when the
response comes, and drops it when the value has changed since. Here the value itself travels, so that a result does not
depend on how much is under way at once, and with it a number that grows with every change: where the right table has
several partitions, a change that names another row than the one before may overtake it; the response to the earlier one
then comes after that to the later one, and is dropped.

What one record does is done before any response to it comes. So where it changes a row of the left table twice, or a
row of the left table and the row of the right table that this one named, the responses to the older left value are
dropped, as in Kafka Streams. So are responses to rows that were changed in silence (see ``silent_table``).
"""
