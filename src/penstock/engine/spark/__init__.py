"""Runs applications on Spark. Importing anything here raises ``ConfigError`` where PySpark is not installed."""

from importlib.util import find_spec

from penstock.errors import ConfigError

if find_spec("pyspark") is None:
    raise ConfigError("this needs PySpark, which is not installed: pip install 'penstock-streams[spark]'")
