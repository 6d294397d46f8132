"""The Processor API: records pass one by one through the user's processor."""
