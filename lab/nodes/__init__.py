"""The lab's Kubernetes: what an EKS cluster is made of, as processes of this machine.

`runtime` is what the emulator calls. A cluster is a control plane (`control_plane`, `pki`), nodes that are real
(`real_node`, joined by `bridge`) or played by kwok (`kwok`, `device_controller`), and what EKS puts on top
(`addons`, `access`). `cleanup` finds and removes what a killed emulator left behind.
"""
