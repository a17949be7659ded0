"""Every kind of statement, as text and as what it means."""

from __future__ import annotations

from tidefill.sql.statements import (
    AlterJob,
    CancelJob,
    CatalogTable,
    CreateReplica,
    CreateView,
    DropJob,
    DropReplica,
    DropView,
    Explain,
    Location,
    PauseJob,
    Query,
    RegisterTable,
    ResumeJob,
    ResyncJob,
    ShowEvents,
    ShowJob,
    ShowJobs,
    ShowSteps,
    ShowTables,
    Statement,
    UnregisterTable,
    Verify,
)

STATEMENTS: dict[str, Statement] = {
    "REGISTER TABLE events LOCATION 'lake/events' KEY (id)": RegisterTable("events", Location("lake/events"), ("id",)),
    "REGISTER TABLE e LOCATION 'x' KEY (a, `b c`) WALK (day, a)": RegisterTable(
        "e", Location("x"), ("a", "b c"), ("day", "a")
    ),
    "REGISTER TABLE e AS main.shop.`Events` KEY (id)": RegisterTable(
        "e", CatalogTable(("main", "shop", "Events")), ("id",)
    ),
    "REGISTER TABLE e AS t KEY (id) WALK (d)": RegisterTable("e", CatalogTable(("t",)), ("id",), ("d",)),
    "UNREGISTER TABLE e": UnregisterTable("e"),
    "UNREGISTER TABLE IF EXISTS e": UnregisterTable("e", if_exists=True),
    "SHOW TABLES": ShowTables(),
    "CREATE MATERIALIZED VIEW v AS SELECT a FROM t": CreateView("v", "SELECT a FROM t"),
    "CREATE MATERIALIZED VIEW IF NOT EXISTS v AS WITH q AS (SELECT 1) SELECT * FROM q": CreateView(
        "v", "WITH q AS (SELECT 1) SELECT * FROM q", if_not_exists=True
    ),
    "CREATE MATERIALIZED VIEW v WITH (Target_Lag = '30 seconds', rate_limit = 5) AS SELECT 1": CreateView(
        "v", "SELECT 1", (("target_lag", "30 seconds"), ("rate_limit", 5))
    ),
    "CREATE REPLICA r FROM orders": CreateReplica("r", ("orders",)),
    "CREATE MATERIALIZED VIEW v WITH (refresh = full) AS SELECT 1": CreateView("v", "SELECT 1", (("refresh", "full"),)),
    "CREATE REPLICA IF NOT EXISTS r FROM shop.public.orders WITH (rate_limit = 50000)": CreateReplica(
        "r", ("shop", "public", "orders"), (("rate_limit", 50000),), if_not_exists=True
    ),
    "CREATE OR REPLACE MATERIALIZED VIEW v WITH (refresh = full) AS SELECT 1": CreateView(
        "v", "SELECT 1", (("refresh", "full"),), or_replace=True
    ),
    "EXPLAIN CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1": Explain(CreateView("v", "SELECT 1", or_replace=True)),
    "EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT 1": Explain(CreateView("v", "SELECT 1")),
    "EXPLAIN SQL CREATE REPLICA r FROM a.b": Explain(CreateReplica("r", ("a", "b")), with_sql=True),
    "DROP MATERIALIZED VIEW v": DropView("v"),
    "DROP MATERIALIZED VIEW IF EXISTS v": DropView("v", if_exists=True),
    "DROP REPLICA r": DropReplica("r"),
    "DROP REPLICA IF EXISTS r": DropReplica("r", if_exists=True),
    "DROP JOB x": DropJob("x"),
    "DROP JOB cascade CASCADE": DropJob("cascade", cascade=True),
    "DROP JOB IF EXISTS cascade": DropJob("cascade", if_exists=True),
    "DROP REPLICA r RESTRICT": DropReplica("r"),
    "DROP MATERIALIZED VIEW IF EXISTS v CASCADE": DropView("v", if_exists=True, cascade=True),
    "SHOW JOBS": ShowJobs(),
    "SHOW JOB x": ShowJob("x"),
    "SHOW EVENTS": ShowEvents(),
    "SHOW EVENTS x": ShowEvents("x"),
    "SHOW EVENTS FOR x": ShowEvents("x"),
    "SHOW STEPS x": ShowSteps("x"),
    "PAUSE JOB x": PauseJob("x"),
    "PAUSE JOB x FILL": PauseJob("x", fill_only=True),
    "RESUME JOB x": ResumeJob("x"),
    "CANCEL JOB x": CancelJob("x"),
    "CANCEL JOB x CASCADE": CancelJob("x", cascade=True),
    "CANCEL JOB x RESTRICT": CancelJob("x"),
    "RESYNC JOB x": ResyncJob("x"),
    "VERIFY x": Verify("x"),
    "VERIFY JOB x": Verify("x"),
    "ALTER JOB x SET RATE_LIMIT = 1000": AlterJob("x", (("rate_limit", 1000),)),
    "ALTER JOB x SET RATE_LIMIT TO NONE, PARALLELISM = 4": AlterJob("x", (("rate_limit", None), ("parallelism", 4))),
    "SELECT a, ';' FROM t WHERE b > (1)": Query("SELECT a, ';' FROM t WHERE b > (1)"),
    "WITH q AS (SELECT 1) SELECT * FROM q": Query("WITH q AS (SELECT 1) SELECT * FROM q"),
}
