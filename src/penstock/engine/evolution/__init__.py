"""Changed programs: which state continues, under which names, and which changes are refused."""
