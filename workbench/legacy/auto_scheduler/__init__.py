"""What the original auto-scheduler (Ansor) wrote: its log, with the steps of each schedule, and its printed task list."""
