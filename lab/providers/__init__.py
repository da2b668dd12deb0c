"""The lab's Pulumi plugins: aws (raw provider protocol) and eks (components). bin/ starts them."""
