//go:build tools

// Package tools names what `make kubernetes-test` builds, so that go.mod keeps what they need.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
