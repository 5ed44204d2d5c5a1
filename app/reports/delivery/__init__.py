"""Delivery of reports: to folders, S3, mail and webhooks.

    outbox.py     what was made and delivered, on disk
    parcel.py     a report as receivers get it
    secrets.py    secrets from the environment and from files
    send.py       one delivery: tries, pauses, outcome; dead letters
    folder.py s3.py smtp.py webhook.py chat.py    a module for each kind of target

A target's module has a function `send(target, parcel, settings)`: it returns when the receiver has accepted the report,
with a note where it accepted less than all, and raises `RefusedError`, or `RetryableError` where another try may help.
"""
