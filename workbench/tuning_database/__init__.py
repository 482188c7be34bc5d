"""MetaSchedule's database of two JSON files: read whatever its state, filtered by target, merged, repaired and written so that stock TVM loads it."""

from workbench.tuning_database.combining import decisive, for_target, merge
from workbench.tuning_database.content import BadLine, Database, TuningRecord, Workload
from workbench.tuning_database.decisions import decisions
from workbench.tuning_database.folder import RECORD_FILE, WORKLOAD_FILE
from workbench.tuning_database.reading import read_database
from workbench.tuning_database.repair import Repair, repair_database
from workbench.tuning_database.writer import DatabaseWriter

__all__ = [
    "RECORD_FILE",
    "WORKLOAD_FILE",
    "BadLine",
    "Database",
    "DatabaseWriter",
    "Repair",
    "TuningRecord",
    "Workload",
    "decisions",
    "decisive",
    "for_target",
    "merge",
    "read_database",
    "repair_database",
]
