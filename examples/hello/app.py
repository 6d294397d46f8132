"""How often each word was said; run it with `penstock run app.py:topology`."""

from penstock import StreamsBuilder


def words(line: str) -> list[str]:
    return line.lower().split()


builder = StreamsBuilder()
lines = builder.stream("lines", value=str)
counts = lines.flat_map_values(words).group_by(lambda key, word: word).count("counts")
counts.to_stream().to("counts")
topology = builder.build()
