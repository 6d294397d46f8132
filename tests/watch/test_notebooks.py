"""How things show themselves in notebooks."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from penstock import StreamsBuilder
from penstock.query.application import open_stores
from penstock.testing import TopologyTestDriver
from penstock.watch.figures import Application
from penstock.watch.notebook import application_html
from support.watched import SOLD, Shop, shop_topology

SVG = "{http://www.w3.org/2000/svg}"


def texts(html: str) -> list[str]:
    return [str(one.text) for one in ElementTree.fromstring(html).iter(f"{SVG}text")]


def test_a_topology_is_drawn_with_topics_steps_and_frames():
    found = texts(shop_topology()._repr_html_())
    assert found[0] == "Sub-topology 0"
    assert {"orders", "by-minute", "final", "finals"} <= set(found)
    assert "window aggregate · minutes" in found


def test_a_stream_shows_the_steps_that_lead_to_it():
    builder = StreamsBuilder()
    words = builder.stream("words", value=str)
    long = words.filter(lambda key, word: len(word) > 3, name="long-ones")
    html = long._repr_html_()
    assert "KStream str → str" in html
    assert texts(html[html.index("<svg") :]) == ["words", "stream source", "long-ones", "filter"]
    assert "KTable" in long.group_by_key().count()._repr_html_()


def test_a_store_shows_its_first_rows_and_that_there_are_more():
    builder = StreamsBuilder()
    builder.stream("words", value=str).group_by(lambda key, word: word).count("counts").to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    assert "no rows" in driver.store("counts")._repr_html_()
    driver.pipe_record_list("words", [(None, f"<word {number}>") for number in range(12)])
    html = driver.store("counts")._repr_html_()
    assert "&lt;word 0&gt;" in html
    assert "<word" not in html
    assert "the first 10 rows" in html


def test_an_application_shows_its_steps_with_figures(tmp_path: Path):
    shop = Shop(tmp_path, shop_topology())
    shop.sell(*SOLD)
    seen = Application(open_stores(shop.folder), shop.log)
    html = application_html("<Streams of application 'shop'>", seen.picture(), seen.figures())
    assert "Streams of application &#x27;shop&#x27;" in html
    assert "by-minute" in html
    assert "0 records behind" in html
