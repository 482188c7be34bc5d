"""What a search takes over from an earlier one of the same task: its search space, but no code, which has to be given again."""

from __future__ import annotations

from workbench.errors import SessionError
from workbench.escaping import plain
from workbench.records.tuning import DEFAULT_SPACE, TaskProgress, TuneRequest


def chosen_space(request: TuneRequest, earlier: TaskProgress | None) -> str:
    """The space that a task is searched in: the one asked for, or else that of the search which is resumed, or else the default."""
    if request.space:
        return request.space
    return earlier.space if request.resume and earlier is not None and earlier.space else DEFAULT_SPACE


def check_schedule(request: TuneRequest, earlier: TaskProgress | None) -> None:
    """Refuse to go on in another space than the user's own without being told to.

    Raises:
        SessionError: The task was searched with a schedule function, and the request names neither one nor a space.
    """
    if earlier is None or not (request.resume and earlier.schedule and earlier.trials) or request.schedule or request.space:
        return
    shown = plain(earlier.schedule, 120)
    raise SessionError(
        f"{plain(earlier.name)} was searched with the schedule function {shown}, which a resumed search needs again.",
        f"Give it again: --schedule {shown} --trust; or leave it for good: --space {DEFAULT_SPACE}.",
    )
