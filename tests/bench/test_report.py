"""The file with the results."""

from bench.report import Row, Section, at_least, at_most, write


def test_a_section_takes_the_place_of_the_older_one_and_the_others_stay(tmp_path):
    file = tmp_path / "RESULTS.md"
    for title, measured in (("W1: count", "1 s"), ("PASS", "2 s"), ("W1: count", "3 s")):
        write(file, Section(title, f"About {title}.", [Row("Penstock", measured)]), "*today*")

    head, rest = file.read_text().split("\n## ", 1)

    assert head.startswith("# Results of the benchmark\n")
    assert rest == (
        "W1: count\n\nAbout W1: count.\n\n"
        "| figure | measured | lowest to highest | has to be |  |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| Penstock | 3 s |  |  |  |\n\n*today*\n\n"
        "## PASS\n\nAbout PASS.\n\n"
        "| figure | measured | lowest to highest | has to be |  |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| Penstock | 2 s |  |  |  |\n\n*today*\n"
    )


def test_a_limit_is_reached_or_missed():
    assert at_most("ratio", 1.5, 1.5).cells() == ("ratio", "1.50 times", "", "at most 1.5", "reached")
    assert at_most("ratio", 1.51, 1.5).cells() == ("ratio", "1.51 times", "", "at most 1.5", "MISSED")
    assert at_least("ratio", 6.99, 7).cells() == ("ratio", "7.0 times", "", "at least 7", "MISSED")
    assert at_least("ratio", 3.0, 0).cells() == ("ratio", "3.0 times", "", "", "")
