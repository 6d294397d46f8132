"""Avro, Protobuf and JSON with their schemas in a schema registry, through confluent-kafka's client."""

from penstock.serdes.registry.avro import Avro
from penstock.serdes.registry.json_schema import JsonSchema
from penstock.serdes.registry.place import SchemaRegistry
from penstock.serdes.registry.protobuf import Protobuf
from penstock.serdes.registry.serde import RegistrySerde

__all__ = ["Avro", "JsonSchema", "Protobuf", "RegistrySerde", "SchemaRegistry"]
