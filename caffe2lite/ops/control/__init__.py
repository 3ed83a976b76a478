"""Control flow, counters, statistics, checks, and other services of nets."""
