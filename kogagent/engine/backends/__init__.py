"""The programs that compute: one for each place a model can run."""
