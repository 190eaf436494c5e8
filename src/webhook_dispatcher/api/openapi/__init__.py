"""The OpenAPI document of all operations, its page, and the two paths that show them."""
