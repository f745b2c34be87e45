"""The command `hvdlite`. hvdlite.launch has the command that starts jobs."""
