"""Makes a session of old artifacts: read-only, since the model itself is not there."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from workbench.api.session import Session
from workbench.errors import InputError, SessionError
from workbench.escaping import file_stem, plain
from workbench.importing import artifacts as kinds
from workbench.importing.artifacts import Artifact, read_artifacts
from workbench.importing.build import Imported, build_import
from workbench.legacy.auto_scheduler.log import parse_auto_scheduler_log
from workbench.legacy.autotvm_log import parse_autotvm_log
from workbench.legacy.lines import Parsed
from workbench.legacy.log_files import AUTO_SCHEDULER_LOG, AUTOTVM_LOG
from workbench.records.graph import GRAPH_DOCUMENT
from workbench.records.match import MATCHES_DOCUMENT, RowMatches
from workbench.records.old_search import OLD_SEARCH_DOCUMENT
from workbench.records.profile import Profile
from workbench.records.request import IMPORTED, ModelSource, ProfileRequest
from workbench.session import SessionDirectory, default_path
from workbench.store import FORMAT_VERSION

_LOGS: Mapping[str, tuple[str, Callable[[str], Parsed[Any]]]] = {
    kinds.AUTO_SCHEDULER_LOG: (AUTO_SCHEDULER_LOG, parse_auto_scheduler_log),
    kinds.AUTOTVM_LOG: (AUTOTVM_LOG, parse_autotvm_log),
}


def import_artifacts(
    paths: str | Path | Iterable[str | Path], *, session: str | Path | None = None, name: str | None = None
) -> tuple[Session, Imported]:
    """Make a read-only session of what older TVM left behind.

    Args:
        paths: Files and folders that belong to one model: Relay text, debug tables, dumps, graphs, reports, task lists, logs.
        session: The directory; None takes ``workbench-sessions/<name>-imported``.
        name: What to call the model; None takes the name of the first file or folder.

    Returns:
        The session, and what was read: also the lines that were set aside.

    Raises:
        InputError: A file cannot be read, or is nothing that is known.
        ModelError: A program, graph or trace is damaged as a whole.
        SessionError: The directory holds another session.
    """
    given = [Path(item) for item in ([paths] if isinstance(paths, str | Path) else paths)]
    artifacts = read_artifacts(given)
    shown = name if name is not None else given[0].resolve().stem
    if not shown.strip():
        raise InputError("The name is empty.", "Give a name, or none.")
    imported = build_import(shown, artifacts)
    directory = SessionDirectory.create(Path(session) if session is not None else default_path(shown, IMPORTED))
    request = ProfileRequest(source=ModelSource(kind=IMPORTED, name=shown, stamp=_stamp(artifacts)), target="auto")
    try:
        _write(directory, request, imported, artifacts)
        _keep_logs(directory, artifacts)
    except BaseException:
        directory.discard()
        raise
    return Session(directory, request), imported


def _write(directory: SessionDirectory, request: ProfileRequest, imported: Imported, artifacts: tuple[Artifact, ...]) -> None:
    with directory.store() as store:
        known = store.request()
        if known is not None and known.source.kind != IMPORTED:
            raise SessionError(
                f"{plain(str(directory.path), 120)} is the session of a model that was profiled here.", "Give another directory: --session DIR."
            )
        if store.trials.count():
            raise SessionError(f"{plain(str(directory.path), 120)} holds trials already.", "Give another directory: --session DIR.")
        store.write_profile(
            imported.profile,
            _hashes(imported.profile),
            {
                "format_version": FORMAT_VERSION,
                "request": request.to_dict(),
                "engine": IMPORTED,
                "imported_from": [{"kind": artifact.kind, "path": str(artifact.path)} for artifact in artifacts],
                "imported_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
                "profile_id": request.source.stamp,
            },
            documents=_documents(imported),
        )
        progress = {item.task: item for item in imported.progress}
        for trial in imported.trials:
            store.trials.add(trial, "", progress[trial.task])


def _documents(imported: Imported) -> dict[str, Mapping[str, Any]]:
    """What belongs to the profile, by name."""
    matches = RowMatches({str(row): match for row, match in imported.matches.items()})
    documents: dict[str, Mapping[str, Any]] = {MATCHES_DOCUMENT: matches.to_dict()}
    documents[OLD_SEARCH_DOCUMENT] = imported.old_search.to_dict()
    if imported.graph is not None:
        documents[GRAPH_DOCUMENT] = imported.graph.to_dict()
    return documents


def _keep_logs(directory: SessionDirectory, artifacts: tuple[Artifact, ...]) -> None:
    """Keep what can be read of old tuners' logs among the session's records: a search can start from it, and stock TVM of that age reads it."""
    kept: dict[str, list[str]] = {}
    for artifact in artifacts:
        if artifact.kind in _LOGS:
            name, parse = _LOGS[artifact.kind]
            bad = {line.line for line in parse(artifact.text).bad}
            lines = enumerate(artifact.text.split("\n"), start=1)
            kept.setdefault(name, []).extend(line.strip() for number, line in lines if line.strip() and number not in bad)
    for name, good in kept.items():
        if good:
            directory.records.mkdir(exist_ok=True)
            (directory.records / name).write_text("\n".join(good) + "\n", encoding="utf-8")


def _hashes(profile: Profile) -> dict[str, str]:
    """Old functions have no structural hash of ours: their names stand for them."""
    return {str(row.kernel): file_stem(str(row.kernel)) for row in profile.rows}


def _stamp(artifacts: tuple[Artifact, ...]) -> str:
    digest = hashlib.sha256()
    for artifact in artifacts:
        digest.update(f"{artifact.kind}\0{artifact.text}\0".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:32]
