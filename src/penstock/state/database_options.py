"""RocksDB's options: its memory is bounded, whatever the number of rows."""

from __future__ import annotations

from rocksdict import BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, Options

MANIFEST_BYTES = 16 << 20
"""The size of its manifest at which a new, shorter one is written."""


def database_options(cache: Cache, memory_table_bytes: int) -> Options:
    """The options of a database and of all its column families, which share a cache of blocks.

    Filters and indexes are in that cache, too, in partitions. The filter of a whole file is larger than a shard of a
    small cache, so an unpartitioned filter was read from disk again for every look-up in a large store.

    One thread opens the files. RocksDB would start 15 more for each column family, which takes half of the CPU of
    opening a small database.
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
    options.set_max_file_opening_threads(1)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(memory_table_bytes)
    options.set_memtable_prefix_bloom_ratio(0.05)
    options.set_memtable_whole_key_filtering(True)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.lz4())
    return options
