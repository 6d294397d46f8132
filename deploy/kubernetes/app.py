"""How often each word has been said: the program of this folder. Put your own in its place."""

from __future__ import annotations

import os

from penstock import StreamsBuilder

if os.environ.get("PYSPARK_SUBMIT_ARGS"):  # on a cluster: the session that these options describe
    from pyspark.sql import SparkSession

    SparkSession.builder.getOrCreate()

builder = StreamsBuilder()
words = builder.stream("lines", key=str, value=str).flat_map_values(str.split)
words.group_by(lambda _, word: word).count("counts").to_stream().to("totals")
topology = builder.build()
