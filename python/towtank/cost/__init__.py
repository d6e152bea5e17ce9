"""What runs cost: price lists and the rules that turn used quantities into money. Pure functions, no files."""
