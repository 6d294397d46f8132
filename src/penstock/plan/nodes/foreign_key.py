"""The steps of a foreign-key join, one for each processor of Kafka Streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from penstock.plan.columns import KEY, NEITHER, VALUE, Columns
from penstock.plan.functions import Maker, UserFunction
from penstock.plan.kept import Kept, KeptSubscriptions
from penstock.plan.node import UNTRACED, Node, Stores, StoreSpec
from penstock.serdes import Serde

if TYPE_CHECKING:
    from penstock.plan.nodes.topics import Repartition

_ADVICE = 'name="..." of the foreign-key join'


@dataclass(frozen=True, eq=False, kw_only=True)
class SubscriptionSend(Node):
    """Sends each change of the left table of a foreign-key join to where the right table's key is."""

    mapper: UserFunction
    """Takes the foreign key out of a value."""
    is_left: bool
    key: Serde
    left_key: Serde

    keeps_columns: ClassVar[Columns] = NEITHER

    @property
    def function(self) -> UserFunction:
        return self.mapper

    @property
    def asks_old_of(self) -> tuple[Node, ...]:
        return (self.parent,)


@dataclass(frozen=True, eq=False, kw_only=True)
class SubscriptionReceive(Node):
    """Remembers the subscriptions of a foreign-key join."""

    store: StoreSpec

    store_advice: ClassVar[str] = _ADVICE

    @property
    def subscribe(self) -> Node:
        """The step that sends them, through a topic."""
        return self.parent.parent

    @property
    def keeps(self) -> Kept:
        return KeptSubscriptions()

    @property
    def clocks(self) -> tuple[tuple[str, str], ...]:
        return ((f"subscribers in {self.store.name}", self.subscribe.name),)


@dataclass(frozen=True, eq=False, kw_only=True)
class SubscriptionJoin(Node):
    """Answers subscriptions from the right table."""

    table: Node
    key: Serde

    keeps_columns: ClassVar[Columns] = NEITHER

    @property
    def joined(self) -> tuple[Node, ...]:
        return self.parent, self.table

    @property
    def looks_up(self) -> tuple[Node, ...]:
        return (self.table,)

    def connected_stores(self, facts: Stores) -> tuple[str, ...]:
        return facts.looked_up_stores(self.table)


@dataclass(frozen=True, eq=False, kw_only=True)
class ForeignTableJoin(Node):
    """Tells subscribers of the changes of the right table, its parent."""

    receive: SubscriptionReceive
    key: Serde

    keeps_columns: ClassVar[Columns] = NEITHER

    @property
    def reads_columns(self) -> Columns:
        """The joiner looks into the values, behind a repartition."""
        return VALUE

    @property
    def asks_old_of(self) -> tuple[Node, ...]:
        return (self.parent,)

    def connected_stores(self, facts: Stores) -> tuple[str, ...]:
        return (self.receive.store.name,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Announce(Node):
    """Tells whoever makes results of a foreign-key join of changes of its left table, past the right table.

    It is there where responses may come to rows that the record which caused them has changed meanwhile.
    """

    subscribe: Node = field(metadata=UNTRACED)
    """What else the table's changes go to; it knows those that are not sent."""
    value: Serde = field(metadata=UNTRACED)

    is_in_kafka_streams: ClassVar[bool] = False


@dataclass(frozen=True, eq=False, kw_only=True)
class ResponseJoin(Node):
    """Makes results of responses; Kafka Streams looks the left value up for that.

    The ``store`` has the number of the last change of each left row that was responded to.
    """

    table: Node
    store: StoreSpec
    joiner: UserFunction
    is_left: bool
    left: Serde
    right: Serde
    value: Serde
    announced: Repartition | None = None
    """Brings what ``Announce`` tells."""

    brings_values: ClassVar[bool] = True
    store_advice: ClassVar[str] = _ADVICE
    keeps_columns: ClassVar[Columns] = KEY

    @property
    def joined(self) -> tuple[Node, ...]:
        return (self.parent, self.table) if self.announced is None else (self.parent, self.announced, self.table)

    @property
    def right_table(self) -> Node:
        """The table that has the responses."""
        answers, _ = self.parent.parents
        assert isinstance(answers, SubscriptionJoin)
        return answers.table

    @property
    def also_behind(self) -> tuple[Node, ...]:
        return () if self.announced is None else (self.announced,)

    @property
    def joined_tables(self) -> tuple[Node, ...]:
        return self.table, self.right_table

    @property
    def looks_up(self) -> tuple[Node, ...]:
        return (self.table,)

    @property
    def makes_value(self) -> Maker:
        return Maker(self.joiner, self.value)

    def connected_stores(self, facts: Stores) -> tuple[str, ...]:
        return facts.looked_up_stores(self.table)
