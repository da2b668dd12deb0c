//go:build tools

// Package tools pins training-operator: `go build github.com/kubeflow/training-operator/cmd/training-operator.v1` in this module
// builds exactly the version that go.mod names.
package tools

import _ "github.com/kubeflow/training-operator/cmd/training-operator.v1"
