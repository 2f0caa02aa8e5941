"""What the swarm plays: scripted agents, their files and generator, prompts from real text, and the player itself."""
