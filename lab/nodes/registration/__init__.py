"""Node objects: how nodes are registered, labelled and watched."""
