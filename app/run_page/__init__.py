"""`trackside run`: one page about one run or job: which run is meant, its numbers, and the page as lines of text."""
