#!/bin/bash
# OpenTelemetry's JavaScript exporter writes a large number as a double in protobuf, and in JSON as an integer that protobuf's JSON reader
# refuses.
#
# Seen with @opentelemetry/otlp-transformer 0.223.1 and @opentelemetry/sdk-trace-base 2.12.1, read with opentelemetry-proto 1.45.2 and
# protobuf 7.36.2 for Python; on the left a span's attribute, then what each format gives its reader:
#   0.5: double_value: 0.5 from JSON, double_value: 0.5 from protobuf
#   1: int_value: 1 from JSON, int_value: 1 from protobuf
#   10000000000000000000: ParseError from JSON, double_value: 1e+19 from protobuf
#   1e+300: ParseError from JSON, double_value: 1e+300 from protobuf
#   NaN: nothing from JSON, double_value: nan from protobuf
# The error is that of the whole request: with this reader, one such attribute, perhaps a hash read as a number, costs every span of the
# batch. The JSON says {"intValue":10000000000000000000} and, for NaN, {"doubleValue":null}, where the format has the string "NaN".
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund @opentelemetry/otlp-transformer@0.223.1 @opentelemetry/sdk-trace-base@2.12.1 > /dev/null
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check opentelemetry-proto==1.45.2 protobuf==7.36.2
cat > export.mjs <<'JS'
import { JsonTraceSerializer, ProtobufTraceSerializer } from "@opentelemetry/otlp-transformer";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";

const base64 = (bytes) => Buffer.from(bytes).toString("base64");
for (const value of [0.5, 1, 1e19, 1e300, NaN]) {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  provider.getTracer("t").startSpan("turn").setAttribute("a", value).end();
  const spans = exporter.getFinishedSpans();
  const texts = [JsonTraceSerializer, ProtobufTraceSerializer].map((format) => base64(format.serializeRequest(spans)));
  console.log(value, ...texts);
}
JS
cat > read.py <<'PY'
import sys
from base64 import b64decode
from google.protobuf.json_format import Parse, ParseError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def attribute(read):
    try:
        return str(read().resource_spans[0].scope_spans[0].spans[0].attributes[0].value).strip() or "nothing"
    except ParseError:
        return "ParseError"


for line in sys.stdin:
    value, json, protobuf = line.split()
    from_json = attribute(lambda: Parse(b64decode(json), ExportTraceServiceRequest()))
    print(f"{value}: {from_json} from JSON, {attribute(lambda: ExportTraceServiceRequest.FromString(b64decode(protobuf)))} from protobuf")
PY
seen=$(node export.mjs | venv/bin/python read.py)
echo "$seen"
expected='0.5: double_value: 0.5 from JSON, double_value: 0.5 from protobuf
1: int_value: 1 from JSON, int_value: 1 from protobuf
10000000000000000000: ParseError from JSON, double_value: 1e+19 from protobuf
1e+300: ParseError from JSON, double_value: 1e+300 from protobuf
NaN: nothing from JSON, double_value: nan from protobuf'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
