"""`hvdliterun --monitor`: shows what each rank does, on the terminal of the person who waits for
the job."""
