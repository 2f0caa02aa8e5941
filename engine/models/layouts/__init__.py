"""How each family of models lays out a turn's context, read from what its config states. One file per kind of layout."""
