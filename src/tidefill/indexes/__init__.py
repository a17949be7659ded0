"""Global indexes over tables of PostgreSQL, pure: states, trigger bodies, and every SQL text of a shape."""
