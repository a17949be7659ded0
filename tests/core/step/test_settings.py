"""The limits of the settings that the planner is told."""

import math

import pytest

from tidefill.core.look import PARALLELISM_MAX
from tidefill.core.step import Knobs
from tidefill.errors import InvalidSetting


@pytest.mark.parametrize("parallelism", [0, -1, PARALLELISM_MAX + 1])
def test_parallelism_has_its_limits(parallelism: int) -> None:
    with pytest.raises(InvalidSetting, match="parallelism") as caught:
        Knobs(parallelism=parallelism)
    assert str(PARALLELISM_MAX) in caught.value.hint


@pytest.mark.parametrize("lag_s", [-0.001, -math.inf, math.nan])
def test_a_lag_is_not_negative(lag_s: float) -> None:
    with pytest.raises(InvalidSetting, match="target_lag"):
        Knobs(target_lag_s=lag_s)


def test_the_limits_themselves_are_allowed() -> None:
    assert Knobs(parallelism=1, target_lag_s=0.0) == Knobs()
    assert Knobs(parallelism=PARALLELISM_MAX).parallelism == PARALLELISM_MAX
