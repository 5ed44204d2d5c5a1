"""Interruptions, the rates of failures, and the nodes behind them."""
