"""Writers: transactions on small tables that hit every corner. Seeded, so that a script repeats itself."""

from __future__ import annotations

from collections.abc import Callable

from tidefill.testing.memory.tables import GROUP, ID, VALUE, Row

GROUPS = 7
ROWS_MAX = 70
SKEWED_ONE_IN = 8
_MASK = (1 << 64) - 1


class Dice:
    """Cheap numbers, all from the one it starts with."""

    def __init__(self, seed: int) -> None:
        self._state = seed * 2862933555777941757 + 3037000493 & _MASK

    def upto(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        self._state = self._state * 6364136223846793005 + 1442695040888963407 & _MASK
        return (self._state >> 33) % limit


Changes = list[tuple[int, Row]]


def _new_row(dice: Dice, key: int) -> Row:
    group = dice.upto(GROUPS + 1)
    return (key, group if group < GROUPS else None, dice.upto(60) * 10, dice.upto(100))


def initial_rows(seed: int, count: int) -> list[Row]:
    """The table as it is before anybody looks: gaps between the keys; now and then one group has most of the rows."""
    dice = Dice(seed)
    rows = [_new_row(dice, 10 * number) for number in range(count)]
    if seed % SKEWED_ONE_IN:
        return rows
    return [(row[ID], GROUPS - 1, *row[GROUP + 1 :]) if row[ID] % 50 else row for row in rows]


class Transaction:
    """Collects what one transaction does to `rows`, one image at a time."""

    def __init__(self, rows: dict[int, Row], dice: Dice) -> None:
        self.rows = rows
        self.dice = dice
        self.changes: Changes = []
        self.moved: list[tuple[Row, Row]] = []

    def _pick(self) -> Row | None:
        return list(self.rows.values())[self.dice.upto(len(self.rows))] if self.rows else None

    def _put(self, row: Row) -> None:
        self._drop(self.rows.get(row[ID]))
        self.rows[row[ID]] = row
        self.changes.append((1, row))

    def _drop(self, row: Row | None) -> None:
        if row is not None:
            del self.rows[row[ID]]
            self.changes.append((-1, row))

    def insert(self) -> None:
        """Somewhere."""
        self._put(_new_row(self.dice, self.dice.upto(700)))

    def insert_behind(self) -> None:
        """Behind all others: a hot tail."""
        self._put(_new_row(self.dice, max(self.rows, default=0) + 1 + self.dice.upto(5)))

    def update(self) -> None:
        """A value that no walk looks at."""
        row = self._pick()
        if row is not None:
            self._put((*row[:VALUE], self.dice.upto(100)))

    def delete(self) -> None:
        """A row."""
        self._drop(self._pick())

    def delete_run(self) -> None:
        """A stretch of rows next to each other."""
        first = self._pick()
        if first is not None:
            for key in [key for key in self.rows if first[ID] <= key < first[ID] + 150]:
                self._drop(self.rows[key])

    def move(self) -> None:
        """To another group: its place in a walk along the group changes."""
        row = self._pick()
        if row is not None:
            moved = (row[ID], self.dice.upto(GROUPS), *row[GROUP + 1 :])
            self.moved.append((row, moved))
            self._put(moved)

    def rekey(self) -> None:
        """To another key, perhaps one that was just free."""
        row = self._pick()
        key = self.dice.upto(700)
        if row is not None and key not in self.rows:
            moved = (key, *row[1:])
            self.moved.append((row, moved))
            self._drop(row)
            self._put(moved)

    def come_and_go(self) -> None:
        """Inserted and deleted again at once; or deleted and inserted again."""
        self.insert()
        self.delete()
        row = self._pick()
        if row is not None:
            self._drop(row)
            self._put((*row[:VALUE], self.dice.upto(100)))


KINDS: tuple[Callable[[Transaction], None], ...] = (
    Transaction.insert,
    Transaction.insert,
    Transaction.insert_behind,
    Transaction.insert_behind,
    Transaction.update,
    Transaction.update,
    Transaction.update,
    Transaction.delete,
    Transaction.move,
    Transaction.move,
    Transaction.rekey,
    Transaction.come_and_go,
    Transaction.delete_run,
)


def transact(rows: dict[int, Row], seed: int) -> Transaction:
    """What one transaction does to these rows (in place): mostly little, sometimes a burst."""
    dice = Dice(seed)
    transaction = Transaction(rows, dice)
    if len(rows) > ROWS_MAX:
        transaction.delete_run()
    size = 8 if dice.upto(16) == 0 else 1 + dice.upto(3)
    for _ in range(size):
        KINDS[dice.upto(len(KINDS))](transaction)
    return transaction
