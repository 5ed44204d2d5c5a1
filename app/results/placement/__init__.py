"""Results about placement: where attempts lie in the network, and what room there is."""
