"""How RocksDB keeps rows: what it holds in memory is bounded, however many rows there are."""

from __future__ import annotations

from rocksdict import BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, Options

MANIFEST_BYTES = 16 << 20
"""How long its list of files becomes before it is written anew, shorter."""


def database_options(cache: Cache, memory_table_bytes: int) -> Options:
    """The options of a database and of all its column families, which share a cache of blocks.

    Filters and indexes are in that cache, too. They are kept in pieces: the filter of a whole file is larger than what
    one shard of a small cache takes, so that it was read from disk, and forgotten, for every look at a large store.
    """
    blocks = BlockBasedOptions()
    blocks.set_bloom_filter(10, False)
    blocks.set_block_cache(cache)
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
    blocks.set_partition_filters(True)
    blocks.set_pin_top_level_index_and_filter(True)
    options = Options(raw_mode=True)
    options.set_max_manifest_file_size(MANIFEST_BYTES)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(memory_table_bytes)
    options.set_memtable_prefix_bloom_ratio(0.05)
    options.set_memtable_whole_key_filtering(True)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.lz4())
    return options
