"""How the bytes of records become values of columns, and the other way round."""
