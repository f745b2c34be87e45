"""The command `hvdlite`. Starting jobs is another one: hvdlite.launch."""
