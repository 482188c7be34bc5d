"""What leaves a session and what comes into one: tables of trials, records for stock TVM, and whole sessions as archives."""

from workbench.exchange.packing import pack_session
from workbench.exchange.records import export_records
from workbench.exchange.trial_table import TRIAL_COLUMNS, trials_csv, trials_parquet
from workbench.exchange.unpacking import is_archive, unpack_session

__all__ = ["TRIAL_COLUMNS", "export_records", "is_archive", "pack_session", "trials_csv", "trials_parquet", "unpack_session"]
