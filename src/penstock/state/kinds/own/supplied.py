"""Makes the objects of users' store classes, and checks them."""

from __future__ import annotations

from typing import Any

from penstock.errors import ConfigError
from penstock.state import interface


def supplied(supplier: Any, name: str, kind: type | tuple[type, ...], named: str) -> Any:
    """A new object of a user's class.

    Args:
        supplier: gives the object by ``get()``.
        name: the store's name.
        kind: the class that the object's class has to extend, or several of which one is enough.
        named: the name of this class in messages.

    Raises:
        ConfigError: the object is of another kind, has another name, or has a method in place of a property.
    """
    made: Any = supplier.get()
    own, where = f"{type(made).__module__}.{type(made).__qualname__}", f"the store {name!r}"
    if not issubclass(type(made), kind):
        raise ConfigError(
            f"{where}: get() of its supplier gave {made!r}. It must be of a class that extends {named}; nothing was "
            "started"
        )
    if getattr(made, "name", None) != name:
        raise ConfigError(
            f"{where}: get() of its supplier gave a {own} whose name is {getattr(made, 'name', None)!r}. Store and "
            "supplier have one name; nothing was started"
        )
    for fact in ("persistent", "is_open"):
        if callable(getattr(made, fact, None)):
            raise ConfigError(
                f"{where}: {fact} of {own} is a method, which always counts as true. Write @property above it, or an "
                f"attribute {fact} = True or False; nothing was started"
            )
    if not interface.tells_offsets(type(made)) and made.manages_offsets():
        raise ConfigError(
            f"{where}: {own} says that it manages_offsets(), and does not tell them: all of its rows would be "
            "compared at each start. Define committed_offset(topic_partition), or leave manages_offsets out; nothing "
            "was started"
        )
    interface.warn_if_old(type(made))
    return made
