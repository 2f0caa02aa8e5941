"""How each family of models lays out a turn's context, as its config states it. One file per kind of layout."""
