"""The handle of a running application, whichever engine runs it."""
