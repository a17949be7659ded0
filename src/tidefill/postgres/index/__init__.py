"""Makes and keeps global indexes over tables of PostgreSQL."""
