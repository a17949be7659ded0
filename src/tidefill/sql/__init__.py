"""SQL as a user types it: a script becomes statements, which say what the engine shall do."""
