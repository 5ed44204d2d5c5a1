"""Stragglers: what slow workers, uneven work and communication cost a training step, replayed operation by operation.

Source: Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025
(arXiv 2505.05713), by the short name OSDI'25.
"""
