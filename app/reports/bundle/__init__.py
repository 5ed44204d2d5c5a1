"""The evidence bundle: pseudonymised inputs of a report, with which the other party reproduces every verdict.

names.py     pseudonyms, by a secret that stays with the sender
columns.py   which tables and columns are in it, and what becomes of each
inputs.py    their rows
claims.py    the claims file and calendars, with the same pseudonyms
rebuild.py   a warehouse made of the inputs, and its report
write.py     the bundle; archive.py: its bytes; sshsig.py: its signature
check.py     the other party's check
"""
