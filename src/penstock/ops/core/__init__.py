"""What every operator is made of: the operator itself, its context, calls of users' functions, groups and folds."""
