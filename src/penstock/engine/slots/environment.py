"""The environment of the processes of slots, on Spark and without it."""

ENVIRONMENT = {
    # numpy and Arrow use arrays of some hundred kilobytes: without this glibc maps and unmaps each of them
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(512 << 20),
    # there are as many slots as cores
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Variables of every slot's process."""
