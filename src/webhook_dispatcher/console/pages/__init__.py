"""The pages, one file each: what a page asks of the database, and what its template is given."""
