"""A session's profile for Python users: the records, a data frame of them, and selections."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from workbench.api.given import names, row_numbers
from workbench.records.match import RowMatch
from workbench.records.profile import DEBUG_RUNTIME_COLUMNS, Profile, Row, Task
from workbench.records.request import ProfileRequest
from workbench.records.selection import Selection
from workbench.selection import select
from workbench.session import SessionDirectory, stored_matches

if TYPE_CHECKING:
    import pandas as pd


class SessionProfile:
    """Rows and tasks of a session's model.

    Attributes:
        record: All of it as plain data.
    """

    def __init__(self, directory: SessionDirectory, record: Profile) -> None:
        self._directory = directory
        self.record = record

    @functools.cached_property
    def matches(self) -> Mapping[int, RowMatch]:
        """How surely each row of an imported session is tied to the program, by row number; empty in any other session, whose links are exact."""
        with self._directory.store() as store:
            return stored_matches(store)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Kernel calls in execution order, then the ``runtime`` row."""
        return self.record.rows

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Distinct kernels."""
        return self.record.tasks

    def frame(self) -> pd.DataFrame:
        """The debug-runtime table, one row a kernel call, indexed by row number.

        Columns: those of TVM's debug runtime (``Node Name, Ops, Time(us), Time(%), Shape, Inputs, Outputs``; times are medians in
        microseconds), then origins, dtype, FLOP, GFLOP/s, kernel, task and the rest of `workbench.records.profile.Row`.
        Rows of an imported session have ``match`` too, from 0 to 1, and its ``evidence`` in words.
        ``attrs["notes"]`` lists what a reader must know, e.g. "random weights"; ``attrs["unmeasured"]`` says why there are no times.
        """
        import pandas as pd  # noqa: PLC0415 - pandas takes 0.3 s to load, and only this method needs it

        matches = self.matches
        told = {row: {"match": match.confidence, "evidence": match.words} for row, match in matches.items()}
        unknown = {"match": None, "evidence": ""} if matches else {}
        records = [{**row.to_dict(), **told.get(row.row, unknown)} for row in self.record.rows]
        frame = pd.DataFrame.from_records(records, index="row") if records else pd.DataFrame()
        first = [name for name in DEBUG_RUNTIME_COLUMNS if name in frame.columns]
        rest = [name for name in frame.columns if name not in DEBUG_RUNTIME_COLUMNS]
        frame = frame[[*first, *rest]].rename(columns=DEBUG_RUNTIME_COLUMNS)
        frame.attrs.update(notes=list(self.record.notes), unmeasured=self.record.unmeasured)
        return frame

    def select(
        self,
        *,
        share: float | None = None,
        top: int | None = None,
        rows: Iterable[int] | int | str | None = None,
        tasks: Iterable[str] | str | None = None,
        ops: Iterable[str] | str | None = None,
    ) -> Selection:
        """Tick tasks by rules (see `workbench.selection.select`) and keep the selection in the session.

        A lone text is one name, and NumPy's numbers are numbers. Rows may be a text, as on the command line: ``"0,2,5-9"``.

        Raises:
            SelectionError: A rule names nothing, or nothing that can be tuned.
        """
        selection = select(
            self.record,
            share=share,
            top=top,
            rows=None if rows is None else row_numbers(rows, len(self.record.kernel_rows)),
            tasks=names("tasks", tasks),
            ops=names("ops", ops),
        )
        with self._directory.store() as store:
            store.write_selection(selection)
        return selection

    def to_dict(self) -> dict[str, Any]:
        """The profile as in ``profile --json``."""
        return self.record.to_dict()

    def __repr__(self) -> str:
        record = self.record
        time = "not measured" if record.total_us is None else f"{record.total_us:,.1f} us"
        return f"<SessionProfile {record.model} on {record.target}: {len(record.rows)} rows, {len(record.tasks)} tasks, {time}>"


def stored_profile(directory: SessionDirectory, *, answering: ProfileRequest | None = None) -> SessionProfile | None:
    """The profile that a session holds, if it holds one, and if it answers what is asked for."""
    with directory.store() as store:
        record = store.profile()
        is_answer = answering is None or _answers(store.request(), answering)
    return None if record is None or not is_answer else SessionProfile(directory, record)


def _answers(known: ProfileRequest | None, asked: ProfileRequest) -> bool:
    """True if a profile that was made for one request answers another."""
    return known is not None and known.asks_the_same(asked) and asked.repeat in (None, known.repeat)
