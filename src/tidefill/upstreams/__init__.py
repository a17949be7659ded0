"""Tables that are read while others write them."""
