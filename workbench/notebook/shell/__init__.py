"""The frame of the app in a notebook: what is open, what is being done, and what may be done next."""
