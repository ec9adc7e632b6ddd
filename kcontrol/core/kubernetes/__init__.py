"""kcontrol's custom resources in Kubernetes: what follows from what they say, as functions of it."""
