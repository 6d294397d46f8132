"""The topology as frozen nodes; names, facts, sub-topologies, refusals, pictures."""
