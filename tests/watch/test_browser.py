"""The page in a real browser: what it shows, what changes by itself, and what it says of wrong input."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, produce
from penstock.query.application import open_stores
from penstock.query.server import StateServer
from penstock.watch.server import page_app
from penstock.watch.why import Replays
from support.browser import Browser, chromium
from support.watched import SOLD, Shop, open_shop, shop_topology

pytest.importorskip("uvicorn", reason="comes with penstock-streams[serve]")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="the page is tested in Chromium: apt-get install chromium"),
]

MINUTE = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


class Shown(Shop):
    url = ""


@pytest.fixture(scope="module")
def shop() -> Iterator[Shown]:
    with (
        open_shop(Shown) as shop,
        closing(open_stores(shop.folder)) as stores,
        StateServer(stores, "127.0.0.1", 0, page_app(stores, shop.log)) as server,
    ):
        shop.url = server.url
        yield shop


@pytest.fixture
def page(browser: Browser, shop: Shown) -> Browser:
    browser.size(1280, 900, dark=False)
    browser.open(shop.url)
    browser.wait("document.querySelector('#commit')?.textContent != '–' && !!document.querySelector('.step-card')")
    return browser


def test_the_topology_and_its_figures_are_there(page: Browser):
    assert page.text("#application") == "shop"
    assert page.text("[data-node=by-minute] .title") == "by-minute"
    assert page.text("[data-node=by-minute] .marks") == "1 left out"
    assert page.text("[data-node=final] .marks") == "2 held"
    assert page.text("[data-node=orders]").startswith("orders")
    assert "dropped as late by by-minute" in page.text("#losses")
    assert "5 read so far" in page.text("#rate-more")
    assert page.complaints() == []


def test_a_commit_shows_by_itself(page: Browser, shop: Shown):
    before = int(page.text("#commit"))
    read = int(page.text("#rate-more").split()[0])
    shop.sell(("kim", 3.0, 4_000))
    page.wait(f"Number(document.querySelector('#commit').textContent) > {before}", "the next commit")
    page.wait(f"document.querySelector('#rate-more').textContent.startsWith('{read + 1} ')", "its record")
    newest = shop.running.coordinator.manifest.commit
    assert page.text("#commits li b") == str(newest)


def test_a_step_says_what_it_holds_back_and_what_that_waits_for(page: Browser):
    page.click("[data-node=final] .open")
    page.wait("document.querySelectorAll('#panel tbody tr').length > 0")
    row = page.text("#panel tbody tr")
    assert row.startswith("gus  1970-01-01 00:00:00 – 00:01:00")
    assert "1970-01-01 00:01:10" in row
    assert re.search(r"1 min \d+ s more of stream time", row)


def test_a_store_is_browsed_and_a_key_that_is_not_there_is_told(page: Browser):
    page.click(".store[title='Store minutes']")
    page.wait("document.querySelectorAll('#panel tbody tr').length >= 3")
    ask = "document.querySelector('#panel input').value = '{}'; document.querySelector('#panel form').requestSubmit()"
    page.value(ask.format("ann"))
    page.wait("document.querySelectorAll('#panel tbody tr').length == 1")
    assert page.text("#panel tbody tr").startswith("ann")
    page.value(ask.format("<b>nobody</b>"))
    page.wait("!!document.querySelector('#panel .trouble')")
    assert page.text("#panel .trouble") == "the store 'minutes' has nothing for the key '<b>nobody</b>'"


def test_a_topic_shows_its_newest_records(page: Browser):
    page.click("#topics .row")
    page.wait("document.querySelectorAll('#panel tbody tr').length >= 4")
    assert page.text("#panel tbody tr").split("\n")[0].startswith("ann")
    page.click("#panel-close")
    assert page.value("document.querySelector('#panel').hidden")


def test_light_and_dark_follow_the_system_until_somebody_chooses(page: Browser):
    def ground() -> str:
        return str(page.value("getComputedStyle(document.body).backgroundColor"))

    light = ground()
    page.size(1280, 900, dark=True)
    dark = ground()
    assert light != dark
    page.click("#theme")
    assert ground() == light
    page.value("localStorage.clear()")


def test_a_page_that_is_left_keeps_no_connection_and_listens_again_when_it_is_back(browser: Browser, shop: Shown):
    spy = """window.heard = []
        window.EventSource = class extends EventSource { constructor(url) { super(url); heard.push(this) } }"""
    added = browser.call("Page.addScriptToEvaluateOnNewDocument", source=spy)["identifier"]
    browser.open(shop.url)
    browser.wait("window.heard?.length === 1 && heard[0].readyState === 1", "the page listens")
    browser.value("dispatchEvent(new PageTransitionEvent('pagehide'))")
    assert browser.value("heard.map((one) => one.readyState)") == [2]
    browser.value("dispatchEvent(new PageTransitionEvent('pageshow'))")
    browser.wait("heard.length === 2 && heard[1].readyState === 1", "it listens again")
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added)


def test_a_phone_shows_all_of_it_without_scrolling_sideways(page: Browser):
    page.size(390, 844, mobile=True)
    page.wait("document.querySelector('#graph').classList.contains('narrow')")
    assert page.value("document.documentElement.scrollWidth <= innerWidth")
    assert page.value(_WITHIN) == []


_WITHIN = """[...document.querySelectorAll('[data-node]')].map((one) => one.getBoundingClientRect())
    .filter((box) => box.left < 0 || box.right > innerWidth || box.width < 60).map((box) => box.left)"""


def test_fifty_steps_and_a_hundred_partitions_fit_the_page(browser: Browser, tmp_path: Path):
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=float)
    for number in range(12):
        stream = orders.filter(lambda key, value: True).map_values(lambda value: value)
        stream.group_by(lambda key, value: key).count(f"counts-{number}").to_stream().to(f"out-{number}")
    topology = builder.build()
    assert sum(len(sub.parts) for sub in topology.sub_topologies) >= 50
    shop = Shown(tmp_path, topology, partitions=100)
    stores = open_stores(shop.folder)
    with StateServer(stores, "127.0.0.1", 0, page_app(stores, shop.log)) as server:
        for width in (1280, 700):
            browser.size(width, 900)
            browser.open(server.url)
            browser.wait("document.querySelectorAll('[data-node]').length >= 50")
            browser.wait("document.querySelectorAll('.cells i').length >= 100")
            assert browser.value("document.documentElement.scrollWidth <= innerWidth")
            assert browser.value(_WITHIN) == []
    stores.close()


def test_numbers_are_shown_as_they_are_and_null_apart_from_text(browser: Browser, tmp_path: Path):
    ints = [9007199254740993, -(2**63), 2**63 - 1, 5]
    floats = [float("nan"), float("-inf"), -0.0, 1.0, 1e22]
    texts = [b'{"id":1180591620717411303424,"x":[1.0,-0.0,1e5,"1.0"]}', b'"null"', b'"\\u0000number:7"', None]
    builder = StreamsBuilder()
    builder.table("ints", key=int, value=int, store="int-store")
    builder.table("floats", key=float, value=float, store="float-store")
    builder.stream("texts", key=str, value=Any).to("out")
    produce([], "texts", log=tmp_path / "log")
    produce([(n, n, 1) for n in ints], "ints", int, int, tmp_path / "log")
    produce([(x, x, 1) for x in floats], "floats", float, float, tmp_path / "log")
    produce([("k", text, -n + 9) for n, text in enumerate(texts)], "texts", str, bytes, tmp_path / "log")
    shop = Shown(tmp_path, builder.build())
    shop.running.run_until()
    stores = open_stores(shop.folder)
    shown_ints = ["-9223372036854775808", "5", "9007199254740993", "9223372036854775807"]
    shown_floats = ["-0.0", "-Infinity", "1.0", "1e22", "NaN"]
    with StateServer(stores, "127.0.0.1", 0, page_app(stores, shop.log)) as server:
        browser.events.clear()
        browser.size(1280, 900)
        browser.open(server.url)

        def cells(where: str, column: int) -> list[str]:
            browser.wait(f"!!{where}")
            browser.value(f"{where}.click()")
            browser.wait("document.querySelectorAll('#panel tbody tr').length > 3")
            rows = "[...document.querySelectorAll('#panel tbody tr')]"
            return list(browser.value(f"{rows}.map((row) => row.children[{column}].innerHTML)"))

        def topic(name: str) -> str:
            return f"[...document.querySelectorAll('#topics .row')].find((one) => one.innerText.startsWith('{name}'))"

        def store(name: str) -> str:
            return f"document.querySelector('.store[title=\\'Store {name}\\']')"

        for column in (0, 1):
            assert sorted(cells(store("int-store"), column)) == shown_ints
            assert sorted(cells(store("float-store"), column)) == shown_floats
            assert sorted(cells(topic("ints"), column)) == shown_ints
            assert sorted(cells(topic("floats"), column)) == shown_floats
        assert cells(topic("texts"), 1) == [
            '{"id":1180591620717411303424,"x":[1.0,-0.0,100000.0,"1.0"]}', "null", "\0number:7",
            '<i class="quiet">null</i>',
        ]  # fmt: skip
        assert browser.complaints() == []
    stores.close()


def test_the_history_is_drawn_says_what_is_pointed_at_and_has_a_day_as_well(page: Browser):
    plots = "[...document.querySelectorAll('.plot')].map((one) => one.innerText.split('\\n')[0])"
    assert page.value(plots) == ["Records a second", "Behind", "Latency", "State"]
    curve = "document.querySelector('[data-plot=state] .curve').getAttribute('d')"
    page.wait(f"({curve} ?? '').startsWith('M')", "the curve")
    assert page.text("[data-plot=state] .rate").endswith("KB")
    page.value(
        "(one => { const box = one.getBoundingClientRect(); one.dispatchEvent(new PointerEvent('pointermove', "
        "{clientX: box.left + 1, clientY: box.top + 1})) })(document.querySelector('[data-plot=state] svg'))"
    )
    assert page.text("[data-plot=state] .under").split("\n")[0].endswith(" UTC")
    page.value("document.querySelector('[data-plot=state] svg').dispatchEvent(new PointerEvent('pointerleave'))")
    page.click("#spans button[value=day]")
    page.wait("/begins now|last 5 min/.test(document.querySelector('[data-plot=state] .under').innerText)", "a day")
    assert page.complaints() == []


PROGRAM = """
from support.watched import shop_topology

topology = shop_topology()
"""


def test_a_key_of_a_store_tells_its_windows_their_records_and_what_was_late(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "shop_to_ask.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    shop = Shown(tmp_path, shop_topology())
    shop.sell(*SOLD)
    replays = Replays(str(tmp_path / "shop_to_ask.py"), shop.log.url)
    with (
        closing(open_stores(shop.folder)) as stores,
        StateServer(stores, "127.0.0.1", 0, page_app(stores, shop.log, replays=replays)) as server,
    ):
        browser.events.clear()
        browser.size(390, 844, mobile=True, dark=True)
        browser.open(server.url)
        browser.click(".store[title='Store minutes']")
        browser.wait("document.querySelectorAll('#panel .key').length >= 2")
        browser.value("[...document.querySelectorAll('#panel .key')].find((one) => one.innerText == 'ann').click()")
        browser.wait("!!document.querySelector('#panel .timeline')", "the replay", seconds=300)
        assert browser.text("#panel-title") == "ann"
        assert "3 records of the key, 1 of them late; stream time is 1970-01-01 00:02:00." in browser.text("#panel")
        assert browser.value("document.querySelectorAll('#panel .timeline .window').length") == 2
        assert browser.value("document.querySelectorAll('#panel .timeline .late').length") == 1
        late = "late: stream time was 1970-01-01 00:02:00, and its window 1970-01-01 00:00:00 – 00:01:00 closed at "
        [row] = browser.value("[...document.querySelectorAll('#panel tr.late')].map((row) => row.innerText)")
        assert late in row
        assert re.search(r"orders, partition \d, offset 2", row)
        assert browser.value("document.documentElement.scrollWidth <= innerWidth")
        browser.value("[...document.querySelectorAll('#panel .link')].find((one) => one.innerText == 'Back').click()")
        browser.wait("document.querySelectorAll('#panel .key').length >= 2", "the store")
        assert browser.complaints() == []


def test_failed_records_and_all_applications_of_the_log_are_shown(browser: Browser, tmp_path: Path):
    def checked(order: float) -> float:
        if order < 0:
            raise ValueError(f"an order of {order}, see https://me:hidden@shop.example/orders")
        return order

    builder = StreamsBuilder()
    builder.stream("orders", key=str, value=float).map_values(checked, name="check", value=float).to("checked")
    shop = Shown(tmp_path / "shop", builder.build(), log=tmp_path / "log", on_error="dead_letter:failed")
    shop.sell(("ann", 1.0, 1_000), ("ann", -3.0, 3_000))
    other = StreamsBuilder()
    other.stream("orders", key=str, value=float).group_by_key().count("all").to_stream().to("counts")
    billing = Shown(tmp_path / "billing", other.build(), log=tmp_path / "log", name="billing")
    billing.running.run_until()
    with (
        closing(open_stores(shop.folder)) as stores,
        StateServer(stores, "127.0.0.1", 0, page_app(stores, shop.log, shows_others=True)) as server,
    ):
        browser.events.clear()
        browser.size(390, 844, mobile=True, dark=False)
        browser.open(server.url)
        browser.wait("!!document.querySelector('#letters .row')", "a dead letter")
        assert "sent to the dead letters by check" in browser.text("#failures")
        assert "ValueError: an order of -3.0, see https://****@shop.example/orders" in browser.text("#letters .row")
        assert re.search(r"in check, from orders, partition \d, offset 1", browser.text("#letters .row"))
        browser.click("#letters .row")
        facts = browser.text("#panel dl")
        assert "check" in facts
        assert "-3.0" in facts
        assert browser.text("#panel .stack").startswith("Traceback")
        assert "hidden" not in browser.text("body")
        browser.click("#panel-close")
        browser.wait("!!document.querySelector('#applications a')", "the other application")
        assert browser.value("document.documentElement.scrollWidth <= innerWidth")
        browser.click("#applications a")
        browser.wait("document.querySelector('#application')?.textContent == 'billing'", "its page")
        assert browser.value("location.pathname") == "/applications/billing/"
        browser.wait("document.querySelector('#commit').textContent != '–'", "its figures")
        assert browser.complaints() == []


NUMBERS = {
    "count(9999.4)": "9,999",
    "count(9999.6)": "10.0k",
    "count(99_949)": "99.9k",
    "count(999_951)": "1.0M",
    "count(2 ** 63)": "9.2e18",
    "count(-1234567)": "-1.2M",
    "count(NaN)": "–",
    "rate(9.96)": "10",
    "size(1023)": "1023 B",
    "size(1048570)": "1.0 MB",
    "size(2 ** 62)": "4.0 EB",
    "span(999.7)": "1.0 s",
    "span(59_700)": "1 min 0 s",
    "span(3_599_700)": "1 h 0 min",
    "span(-5)": "-5 ms",
    "span(1.7e15)": "19,675,925 d",
    "moment(253_402_300_800_000)": "+010000-01-01 00:00:00",
    "moment(9e15)": "9000000000000000",
    "exact(counted('[9007199254740993, 1.5]')[0])": "9,007,199,254,740,993",
    "exact(counted('[9007199254740993, 1.5]')[1])": "1.5",
    "count(counted('[9007199254740993]')[0])": "9.0e15",
}


def test_numbers_of_every_size_are_short_and_whole_ones_exact(page: Browser):
    code = "import('./text.js').then(({count, counted, exact, moment, rate, size, span}) => [%s])"
    shown = page.value(code % ", ".join(NUMBERS))
    assert dict(zip(NUMBERS, shown, strict=True)) == NUMBERS


_HUGE = """fetch('api/figures').then((answer) => answer.json()).then((found) => {
    const sizes = {minutes: {rows: 'HUGE', bytes: 'HUGE'}};
    const losses = found.losses.map((one) => ({...one, records: 'HUGE'}));
    const text = JSON.stringify({...found, commit: 'HUGE', rate: 1e15, stores: sizes, losses});
    const data = text.replaceAll('"HUGE"', '9223372036854775807');
    heard.at(-1).dispatchEvent(new MessageEvent('figures', {data}));
    const fits = (one) => one.scrollWidth <= one.clientWidth;
    return [document.querySelector('#commit').textContent, document.querySelector('#losses .rate').textContent,
        document.documentElement.scrollWidth <= innerWidth, [...document.querySelectorAll('.tile')].every(fits)];
})"""


def test_no_number_breaks_the_page(browser: Browser, shop: Shown):
    spy = """window.heard = []
        window.EventSource = class extends EventSource { constructor(url) { super(url); heard.push(this) } }"""
    added = browser.call("Page.addScriptToEvaluateOnNewDocument", source=spy)["identifier"]
    browser.open(shop.url)
    browser.wait("window.heard?.length > 0 && !!document.querySelector('#losses .rate')", "the page listens")
    for width in (1280, 390):
        browser.size(width, 844, mobile=width < 400)
        assert browser.value(_HUGE) == ["9,223,372,036,854,775,807"] * 2 + [True, True]
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added)
