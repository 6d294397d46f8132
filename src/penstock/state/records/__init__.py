"""State stores record by record, as processors read and write them: one chunk's dictionaries on top of the columns."""

from penstock.state.records.view import KeyValueIterator, RecordView
from penstock.state.records.views import record_view

__all__ = ["KeyValueIterator", "RecordView", "record_view"]
