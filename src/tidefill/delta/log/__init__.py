"""The log of a Delta table: what each commit did (`commits`), read as files (`files`, `checkpoints`) or by Spark's
statements (`statements`). Upstreams and targets use `table_log`, which chooses."""
