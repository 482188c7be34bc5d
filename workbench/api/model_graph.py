"""The stored graph of a session's model, if it is whole and that of the session's profile."""

from __future__ import annotations

from workbench.errors import SessionError
from workbench.escaping import plain
from workbench.records.decode import DecodeError
from workbench.records.graph import GRAPH_DOCUMENT, ModelGraph
from workbench.records.profile import Profile
from workbench.session import SessionDirectory


def model_graph(directory: SessionDirectory, profile: Profile, *, is_imported: bool) -> ModelGraph:
    """The graph; see `workbench.api.Session.graph`.

    Args:
        directory: The session.
        profile: Its profile.
        is_imported: True if the session was made of old artifacts.
    """
    with directory.store() as store:
        values = store.document(GRAPH_DOCUMENT)
    missing, again = "The session was profiled without keeping the model's graph.", "Profile the model again: session.profile(refresh=True)."
    if is_imported:
        missing, again = "Nothing that was imported says what reads what.", "Import it again, with a Relay program or a graph JSON."
    if values is None:
        raise SessionError(missing, again)
    try:
        graph = ModelGraph.from_dict(values)
    except DecodeError as error:
        raise SessionError(f"The graph of the session is damaged: {plain(str(error), 160)}.", again) from error
    if not graph.belongs_to(profile):
        raise SessionError("The graph of the session is not that of its profile.", again)
    return graph
