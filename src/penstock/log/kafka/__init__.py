"""Topics of a Kafka cluster, through librdkafka; the extra ``penstock-streams[kafka]``."""
