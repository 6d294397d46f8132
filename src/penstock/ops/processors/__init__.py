"""The Processor API at work: records one after the other through a processor of the user's."""
