"""The life of nodes out of service: outages, their stages, and how long capacity takes to be back."""
