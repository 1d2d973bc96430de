"""SQL rewrites on DuckDB: rules draft other texts of a query, tests refute them, times decide."""

from draftverify_sql.database import Database, QueryError, Tpch
from draftverify_sql.generators import AsWritten, Rewrites
from draftverify_sql.metrics import EstimatedSpeedUp, MillisecondsSaved, SameResult, SpeedUp
from draftverify_sql.rewrites import OWN, SHORTCUTS, SQLGLOT
from draftverify_sql.tasks import Queries
from draftverify_sql.verifier import Tested

__all__ = [
    "AsWritten",
    "Database",
    "EstimatedSpeedUp",
    "MillisecondsSaved",
    "OWN",
    "Queries",
    "QueryError",
    "Rewrites",
    "SHORTCUTS",
    "SQLGLOT",
    "SameResult",
    "SpeedUp",
    "Tested",
    "Tpch",
]
