"""The parts shared by all operators: the operator interface, its context, calls of user functions, groups and folds."""
