"""What a person looks at, as text: pure functions from frozen values, told the width and whether colours are wanted.

No line is ever wider than it may be (for a width of WIDTH_MIN or more), counted in the cells of a terminal. Text from
outside never reaches the terminal as a command to it: what is not printable is escaped.
"""
