"""A real API server of Kubernetes on a real etcd, with the controllers that make pods; and a kubelet that is none."""
