"""Opens what builds and runs the session's model with recorded schedules, for the jobs that need it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from workbench.engines.apply_protocol import Application
from workbench.engines.protocol import Engine
from workbench.errors import EnvironmentFault, SessionError
from workbench.records.profile import Profile
from workbench.records.request import ProfileRequest
from workbench.records.trial import MeasureOptions
from workbench.worker.context import JobContext

_LONGEST_RUN_S = 600.0


@contextlib.contextmanager
def opened_application(
    engine: Engine, context: JobContext, profile: Profile, options: MeasureOptions, *, trust: bool
) -> Iterator[tuple[Application, Path]]:
    """An application for the session's program, and a folder for what it writes.

    Raises:
        EnvironmentFault: The model cannot be run here, so that nothing could be verified.
    """
    seed = profiled_session(context)[1].seed
    with context.directory.scratch(context.command) as scratch:
        application = engine.apply(
            options,
            program=context.directory.program,
            scratch=scratch,
            seed=seed,
            trust=trust,
            expected_s=max(0.0, min((profile.total_us or 0.0) / 1e6, _LONGEST_RUN_S)),
            on_progress=context.on_progress,
        )
        try:
            if application.unrunnable:
                raise EnvironmentFault(f"The model cannot be verified here: {application.unrunnable}.", "Use a machine that has the device.")
            yield application, scratch
        finally:
            application.close()


def profiled_session(context: JobContext) -> tuple[Profile, ProfileRequest]:
    """The session's profile, and what it was made for.

    Raises:
        SessionError: It has none yet.
    """
    profile, request = context.store.profile(), context.store.request()
    if profile is None or request is None:
        raise SessionError("The session has no profile yet.", "Profile the model first.")
    return profile, request
