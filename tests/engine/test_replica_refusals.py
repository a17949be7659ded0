"""What CREATE REPLICA says of a connection that is not there, and of columns that Delta cannot name. No Spark runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from tidefill import connect
from tidefill.delta.refusals import refuse_names
from tidefill.errors import UnknownTable, UpstreamUnfit


@pytest.mark.parametrize("source", ["shop.public.orders", "shop.orders"])
def test_a_connection_that_is_not_there(tmp_path: Path, source: str) -> None:
    urls = {"crm": "postgresql://localhost/crm", "erp": "postgresql://localhost/erp"}
    with connect(None, tmp_path / "lake", tmp_path / "store", connections=urls) as engine:
        with pytest.raises(UnknownTable) as refused:
            engine.create_replica("copy", source)
        assert "no connection shop" in refused.value.fact
        assert "crm, erp" in refused.value.detail
        assert "[connections.shop]" in refused.value.hint
        assert "REGISTER TABLE orders AS" in refused.value.hint, "the name may be one of the catalog"
    with connect(None, tmp_path / "lake", tmp_path / "other") as engine, pytest.raises(UnknownTable) as refused:
        engine.explain_replica(source)
    assert "no connections" in refused.value.detail


def test_a_name_without_a_dot_is_a_table(tmp_path: Path) -> None:
    with connect(None, tmp_path / "lake", tmp_path / "store") as engine, pytest.raises(UnknownTable) as refused:
        engine.create_replica("copy", "orders")
    assert "connection" not in str(refused.value)


def test_columns_that_delta_cannot_name_are_all_named() -> None:
    names = ["id", "first name", "a,b", "c;d", "{x}", "(y)", "t\tab", "n\nl", "e=f"]
    schema = StructType([StructField(name, LongType()) for name in names])
    with pytest.raises(UpstreamUnfit) as refused:
        refuse_names("shop.public.orders", schema, "Rename them.")
    assert all(repr(name) in refused.value.detail for name in names[1:])
    assert "'id'" not in refused.value.detail
    assert refused.value.hint == "Rename them."
    refuse_names("orders", StructType([StructField("näme-x.y", LongType())]), "")
