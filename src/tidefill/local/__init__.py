"""Servers on this machine, for first steps, the demo and tests. They end with the process that starts them."""
