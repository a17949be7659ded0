"""Views, pure: from the SQL of a user to the parts that can be kept up to date."""
