"""How the programs of a control plane are started."""
