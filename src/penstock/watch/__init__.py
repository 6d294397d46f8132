"""Watching a running application through its commits: a page, Prometheus, OpenTelemetry."""
