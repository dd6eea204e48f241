"""What only `DistinctCount` needs: how large a table is, what its counts say, what leaves, unions of tables."""
