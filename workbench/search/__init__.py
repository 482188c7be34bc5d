"""The search loop: which task gets the next trials, what becomes of them, and when it ends. It knows no engine and draws nothing."""
