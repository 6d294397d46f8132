"""An application that goes on with another number of partitions."""
