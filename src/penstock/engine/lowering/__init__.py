"""From the parts of a sub-topology to operators."""
