"""Completion in bash, zsh and fish: a short script for each shell, and one program that all of them call."""
