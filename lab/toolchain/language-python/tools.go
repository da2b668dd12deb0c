//go:build tools

// Package tools pins Pulumi's Python language host, a module of its own because
// the newest host that a Go module proxy serves is older than the engine's SDK.
package tools

import _ "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python"
