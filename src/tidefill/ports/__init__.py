"""The seams. Each protocol is a contract with a conformance suite in `tidefill.testing.conformance`.

Frames are generic: a Spark DataFrame, or a list that is computed late. A frame is only a description until the target
evaluates it inside `commit`, perhaps more than once; an error in reading shows up there.
"""
