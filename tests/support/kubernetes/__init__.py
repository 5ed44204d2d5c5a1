"""What tests of Kubernetes share: objects, the published models of them, a stand-in for an API server."""
