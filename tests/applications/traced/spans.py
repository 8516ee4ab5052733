"""Keeps the spans of this process, and says which there are."""

import json

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)


def described(span: ReadableSpan) -> dict[str, object]:
    """Return what a test compares of a span."""
    context = span.get_span_context()
    assert context is not None
    parent = span.parent
    return {
        "name": span.name,
        "kind": span.kind.name,
        "trace": f"{context.trace_id:032x}",
        "id": f"{context.span_id:016x}",
        "parent": parent and f"{parent.span_id:016x}",
        "state": parent and parent.trace_state.to_header(),
        "attributes": dict(span.attributes or {}),
        "status": span.status.status_code.name,
        "events": [event.name for event in span.events],
    }


def spans() -> str:
    """Return the spans that have ended as JSON, and forget them."""
    found = [described(span) for span in exporter.get_finished_spans()]
    exporter.clear()
    return json.dumps(found)


def current() -> str:
    """Return the id of the span in which the caller runs."""
    return f"{trace.get_current_span().get_span_context().span_id:016x}"
