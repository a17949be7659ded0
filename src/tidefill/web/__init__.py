"""The live page: how jobs stand, in a browser. It reads the store, and needs no Spark."""
