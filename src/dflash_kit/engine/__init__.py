"""Starting the engine, watching it, and ending it."""
