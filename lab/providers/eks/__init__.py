"""The lab's `pulumi-resource-eks`: the components of pulumi-eks 4.4.0 that this repository uses.

Each builds the children that pulumi-eks builds, under the same names and with the same inputs, by
pulumi_aws. What it doesn't do it refuses, so that nothing works here that would differ on AWS. Left out
on purpose: the Kubernetes provider that pulumi-eks keeps for itself (nothing here uses it) and the wait
for a public endpoint (the lab's EKS is ACTIVE only once its API server answers).
"""
