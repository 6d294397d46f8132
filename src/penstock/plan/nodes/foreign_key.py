"""The steps of a foreign-key join, one for each processor of Kafka Streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from penstock.plan.functions import Maker, UserFunction
from penstock.plan.kept import Kept, KeptSubscriptions
from penstock.plan.node import UNTRACED, Node, Stores, StoreSpec
from penstock.plan.used_columns import KEY, NEITHER, VALUE, Columns
from penstock.serdes import Serde

if TYPE_CHECKING:
    from penstock.plan.nodes.topics import Repartition

_ADVICE = 'name="..." of the foreign-key join'


@dataclass(frozen=True, eq=False, kw_only=True)
class SubscriptionSend(Node):
    """Sends each change of a foreign-key join's left table to the task with the right table's key."""

    mapper: UserFunction
    """Extracts the foreign key from a value."""
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
    """Stores the subscriptions of a foreign-key join."""

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
    """Answers subscriptions with values of the right table."""

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
    """Sends changes of the right table, its parent, to subscribers."""

    receive: SubscriptionReceive
    key: Serde

    keeps_columns: ClassVar[Columns] = NEITHER

    @property
    def reads_columns(self) -> Columns:
        """The joiner uses the values, after a repartition."""
        return VALUE

    @property
    def asks_old_of(self) -> tuple[Node, ...]:
        return (self.parent,)

    def connected_stores(self, facts: Stores) -> tuple[str, ...]:
        return (self.receive.store.name,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Announce(Node):
    """Announces changes of the left table to the step that makes the results of a foreign-key join, past the right
    table.

    It exists where the record that causes a response may have changed the response's left row meanwhile.
    """

    subscribe: Node = field(metadata=UNTRACED)
    """The other step that receives the table's changes; it knows the silent ones."""
    value: Serde = field(metadata=UNTRACED)

    is_in_kafka_streams: ClassVar[bool] = False


@dataclass(frozen=True, eq=False, kw_only=True)
class ResponseJoin(Node):
    """Makes results from responses; Kafka Streams looks up the left value for that.

    The ``store`` has, for each left row, the number of the last change that was responded to.
    """

    table: Node
    store: StoreSpec
    joiner: UserFunction
    is_left: bool
    left: Serde
    right: Serde
    value: Serde
    announced: Repartition | None = None
    """Brings the announcements of ``Announce``."""

    brings_values: ClassVar[bool] = True
    store_advice: ClassVar[str] = _ADVICE
    keeps_columns: ClassVar[Columns] = KEY

    @property
    def joined(self) -> tuple[Node, ...]:
        return (self.parent, self.table) if self.announced is None else (self.parent, self.announced, self.table)

    @property
    def right_table(self) -> Node:
        """The table whose values the responses carry."""
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
