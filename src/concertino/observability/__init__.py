"""Traces and metrics by the conventions of OpenTelemetry."""

from ..extras import extra

with extra("otel", "traces and metrics"):
    from .open_telemetry import OpenTelemetry
    from .requests import TraceRequests

__all__ = ["OpenTelemetry", "TraceRequests"]
