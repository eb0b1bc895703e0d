"""What everything stands on: checks, texts, numbers, files, randomness, errors and the boundary of public functions."""
