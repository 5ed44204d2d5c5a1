"""The explorer's pages, one file each."""
