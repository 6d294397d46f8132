"""Cases recorded from the real Kafka Streams, run through Penstock.

python -m penstock.testing.oracle PATH... [--driver | --chunks SEED | --spark] [--partitions N]
"""
