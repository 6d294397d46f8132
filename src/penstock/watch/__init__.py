"""Looking at a running application: a page, Prometheus, OpenTelemetry; all from what it commits."""
