"""The lab's `pulumi-resource-aws`: pulumi-aws's types over boto3, for an AWS on loopback only.

`resources/` says what exists (one table entry per type); the other modules run any entry:
server → configuration, check, diff, lifecycle → convert, waiting, wire.
"""
