"""What the machine says of itself, and what a card's profile says of the card."""
