"""What applying the winners gave, in a notebook."""
