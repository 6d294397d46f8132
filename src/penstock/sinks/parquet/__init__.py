"""Parquet files in a folder or an object store, with manifests that say which batches count."""
