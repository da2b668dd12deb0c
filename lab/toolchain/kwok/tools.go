//go:build tools

// Package tools pins kwok: `go build sigs.k8s.io/kwok/cmd/kwok` in this module
// builds exactly the version that go.mod names.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
