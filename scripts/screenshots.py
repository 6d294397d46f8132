"""Make the pictures of docs/looking.md and docs/spark.md: a shop at work, in a headless Chromium.

.venv/bin/python scripts/screenshots.py
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from penstock import (  # noqa: E402
    BufferConfig,
    JoinWindows,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    produce,
)
from penstock.engine.local import LocalApplication  # noqa: E402
from penstock.log.file.log import FileLog  # noqa: E402
from penstock.query.application import open_stores  # noqa: E402
from penstock.query.server import StateServer  # noqa: E402
from penstock.settings import Settings  # noqa: E402
from penstock.storage.base import LocalStorage  # noqa: E402
from penstock.testing import TopologyTestDriver  # noqa: E402
from penstock.watch.server import page_app  # noqa: E402
from penstock.watch.why import Replays  # noqa: E402
from support.browser import Browser, chromium  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
SEED, ROUNDS, PARTITIONS = 7, 12, 8


def shop() -> Topology:
    """Orders, payments and customers."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=dict)
    payments = builder.stream("payments", key=str, value=float)
    customers = builder.table("customers", key=str, value=dict, name="customers")
    minutes = TimeWindows.of_size_and_grace("1 minute", "10 seconds")
    counts = orders.group_by_key().windowed_by(minutes).count("orders-by-minute", name="by-minute")
    final = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final-counts"))
    final.to_stream().to("orders-a-minute")
    reach = JoinWindows.of_time_difference_and_grace("5 minutes", "10 seconds")
    orders.join(payments, lambda order, paid: {**order, "paid": paid}, reach).to("paid-orders")
    named = orders.left_join(customers, lambda order, customer: {**order, "name": (customer or {}).get("name")})
    named.filter(lambda key, order: order["amount"] > 20, name="large").to("large-orders")
    by_product = orders.group_by(lambda key, order: order["product"], name="by-product")
    gap = SessionWindows.of_inactivity_gap_and_grace("20 seconds", "5 seconds")
    by_product.windowed_by(gap).count("bursts", name="count-bursts")
    return builder.build()


class Market:
    """Makes orders and payments, some of them late."""

    def __init__(self, log: FileLog):
        self._log, self._random = log, random.Random(SEED)
        self._clock = int(time.time() * 1000) - 120_000
        self._people = [f"customer-{number}" for number in range(200)]
        produce([(one, {"name": one.title()}, 1) for one in self._people], "customers", str, dict, log, PARTITIONS)
        for topic, kind in (("orders", dict), ("payments", float)):
            produce([], topic, str, kind, log, PARTITIONS)

    def trade(self, count: int) -> None:
        """Have some orders come."""
        orders, payments = [], []
        for _ in range(count):
            self._clock += self._random.randint(0, 40)
            late = self._random.randint(0, 90_000) if self._random.random() < 0.01 else 0
            who, amount = self._random.choice(self._people), round(self._random.random() * 60, 2)
            order = {"product": self._random.choice(["tea", "rye", "jam", "oat"]), "amount": amount}
            orders.append((who, order, self._clock - late))
            payments.append((who, amount, self._clock))
        produce(orders, "orders", str, dict, self._log)
        produce(payments[::2], "payments", str, float, self._log)


def main() -> None:
    """Make all pictures."""
    if chromium() is None:
        raise SystemExit("this needs Chromium: apt-get install chromium")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-pictures-") as folder:
        _page(Path(folder))
    _timeline()
    with tempfile.TemporaryDirectory(prefix="penstock-pictures-") as folder:
        _spark(Path(folder))


def _page(folder: Path) -> None:
    log, storage, settings = FileLog(folder / "log"), LocalStorage(folder / "checkpoint"), Settings.load(environment={})
    market = Market(log)
    running = LocalApplication(shop(), "shop", settings, log, storage, folder / "state")
    stores = open_stores(folder)
    market.trade(2_000)
    running.run_until()
    page = page_app(stores, log, replays=Replays(f"{__file__}:shop", log.url))
    with StateServer(stores, "127.0.0.1", 0, page) as server, Browser() as browser:
        browser.size(1280, 1000, dark=False)
        browser.open(server.url)
        for _ in range(ROUNDS):
            market.trade(300)
            running.run_until()
            time.sleep(0.7)
        market.trade(120)
        time.sleep(1.5)
        browser.picture(PICTURES / "page-light.png")
        browser.size(1280, 1000, dark=True)
        browser.click("[data-node='final-counts'] .open")
        browser.wait("document.querySelectorAll('#panel tbody tr').length > 0")
        time.sleep(0.5)
        browser.picture(PICTURES / "page-dark.png")
        browser.click(".store[title='Store orders-by-minute']")
        browser.wait("document.querySelectorAll('#panel .key').length > 0")
        browser.click("#panel .key")
        browser.wait("!!document.querySelector('#panel .timeline')", "the replay", seconds=300)
        browser.size(1280, 1000, dark=False)
        time.sleep(0.5)
        browser.picture(PICTURES / "page-why.png")
        browser.click("#panel-close")
        browser.size(390, 844, mobile=True, dark=False)
        time.sleep(0.7)
        browser.picture(PICTURES / "phone.png")
    stores.close()


def _timeline() -> None:
    builder = StreamsBuilder()
    minutes = TimeWindows.of_size_and_grace("1 minute", "30 seconds")
    orders = builder.stream("orders", key=str, value=str).group_by_key()
    orders.windowed_by(minutes).count(name="by-minute").to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    seconds = [(5, "tea"), (40, "rye"), (75, "jam"), (50, "oat"), (130, "fig"), (55, "ale"), (140, "tea")]
    driver.pipe_record_list("orders", [("ann", item, second * 1000) for second, item in seconds])
    [line] = driver.timeline("ann")
    (PICTURES / "timeline.svg").write_text(line.to_svg() + "\n")


def _spark(folder: Path) -> None:
    """A program between files and tables on the page, and the same topology as a batch in Spark's own UI."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[4]").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.log.level", "OFF").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).appName("shop")
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    (folder / "in").mkdir()
    columns = "customer string, product string, amount int, at timestamp"
    for number in range(12):
        _write_orders(folder / "in" / f"{number}.json", number)

    def topology(orders: Any) -> Topology:
        steps = StreamsBuilder()
        rows = steps.stream(orders, name="orders", key="customer", timestamp="at", partitions=2)
        large = rows.filter(lambda key, order: order["amount"] > 30, name="large")
        by_product = large.group_by(lambda key, order: order["product"], key=str, name="by-product")
        counts = by_product.count("large-by-product", name="count-large")
        counts.to_stream().to_spark_table("large_orders", format="parquet", key="product", value="orders")
        return steps.build()

    stream = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    places = {"log": folder / "log", "state_dir": folder / "state"}
    with topology(stream).start("shop", spark=spark, slots=1, **places) as streams, Browser() as browser:
        stores = open_stores(folder / "state")
        page = page_app(stores, FileLog(folder / "log"))
        with StateServer(stores, "127.0.0.1", 0, page) as server:
            browser.size(1280, 900, dark=False)
            browser.open(server.url)
            while streams.last_progress is None or streams.last_progress.children[-1].batch < 1:
                time.sleep(0.5)
                if (error := streams.exception()) is not None:
                    raise error
            time.sleep(3)
            browser.size(1280, 560, dark=False)
            browser.value("document.getElementById('queries-card').scrollIntoView({block: 'end'})")
            time.sleep(0.5)
            browser.picture(PICTURES / "queries.png")
        streams.process_all_available()
        stores.close()
        rows = spark.read.schema(columns).json(str(folder / "in"))
        with topology(stream).run_batch(spark, {"orders": rows}) as result:
            result.dataframe("large_orders").write.parquet(str(folder / "out"))
        browser.size(1280, 760, dark=False)
        browser.open(f"{spark.sparkContext.uiWebUrl}/stages/")
        time.sleep(2)
        browser.picture(PICTURES / "spark-stages.png")
    spark.stop()


def _write_orders(file: Path, number: int) -> None:
    chosen, rows = random.Random(number), []
    for row in range(2_000):
        at = f"2026-01-01T{number // 4:02d}:{15 * (number % 4) + row % 15:02d}:00Z"
        order = {"product": chosen.choice(["tea", "rye", "jam", "oat"]), "amount": chosen.randint(1, 60), "at": at}
        rows.append(json.dumps({"customer": f"customer-{chosen.randint(1, 200)}", **order}))
    file.write_text("\n".join(rows))


if __name__ == "__main__":
    main()
