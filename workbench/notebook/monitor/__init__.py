"""A running search in a notebook: trials as they are measured, what they mean for the model, and the means to steer it."""
