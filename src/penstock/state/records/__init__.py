"""State stores record by record, as processors read and write them: dictionaries of a chunk over the columns."""

from penstock.state.records.view import KeyValueIterator, RecordView
from penstock.state.records.views import record_view

__all__ = ["KeyValueIterator", "RecordView", "record_view"]
