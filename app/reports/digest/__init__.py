"""A digest: what a user, or a run, held in a period, what of it was lost and to what, and what to change.

document.py   its contents: a plain value, its JSON form
advice.py     what to change, from the advice on checkpoints and the kinds of waste
words.py      its numbers as texts
render.py     its forms
"""
