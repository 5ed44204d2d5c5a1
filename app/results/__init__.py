"""Numbers for a cluster and a window: named query -> metric -> rows. Every number of the product comes from here.

`compute` stores what these functions return for the standard windows; `show` and `verify` call them for any other.
So one number is the same wherever it is shown. Import each function from the module that defines it.
"""
