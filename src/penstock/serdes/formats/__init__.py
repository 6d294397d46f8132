"""Formats of topics whose values are envelopes around the rows: change data, CloudEvents, JSON lines."""

from penstock.serdes.formats.base import Format
from penstock.serdes.formats.cloud_events import cloud_event
from penstock.serdes.formats.debezium import Change, debezium
from penstock.serdes.formats.json_lines import json_lines
from penstock.serdes.formats.maxwell import maxwell

__all__ = ["Change", "Format", "cloud_event", "debezium", "json_lines", "maxwell"]
