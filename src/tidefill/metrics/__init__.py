"""Figures of the jobs for Prometheus, and the command that is called when a job fails."""
