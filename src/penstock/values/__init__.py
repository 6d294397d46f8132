"""Small values that users write: durations, times, sizes, names, offsets."""
