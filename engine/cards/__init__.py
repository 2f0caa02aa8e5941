"""Card profiles: a device, a model on it, and what each figure is worth: measured, published or assumed."""
