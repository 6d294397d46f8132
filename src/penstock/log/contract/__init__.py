"""What a log can do, by who asks for it: `Topics`, `Reader`, `Writer` and `Publishing`; a `Log` does all of it."""
