"""EC2 beyond moto: placement groups, capacity, interfaces, and what depends on what."""
