"""How results are printed: one module for each report that several commands, or a long one, need."""
