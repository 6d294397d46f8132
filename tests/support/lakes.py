"""Real tables of Delta Lake and Iceberg in a folder, for tests that hold for both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.sinks import DeltaSink, IcebergSink, Sink


class DeltaLake:
    """Tables of Delta Lake."""

    def __init__(self, folder: Path):
        self.folder = folder

    def sink(self, name: str, **arguments: Any) -> Sink:
        return DeltaSink(self.folder / name, **arguments)

    def table(self, name: str) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(self.folder / name)

    def create(self, name: str, schema: Any) -> None:
        from deltalake import DeltaTable

        DeltaTable.create(self.folder / name, schema)

    def add(self, name: str, rows: Any) -> None:
        from deltalake import write_deltalake

        write_deltalake(self.folder / name, rows, mode="append")

    def arrow(self, name: str) -> Any:
        return self.table(name).to_pyarrow_table()

    def number(self, name: str, id: str) -> int | None:
        """The number that a table has of a partition."""
        found: int | None = self.table(name).transaction_version(id)
        return found


class IcebergLake:
    """Tables of Iceberg, whose catalog is an SQLite database."""

    def __init__(self, folder: Path):
        folder.mkdir(exist_ok=True)
        uri = f"sqlite:///{folder}/catalog.db"
        self.properties = {"name": "lake", "type": "sql", "uri": uri, "warehouse": folder.as_uri()}
        with self.catalog() as catalog:
            catalog.create_namespace_if_not_exists("shop")

    def catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog(**self.properties)

    def sink(self, name: str, **arguments: Any) -> Sink:
        return IcebergSink(self.properties, f"shop.{name}", **arguments)

    def table(self, name: str) -> Any:
        with self.catalog() as catalog:
            return catalog.load_table(f"shop.{name}")

    def create(self, name: str, schema: Any) -> None:
        with self.catalog() as catalog:
            catalog.create_table(f"shop.{name}", schema)

    def add(self, name: str, rows: Any) -> None:
        with self.catalog() as catalog:
            catalog.load_table(f"shop.{name}").append(rows)

    def arrow(self, name: str) -> Any:
        with self.catalog() as catalog:
            return catalog.load_table(f"shop.{name}").scan().to_arrow()

    def number(self, name: str, id: str) -> int | None:
        """The number that a table has of a partition, as its properties say."""
        said = self.table(name).properties.get(f"penstock.{id}")
        return None if said is None else int(said.split(" ")[1])


Lake = DeltaLake | IcebergLake

LAKES: dict[str, type[DeltaLake] | type[IcebergLake]] = {"delta": DeltaLake, "iceberg": IcebergLake}
