"""The lab's Pulumi plugins: rules as pure functions, the servicer in-process, and the real engine (lab)."""
