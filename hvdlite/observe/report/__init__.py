"""`hvdlite report` and `hvdliterun --report`: one page with pictures of what a job has done."""
