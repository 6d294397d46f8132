"""The operations of a log, by use: `Topics`, `Reader`, `Writer` and `Publishing`; a `Log` has all of them."""
