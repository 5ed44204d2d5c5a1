"""Grafana boards, generated from the metric catalog. They come with the next step; the room is kept here."""
